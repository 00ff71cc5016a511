"""Dispatch on stand-ins for MiniMax M3's seams: what was asked, what ran, which layer, and what an outer call hides."""

from __future__ import annotations

import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dispatch_kit import Hooked, Tensor, hooked, only

__all__ = ["hooked"]


class Ops:
    """``rocm_aiter_ops``."""

    _AITER_ENABLED = True

    @classmethod
    def fused_qknorm_idxrqknorm_enabled(cls, kv_cache_dtype: str, k_scale: Any = None, v_scale: Any = None) -> bool:
        return kv_cache_dtype == "auto" or (kv_cache_dtype in ("fp8", "fp8_e4m3") and None not in (k_scale, v_scale))

    @classmethod
    def fused_qknorm_idxrqknorm(cls, qkv: Tensor, *rest: Any, skip_index_branch: bool = False) -> None: ...


def test_qk_norm_compares_the_word_of_the_cache_dtype(hooked: Hooked) -> None:
    hooked.seam("ask_qknorm", Ops)
    hooked.hook("ran_qknorm_aiter")
    for dtype, scale in (("auto", None), ("bfloat16", None), ("fp8", None), ("fp8", 1.0)):
        if Ops.fused_qknorm_idxrqknorm_enabled(dtype, scale, scale):
            Ops.fused_qknorm_idxrqknorm(Tensor((5, 2560)))
    told = only(hooked.told(), "fused_qknorm_rope_kv")
    assert {(r.eligible, r.count) for r in told if r.seam == "ask_qknorm"} == {(True, 2), (False, 2)}
    assert [(r.variant, r.size, r.count) for r in told if r.seam == "ran_qknorm_aiter"] == [("AITER", 5, 2)]


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("bfloat16", "--kv-cache-dtype bfloat16 is none of auto, fp8, fp8_e4m3"),
        ("fp8", "--kv-cache-dtype fp8 without both scales"),
    ],
)
def test_qk_norm_s_refusal_names_the_dtype(hooked: Hooked, dtype: str, reason: str) -> None:
    hooked.seam("ask_qknorm", Ops)
    Ops.fused_qknorm_idxrqknorm_enabled(dtype)
    assert [r.reason for r in hooked.told()] == [reason]


def _triton_decode(q: Tensor, kv: Any, topk: Any, table: Any, lens: Any, heads: int, scale: float, out: Any, decode_query_len: int) -> None: ...  # fmt: skip
def _triton_prefill(q: Tensor, kv: Any, topk: Any, table: Any, cu: Any, lens: Any, context: Any, most: int, heads: int) -> None: ...  # fmt: skip
def _aiter_decode(q: Tensor, k: Any, v: Any, topk: Any, table: Any, lens: Any, heads: int, scale: float, out: Any, *, decode_query_len: int = 1) -> None: ...  # fmt: skip


def test_decode_of_several_tokens_a_request_is_verification_too(hooked: Hooked) -> None:
    hooked.seam("ran_sparse_decode", _triton_decode)
    hooked.seam("ran_sparse_decode_aiter", _aiter_decode)
    triton = hooked.module("ran_sparse_decode").minimax_m3_sparse_attn_decode
    page16 = hooked.module("ran_sparse_decode_aiter").minimax_m3_sparse_attn_decode_aiter
    triton(Tensor((8, 16, 128)), 0, 0, 0, 0, 1, 0.1, 0, 4)
    page16(Tensor((8, 16, 128)), 0, 0, 0, 0, 0, 1, 0.1, Tensor((8,)), decode_query_len=4)
    page16(Tensor((3, 16, 128)), 0, 0, 0, 0, 0, 1, 0.1, Tensor((3,)), decode_query_len=1)
    told = hooked.told()
    assert {(r.variant, r.size) for r in only(told, "spec_sparse_pa")} == {("Triton", 8), ("AITER page-16", 8)}
    assert sum(r.count for r in only(told, "aiter_sparse_pa")) == 3
    assert sum(r.count for r in only(told, "sparse_attention")) == 3


