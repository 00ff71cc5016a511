"""What each kind of line states: the choice, what was refused, and nothing that was merely possible."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_kit import READY, START, args_line, config_line, log_of, record

from m3probe.model.server_log import LogKind

K = LogKind


@pytest.mark.parametrize(
    ("text", "source", "kind", "value", "refused"),
    [
        ("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN'].", "cuda.py:476", K.ATTENTION, "FLASH_ATTN", ""),
        ("Using ROCM_ATTN backend out of potential backends: ['ROCM_AITER_FA'].", "rocm.py:5", K.ATTENTION, "ROCM_ATTN", ""),
        ("Using ROCmFlashAttention backend.", "rocm.py:110", K.ATTENTION, "ROCmFlashAttention", ""),
        ("Found incompatible backend(s) [TURBOQUANT] with AttentionType.DECODER. Overriding with ROCM_ATTN out of potential backends: ['ROCM_AITER_FA'].", "rocm.py:546", K.ATTENTION, "ROCM_ATTN", "TURBOQUANT with AttentionType.DECODER"),
        ("Using 'AITER_MXFP8' MxFp8 MoE backend.", "mxfp8.py:139", K.MOE, "AITER_MXFP8", ""),
        ("Using 'TRITON_MXFP8' MxFp8 MoE backend (user-requested).", "mxfp8.py:126", K.MOE, "TRITON_MXFP8", ""),
        ("Using AITER Fp8 MoE backend out of potential backends: ['AITER', 'EMULATION'].", "fp8.py:279", K.MOE, "AITER", ""),
        ("Using FlashInfer TRTLLM Unquantized MoE backend out of potential backends: ['TRITON'].", "unquantized.py:2", K.MOE, "FlashInfer TRTLLM", ""),
        ("Using native CDNA4 (gfx950) MXFP8 dot_scaled MoE backend.", "mxfp8.py:9", K.MOE, "native CDNA4 (gfx950) MXFP8", ""),
        ("Using Triton backend", "mxfp4.py:164", K.MOE, "Triton", ""),
        ("No Mxfp4 MoE backend supports activation=mxfp4 for the deployment configuration. Falling back to 'TRITON' with BF16 activations.", "mxfp4.py:510", K.MOE, "TRITON", "Mxfp4: no backend supports activation=mxfp4 for the deployment configuration"),
        ("Using AiterExperts", "mxfp4.py:22", K.EXPERTS, "AiterExperts", ""),
        ("Using EmulationMxfp8LinearKernel for MXFP8 GEMM", "__init__.py:982", K.LINEAR, "EmulationMxfp8LinearKernel", ""),
        ("--linear-backend=aiter has no kernel for this linear layer type; using automatic selection for that layer type.", "__init__.py:386", K.LINEAR, "", "--linear-backend=aiter has no kernel for this linear layer type; using automatic selection for that layer type."),
        ("Using ['AITER_CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential backends: ['QUICK_REDUCE'].", "cuda_communicator.py:352", K.ALL_REDUCE, "AITER_CUSTOM, PYNCCL", ""),
        ("Custom quick allreduce is disabled because this process group spans across nodes.", "quick_all_reduce.py:1", K.QUICK_REDUCE, "", "is disabled because this process group spans across nodes."),
        ("Custom quick allreduce: quantization codec threshold = 16 KB", "quick_all_reduce.py:1", K.QUICK_REDUCE, "quantization codec threshold = 16 KB", ""),
        ("MiniMax M3 sparse attention selected AITER_SPARSE_PA (kv_cache_dtype=fp8, topk_blocks=16)", "sparse_attention.py:4", K.SPARSE_ATTENTION, "AITER_SPARSE_PA", ""),
        ("MiniMax M3 indexer: selected AITER (fp8 MFMA score + top-k) [topk_blocks=16, indexer_kv_dtype=fp8]", "indexer_aiter.py:1", K.INDEXER, "AITER", ""),
        ("MiniMax M3 indexer: selected Triton (no fmha_sm100) [topk_blocks=16, indexer_kv_dtype=bf16, sm100=False]", "indexer.py:1", K.INDEXER, "Triton", "MSA: no fmha_sm100"),
        ("MiniMax M3 indexer: AITER unavailable (index dtype bf16)", "indexer_aiter.py:1", K.INDEXER, "", "AITER: index dtype bf16"),
        ("MiniMax M3 indexer CP: disabled (TP1)", "indexer_cp.py:1", K.INDEXER_CP, "", "TP1"),
        ("MiniMax M3 indexer CP: enabled over 4 ranks", "indexer_cp.py:1", K.INDEXER_CP, "over 4 ranks", ""),
        ("VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is enabled but cannot be enabled: EP is on.", "model.py:408", K.SHARED_EXPERT, "", "EP is on"),
        ("Cudagraph mode FULL requires piecewise capture, but inductor is off. Overriding to NONE.", "compilation.py:1", K.GRAPHS, "NONE", "FULL: requires piecewise capture, but inductor is off"),
        ("CUDAGraphMode.FULL is not supported with ROCM_ATTN backend (support: NEVER); setting cudagraph_mode=PIECEWISE", "c.py:1", K.GRAPHS, "PIECEWISE", "FULL is not supported with ROCM_ATTN backend (support: NEVER)"),
        ("Graph capturing finished in 21 secs, took 0.37 GiB", "gpu_model_runner.py:5", K.CAPTURED, "Graph capturing finished in 21 secs, took 0.37 GiB", ""),
        ("MiniMax-M3 specialized decode unsupported: TP2; needs TP4", "spec.py:1", K.MONOKERNEL, "", "TP2; needs TP4"),
    ],
)  # fmt: skip
def test_a_line_states_its_choice_and_what_was_refused(
    tmp_path: Path, text: str, source: str, kind: LogKind, value: str, refused: str
) -> None:
    (line,) = log_of(tmp_path, record(text, source=source)).said
    assert (line.kind, line.value, line.refused) == (kind, value, refused)


@pytest.mark.parametrize(
    "text",
    [
        "Using FLASH_ATTN MLA prefill backend.",
        "Using /tmp/x as a cache directory",
        "Using max model len 8192",
        "Using FlashInfer for top-p & top-k sampling.",
        "Selected something entirely different",
    ],
)
def test_sentences_that_begin_alike_state_no_backend(tmp_path: Path, text: str) -> None:
    assert [line.kind for line in log_of(tmp_path, record(text, source="model.py:1")).said if line.value] == []


@pytest.mark.parametrize(
    "line",
    [
        "(Worker_TP0 pid=9) [aiter] [fused_moe] using 2stage default for (256, 128, 6144)",
        "[aiter] no tuned FlyDSL config for (256, 8)",
        "(Worker_TP0 pid=9) [2026-11-09 18:16:02] WARNING gemm.py:353: shape is M:8, not found tuned config in a.csv, will use default config!",
    ],
)
def test_aiters_own_lines_say_that_no_tuned_row_was_found(tmp_path: Path, line: str) -> None:
    log = log_of(tmp_path, record("x"), line)
    assert [said.kind for said in log.said] == [K.UNTUNED]
    assert log.counts.foreign == 1


def test_a_progress_bar_tells_how_many_graphs_were_captured(tmp_path: Path) -> None:
    name = "Capturing CUDA graphs (decode, FULL)"
    bar = f"(Worker_TP0 pid=9) {name}:   0%|  | 0/7 [00:00<?]\r{name}: 100%|##| 7/7 [00:00<00:00,  9.64it/s]"
    (line,) = log_of(tmp_path, record("x"), bar).said
    assert (line.kind, line.value, line.process) == (K.CAPTURED, "FULL: 7 graphs", "Worker_TP0")


# --- configuration -------------------------------------------------------------------------------------------------


def test_a_start_tells_version_arguments_and_configuration(tmp_path: Path) -> None:
    log = log_of(tmp_path, *START)
    assert (log.version, log.ready, log.starts) == ("0.33.0", True, 1)
    assert log.asked is not None
    assert log.config is not None
    assert log.asked["tensor_parallel_size"] == 4
    assert log.config["dtype"] == "torch.bfloat16"
    assert log.config["served_model_name"] == "org/some-name-120b"
    assert log.config["enforce_eager"] is False
    assert log.config["compilation_config"] == {
        "mode": "NONE",
        "backend": "inductor",
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64],
        "max_cudagraph_capture_size": 64,
    }
    assert log.config["kernel_config"]["moe_backend"] == "aiter"
    assert log.config["kernel_config"]["class"] == "KernelConfig"


@pytest.mark.parametrize(
    "text",
    [
        "{'a': __import__('os').system('touch owned')}",
        "{'a': [].append(1)}",
        "{" + "'a': [" * 200 + "]" * 200 + "}",
        "{'a': 1",
        "{**{}}",
        "[1, 2]",
        "{'a': lambda: 1}",
    ],
)
def test_arguments_that_are_no_plain_values_are_not_known_and_never_run(tmp_path: Path, text: str) -> None:
    log = log_of(tmp_path, record(f"non-default args: {text}", "APIServer pid=1"), READY)
    assert log.asked is None
    assert not Path("owned").exists()


def test_keys_are_in_no_configuration(tmp_path: Path) -> None:
    log = log_of(tmp_path, args_line(api_key=["sesame"], hf_token="sesame", kv={"secret": "sesame", "n": 1}))
    assert log.asked is not None
    assert "sesame" not in str(log.asked)
    assert (log.asked["api_key"], log.asked["kv"]) == ("(set)", {"secret": "(set)", "n": 1})


def test_two_engines_of_one_server_are_one_start_and_two_servers_are_told(tmp_path: Path) -> None:
    same = log_of(tmp_path, *START, config_line())
    other = log_of(tmp_path, *START, config_line(tensor_parallel_size="8"))
    assert (same.starts, other.starts) == (1, 2)
    assert other.config is not None
    assert other.config["tensor_parallel_size"] == 4
