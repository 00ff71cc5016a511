"""A log's configuration as the setup that paths are judged by: what is known, what is open, and whose log it may be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from log_kit import ARGS, READY, START, args_line, config_line, record, written
from recording_kit import count, steps, write
from served_kit import config, server
from tree import ROOT

from m3probe.errors import UsageError
from m3probe.model.findings import Finding
from m3probe.model.recording import Meta, Recording
from m3probe.pipeline import read, report
from m3probe.recipe.asking import Server
from m3probe.recipe.logged import NOT_VLLMS
from m3probe.schema.setup import Setup
from m3probe.workload import Workload


def meta(tmp_path: Path, *lines: str, workload: Workload | None = None, beside: Path | None = None) -> Meta:
    log = written(tmp_path / "server.log", *lines)
    return read([log, *([beside] if beside else [])], workload).meta


def setup(tmp_path: Path, *lines: str) -> Setup:
    made = meta(tmp_path, *lines).setup
    assert made is not None
    return made


def test_the_setup_is_what_was_asked_for_and_what_the_engine_says(tmp_path: Path) -> None:
    made = setup(tmp_path, *START)
    assert (made.build.version, made.tp, made.pp, made.dp, made.ep, made.nodes) == ("0.33.0", 4, 1, 1, 1, 1)
    assert made.resolved
    assert made.draft is None
    assert made.flags["--max-num-seqs"] == 64
    assert made.flags["--block-size"] == 128
    assert made.flags["--enforce-eager"] is False
    assert made.flags["--dtype"] == "bfloat16"
    assert made.flags["--moe-backend"] == "aiter"
    assert made.flags["--compilation-config"] == {
        "mode": "NONE",
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64],
        "max_cudagraph_capture_size": 64,
    }
    assert (made.model.is_minimax_m3, made.model.moe_quant, made.model.kv_heads) == (True, "mxfp8", 4)


def test_what_nobody_asked_for_is_at_its_default_only_where_the_arguments_are_there(tmp_path: Path) -> None:
    whole = setup(tmp_path, *START)
    cut = setup(tmp_path, config_line(), record("x", "Worker_TP0 pid=3"), READY)
    assert "--kv-transfer-config" not in (*whole.flags, *whole.uncertain)
    assert "--kv-transfer-config" in cut.uncertain
    assert "--max-num-seqs" in cut.uncertain
    assert "--tensor-parallel-size" not in cut.uncertain


@pytest.mark.parametrize("lines", [(args_line(),), START, (args_line(), config_line("0.25.1"), READY)])
def test_every_variable_that_a_path_reads_is_open_unless_a_line_tells_it(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    """By the sources of the fast paths: a name that is read and forgotten here would count as not set."""
    read_there = set()
    for file in (ROOT / "m3probe/fastpaths").glob("*.py"):
        read_there |= set(re.findall(r'"((?:VLLM|AITER|PYTORCH|TORCH)_[A-Z0-9_]+[A-Z0-9])"', file.read_text()))
    words_of_backends = {"AITER_MXFP4_BF16", "AITER_MXFP4_FP8", "AITER_MXFP4_MXFP4", "AITER_MXFP8", "VLLM_COMPILE",
                         "AITER_TRITON_MXFP4_BF16", "AITER_TRITON_MXFP4_MXFP4"}  # fmt: skip
    settled = {"TORCH_COMPILE_DISABLE"} if len(lines) > 1 else set()  # the engine states the mode that it left
    open_ = set(setup(tmp_path, *lines).uncertain)
    assert len(read_there) > 15
    assert read_there - words_of_backends - open_ == settled
    assert set(NOT_VLLMS) - open_ == settled


def test_a_line_that_tells_a_variable_settles_it(tmp_path: Path) -> None:
    said = record("Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH=1. Set ...=0 to opt out.", "APIServer pid=1")
    made = setup(tmp_path, *START, said)
    assert made.env == {"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}
    assert "VLLM_USE_BREAKABLE_CUDAGRAPH" not in made.uncertain
    assert "VLLM_ROCM_USE_AITER" in made.uncertain


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((record("Using max model len 8192"),), "no size"),
        ((config_line(tensor_parallel_size="None"),), "a size that is none"),
        ((args_line(speculative_config={"method": "eagle3"}), READY), "a draft without a length"),
        ((record("Initializing a V1 LLM engine (v0.33.0) with config: model='m', tensor_parallel_size=4"),), "cut"),
    ],
)
def test_without_a_size_there_is_no_setup(tmp_path: Path, lines: tuple[str, ...], why: str) -> None:
    assert meta(tmp_path, *lines).setup is None, why


@pytest.mark.parametrize(
    ("changed", "tokens"),
    [
        ({"speculative_config": {"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3}}, 3),
        ({}, 0),
    ],
)
def test_the_draft_is_the_one_that_was_asked_for(tmp_path: Path, changed: dict[str, Any], tokens: int) -> None:
    assert setup(tmp_path, args_line(**changed), config_line(), READY).spec_tokens == tokens


@pytest.mark.parametrize(
    ("asked", "label", "ep"),
    [(True, "Worker_TP0", 4), (None, "Worker_TP0_EP0", 1), (None, "Worker_TP0", 1)],
)
def test_experts_are_spread_where_the_arguments_say_so(tmp_path: Path, asked: Any, label: str, ep: int) -> None:
    lines = (args_line(enable_expert_parallel=asked), config_line(), record("x", f"{label} pid=2"))
    assert setup(tmp_path, *lines).ep == ep


def test_without_arguments_the_workers_names_tell_whether_experts_are_spread(tmp_path: Path) -> None:
    assert setup(tmp_path, config_line(), record("x", "Worker_TP0_EP0 pid=2")).ep == 4
    assert setup(tmp_path, config_line(), record("x", "Worker_TP0 pid=2")).ep == 1
    assert meta(tmp_path, config_line()).setup is None


def test_sizes_of_another_checkpoint_are_not_in_a_log(tmp_path: Path) -> None:
    arch = record("Resolved architecture: MiniMaxM3SparseForCausalLM", "APIServer pid=1")
    lines = (args_line(model="/models/x"), config_line(model="'/models/x'", quantization="None"), arch, READY)
    made = meta(tmp_path, *lines)
    assert made.setup is not None
    assert made.recipe is not None
    assert (made.setup.model.is_minimax_m3, made.setup.model.layers) == (True, None)
    assert any("sizes are not in the log" in text for text in made.recipe.assumed)


# --- whose log it is ------------------------------------------------------------------------------------------------


def trace(folder: Path, version: str = "0.33.0", world: int = 4) -> Path:
    events = [step(0.0, 90.0, "execute_context_0(0)_generation_8(8)"), launch(1.0, 1), kernel(5.0, 2.0, 1, "k")]
    info = {"rank": 0, "world_size": world}
    return write_trace(folder / "r.json", events, distributedInfo=info, vllm_version=version)


def stranger(rec: Recording) -> Finding | None:
    return next((f for f in report(rec).answer.findings if f.id == "paths.log_of_another_server"), None)


@pytest.mark.parametrize(
    ("version", "world", "said"),
    [
        ("0.33.0", 4, ""),
        ("0.33.0+rocm700", 4, ""),
        ("0.25.1", 4, "the log is of vLLM 0.33.0, the recording of vLLM 0.25.1"),
        ("0.33.0", 2, "the log is of TP4 PP1 DP1, the recording of a world of 2"),
    ],
)
def test_a_log_of_another_server_judges_nothing_and_is_told(
    tmp_path: Path, version: str, world: int, said: str
) -> None:
    log = written(tmp_path / "server.log", *START)
    rec = read([trace(tmp_path, version, world), log])
    assert (rec.meta.setup is None) is bool(said)
    told = stranger(rec)
    assert (told.claim.partition(": ")[0] if told else "") == said


def test_logs_of_two_servers_judge_nothing(tmp_path: Path) -> None:
    first = written(tmp_path / "a.log", *START)
    other = written(tmp_path / "b.log", args_line(tensor_parallel_size=2), config_line(tensor_parallel_size="2"), READY)
    assert read([first]).meta.setup is not None
    assert read([first, other]).meta.setup is None


def test_what_a_running_server_says_of_itself_counts_before_its_log(tmp_path: Path) -> None:
    lines = (
        args_line(tensor_parallel_size=1),
        config_line("0.25.1", tensor_parallel_size="1", enforce_eager="True"),
        READY,
    )
    live = write(tmp_path / "w.m3p", (server(), config(), steps(count("decode", 9, 8))))
    found = meta(tmp_path, *lines, beside=live)
    assert found.recipe is not None
    assert found.setup is not None
    assert found.recipe.source == "what the server itself resolved"
    assert found.setup.flags["--enforce-eager"] is False


def test_a_recipe_counts_before_a_log_and_what_differs_is_told(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve {ARGS['model']} -tp 4 --block-size 128 --max-num-seqs 128 --enforce-eager\n")
    workload = Workload(server=Server(file=script, vllm="0.33.0", gpu="mi355x"))
    found = meta(tmp_path, *START, workload=workload)
    assert found.recipe is not None
    assert found.recipe.source == str(script)
    told = {d.flag: (d.asked, d.resolved) for d in found.recipe.differs}
    assert told["--max-num-seqs"] == ("128", "64")
    assert told["--enforce-eager"] == ("true", "false")
    assert not any(flag.startswith("VLLM_") for flag in told)


def test_a_size_that_contradicts_the_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--tp 2 contradicts 4 of the server's log"):
        meta(tmp_path, *START, workload=Workload(tp=2))