def test_prefill_rows_are_never_verification(hooked: Hooked) -> None:
    """Where decode has its query length, prefill has the number of KV heads: 2 at TP2."""
    hooked.seam("ran_sparse_prefill", _triton_prefill)
    hooked.module("ran_sparse_prefill").minimax_m3_sparse_attn(Tensor((700, 16, 128)), 0, 0, 0, 0, 0, 0, 700, 2)
    assert {(r.path, r.variant, r.size) for r in hooked.told()} == {
        ("sparse_attention", "Triton", 700),
        ("aiter_sparse_pa", "Triton", 700),
    }


def test_reuse_is_told_by_the_layer_that_attends_and_layers_are_counted(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Index frequency 4 over 8 sparse layers: ordinals 0 and 4 choose, the other 6 reuse. A profiling run is none."""

    class Attend:
        def forward(self, layer: Any, query: Tensor, kv_cache: Any, output: Any) -> None:
            hooked.module("ran_sparse_decode").minimax_m3_sparse_attn_decode(query, 0, 0, 0, 0, 1, 0.1, 0, 1)

    hooked.seam("ran_sparse_decode", _triton_decode)
    hooked.seam("at_attend_triton", Attend)
    layers = [SimpleNamespace(layer_name=f"layers.{n}.attn", skip_index_topk=n % 4 != 0) for n in range(8)]
    context = ModuleType("vllm.forward_context")
    monkeypatch.setitem(sys.modules, "vllm.forward_context", context)
    context._forward_context = SimpleNamespace(attn_metadata={layer.layer_name: object() for layer in layers})  # type: ignore[attr-defined]
    for layer in layers:
        Attend().forward(layer, Tensor((2, 2048)), 0, 0)
    told = hooked.told()
    assert {(r.variant, r.count, r.layers) for r in only(told, "index_reuse")} == {
        ("every layer chooses", 2, 2),
        ("reuse", 6, 6),
    }
    assert [(r.count, r.layers) for r in only(told, "sparse_attention")] == [(8, 8)]
    context._forward_context = SimpleNamespace(attn_metadata=None)  # type: ignore[attr-defined]
    Attend().forward(layers[0], Tensor((2, 2048)), 0, 0)
    assert only(hooked.told(), "index_reuse") == []


class Gate:
    """``GateLinear``: the kernel is chosen inside of an op, by rows."""

    def forward(self, x: Tensor) -> Tensor:
        where = "vllm.model_executor.layers.fused_moe.router"
        if x.shape[0] >= 2048:
            sys.modules[f"{where}.bf16x3_router_gemm_rocm"].bf16x3_router_gemm(x, None)
        elif x.shape[0] <= 32:
            sys.modules[f"{where}.rocm_fp32_router_gemm"].rocm_fp32_router_gemm(x, None)
        return x


def test_the_router_s_kernel_is_told_by_what_ran_inside(hooked: Hooked) -> None:
    hooked.seam("in_router_gemm", Gate)
    hooked.seam("ran_router_rocm", lambda hidden_states, router_weight: None)
    hooked.seam("ran_router_terms", lambda x, weight_split: None)
    for count in (32, 33, 2047, 2048):
        Gate().forward(Tensor((count, 6144)))
    told = {r.variant: (r.count, r.size, dict(r.facts)) for r in hooked.told()}
    assert told == {
        "FP32 kernel": (1, 32, {}),
        "another GEMM": (2, -1, {"sizes": 2, "least": 33, "most": 2047}),
        "three BF16 terms": (1, 2048, {}),
    }


class Native:
    """``RocmDotScaledMxfp8LinearKernel``."""

    def apply_weights(self, layer: Any, x: Tensor, bias: Any = None) -> Tensor:
        return x


def _linear(n: int, k: int, dtype: str, scale_rows: int) -> Any:
    return SimpleNamespace(weight=Tensor((n, k), dtype), weight_scale=Tensor((scale_rows, k // 32), "uint8"))


def test_the_native_linear_is_emulation_where_its_weight_is_kept_in_bf16(hooked: Hooked) -> None:
    """K 768 / 8 = 96 is no multiple of 128: the class is the native one, and F.linear runs."""
    hooked.seam("ran_mxfp8_native", Native)
    kernel = Native()
    kernel.apply_weights(_linear(2560, 6144, "float8_e4m3fn", 2560), Tensor((4, 6144)))
    kernel.apply_weights(_linear(6144, 96, "bfloat16", 6144), Tensor((4, 96)))
    kernel.apply_weights(_linear(2560, 6144, "float8_e4m3fn", 80), Tensor((2, 2, 6144)))  # 32 x 32 blocks of scales
    told = {r.variant: (r.count, r.size) for r in hooked.told()}
    assert told == {"native": (2, 4), "emulation": (1, 4)}


class Method(SimpleNamespace):
    """A quantisation method: an object that may be referred to weakly, as a plain namespace may not."""


class Experts:
    """``RoutedExperts``."""

    def __init__(self, kind: str, **backend: str) -> None:
        made = type(kind, (), {})()
        self.quant_method = Method(moe_kernel=SimpleNamespace(fused_experts=made), **backend)

    def forward_modular(self, x: Tensor, topk_weights: Any, topk_ids: Any) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("kind", "backend", "words"),
    [
        ("AiterMxfp8Experts", {"mxfp8_backend": "AITER_MXFP8"}, {"moe_backend": "AITER FlyDSL", "mxfp8_moe": "AITER FlyDSL MXFP8"}),
        ("Mxfp8NativeTritonExperts", {"fp8_backend": "TRITON_MXFP8"}, {"moe_backend": "Triton MXFP8", "mxfp8_moe": "Triton MXFP8"}),
        ("Mxfp8EmulationTritonExperts", {"mxfp8_backend": "EMULATION"}, {"moe_backend": "Triton fused_moe", "mxfp8_moe": "Triton fused_moe"}),
        ("AiterW4A8ExpertsMonolithic", {"mxfp4_backend": "AITER_MXFP4_FP8"}, {"moe_backend": "AITER FlyDSL | AITER CK | AITER asm", "mxfp4_moe": "AITER W4A8"}),
        ("AiterMxfp4Experts", {"mxfp4_backend": "AITER_MXFP4_MXFP4"}, {"moe_backend": "AITER FlyDSL | AITER CK | AITER asm", "mxfp4_moe": "AITER FlyDSL W4A4 | AITER CK"}),
        ("OAITritonMxfp4ExpertsMonolithic", {"mxfp4_backend": "TRITON"}, {"moe_backend": "triton_kernels", "mxfp4_moe": "triton_kernels"}),
        ("TrtLlmMxfp4ExpertsModular", {"mxfp4_backend": "FLASHINFER_TRTLLM"}, {"moe_backend": "TRT-LLM", "mxfp4_moe": "TRT-LLM"}),
        ("TritonExperts", {"unquantized_backend": "TRITON"}, {"moe_backend": "Triton fused_moe"}),
        ("CPUUnquantizedExperts", {"unquantized_backend": "CPU"}, {"moe_backend": "CPUUnquantizedExperts"}),
    ],
)  # fmt: skip
def test_the_class_of_the_experts_says_what_ran(
    hooked: Hooked, kind: str, backend: dict[str, str], words: dict[str, str]
) -> None:
    hooked.classes = {"CPUUnquantizedExperts", "TRT-LLM"}
    hooked.seam("ran_experts", Experts)
    Experts(kind, **backend).forward_modular(Tensor((64, 6144)), None, None)
    assert {r.path: r.variant for r in hooked.told()} == words


def test_the_monokernel_s_decision_has_its_reason(hooked: Hooked) -> None:
    def decide_step(spec: Any, rows: int, graph_mode: Any, metadata: Any) -> Any:
        use = rows <= 16
        return SimpleNamespace(use_mono=use, reason="" if use else f"unsupported physical row count {rows}")

    hooked.seam("ask_monokernel", decide_step)
    decide = hooked.module("ask_monokernel").decide_step
    for rows in (16, 17):
        decide(None, rows, None, None)
    told = {r.size: (r.eligible, r.reason) for r in hooked.told()}
    assert told == {16: (True, ""), 17: (False, "unsupported physical row count 17")}


def test_a_refusal_at_loading_keeps_vllm_s_own_words(hooked: Hooked) -> None:
    reasons = iter(["needs an fp8 e4m3 index cache, got indexer_kv_dtype='bf16'", None])
    hooked.seam("ask_index_msa", lambda **_settings: next(reasons))
    hooked.seam("ask_fse", lambda quant_config, *prefixes: (False, "not implemented for ModelOptMxFp8Config"))
    ask = hooked.module("ask_index_msa").msa_indexer_unsupported_reason
    ask(topk_blocks=16)
    ask(topk_blocks=16)
    hooked.module("ask_fse").is_shared_expert_quant_fse_compatible(None, "a", "b")
    told = {(r.path, r.eligible): r.reason for r in hooked.told()}
    assert told == {
        ("indexer", False): "needs an fp8 e4m3 index cache, got indexer_kv_dtype='bf16'",
        ("indexer", True): "",
        ("shared_expert_fusion", False): "not implemented for ModelOptMxFp8Config",
    }


def test_aiter_s_table_key_is_kept_and_its_cache_stays_reachable(hooked: Hooked) -> None:
    @functools.lru_cache
    def get_2stage_cfgs(
        token: int, model_dim: int, inter_dim: int, expert: int, topk: int, dtype: str, *rest: Any
    ) -> Any:
        stages = [functools.partial(print, kernelName=f"flydsl_moe{n}") for n in (1, 2)]
        return SimpleNamespace(stage1=stages[0], stage2=stages[1])

    hooked.seam("ran_fmoe_table", get_2stage_cfgs)
    looked = hooked.module("ran_fmoe_table").get_2stage_cfgs
    switches = (True, "Swiglu", False)
    for _ in range(57):
        looked(64, 6144, 768, 129, 5, "torch.bfloat16", "fp8", "fp8", "per_1x32", *switches)
    assert looked.cache_info().hits == 56
    (record,) = hooked.told()
    assert (record.path, record.size, record.count) == ("tuned_table", 64, 57)
    assert record.facts == {
        "token": 64, "model_dim": 6144, "inter_dim": 768, "expert": 129, "topk": 5, "dtype": "bfloat16",
        "q_dtype_a": "fp8", "q_dtype_w": "fp8", "q_type": "per_1x32", "use_g1u1": True, "activation": "Swiglu",
        "doweight_stage1": False, "stage1": "flydsl_moe1", "stage2": "flydsl_moe2",
    }  # fmt: skip


def test_the_fused_norm_needs_few_rows_and_few_bytes(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """TP4: below 262,144 B, which 21 rows of 12,288 B are (258,048) and 22 are not; 81 rows are too many first."""
    ca = SimpleNamespace(world_size=4, fully_connected=True)
    comm = SimpleNamespace(disabled=False, aiter_ca=ca)
    ops = SimpleNamespace(is_custom_all_reduce_enabled=lambda: True, get_aiter_allreduce=lambda: comm)
    module = ModuleType("vllm._aiter_ops")
    module.rocm_aiter_ops = ops  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm._aiter_ops", module)
    hooked.seam("ask_fused_ar", lambda hidden_states: hidden_states.shape[0] <= 21)
    ask = hooked.module("ask_fused_ar")._can_use_aiter_fused_ar_rms
    for rows, reason in ((21, ""), (22, "270,336 >= 262,144 B at TP4"), (81, "81 rows > 80")):
        ask(Tensor((rows, 6144)))
        (record,) = hooked.told()
        assert (record.path, record.eligible, record.reason) == ("fused_allreduce_norm", not reason, reason)
