"""Paths of a live recording held against what its server resolved: off, declined, executed, and a recipe that differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording_kit import batch, call, count, path, replayed, steps, write
from served_kit import GRAPHS, ON_ROCM, config, server

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._m3 import v2_runner
from m3probe.fastpaths._state import state_at
from m3probe.model.findings import Finding
from m3probe.model.report import Report
from m3probe.pipeline import analyze, read
from m3probe.recipe.asking import Server
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import Phase
from m3probe.workload import Workload

EAGER = config(
    model={"enforce_eager": True},
    compilation={"cudagraph_mode": "NONE", "cudagraph_capture_sizes": [], "max_cudagraph_capture_size": 0},
)
MXFP8 = {"quant": {"class": "ModelOptMxFp8Config"}, "model": {"quantization": "mxfp8"}}


def judged(tmp_path: Path, *found: object, recipe: str | None = None) -> Report:
    file = write(tmp_path / "w.m3p", found)
    if recipe is None:
        return analyze([file])
    script = tmp_path / "serve.sh"
    script.write_text(recipe)
    return analyze([file], Workload(server=Server(file=script, vllm="0.25.1", gpu="mi355x")))


def setup(tmp_path: Path, *found: object) -> Setup:
    made = read([write(tmp_path / "w.m3p", found)]).meta.setup
    assert made is not None
    return made


def test_an_eager_server_has_graphs_off_whatever_its_dispatcher_says(tmp_path: Path) -> None:
    refused = call("graph_replay", "eager", size=8, eligible=False, reason="8 rows have no captured graph", count=9)
    found = judged(tmp_path, server(), EAGER, refused, steps(count("decode", 9, 8), count("prefill", 2, 2000)))
    row = path(found, "graph_replay")
    assert (row.verdict, row.configured) == ("off", "no")
    assert row.by_phase == {"decode": "off", "prefill": "off"}
    assert row.reasons == ("off: enforce_eager is on, as the server resolved it",)


def test_a_graph_that_an_eager_server_replayed_is_unexpected(tmp_path: Path) -> None:
    found = judged(tmp_path, server(), EAGER, batch(0, 8), steps(replayed(0, 9, 5, 8)))
    assert path(found, "graph_replay").verdict == "unexpected"


def test_a_prefill_above_the_largest_captured_size_is_declined_and_decode_executed(tmp_path: Path) -> None:
    """Sizes 1 to 64 as resolved: 8 rows are held, 2,000 are not."""
    work = steps(replayed(0, 100, 8, 8), count("prefill", 3, 2000))
    row = path(judged(tmp_path, server(), config(), batch(0, 8), work), "graph_replay")
    assert (row.verdict, row.configured, row.eligible) == ("executed", "yes", "partly")
    assert (row.by_phase["decode"], row.by_phase["prefill"]) == ("executed", "declined")
    assert any("2,000 rows > 64, the largest captured" in reason for reason in row.reasons)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("aiter_sparse_pa", "VLLM_ROCM_USE_AITER is not set"),
        ("mxfp8_moe", "the experts are bf16, not mxfp8"),
        ("mxfp4_moe", "the experts are bf16, not mxfp4"),
        ("mxfp8_linear", "the dense weights are bf16, not mxfp8"),
        ("quick_reduce", "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION is not set"),
        ("fused_allreduce_norm", "TP1: no all-reduce"),
        ("custom_all_reduce", "TP1: no all-reduce"),
        ("fp8_kv_cache", "--kv-cache-dtype auto, index cache bf16"),
        ("tuned_table", "NVIDIA H200 is no ROCm GPU"),
    ],
)
def test_paths_of_rocm_are_off_on_an_nvidia_server_of_one_rank(tmp_path: Path, name: str, why: str) -> None:
    row = path(judged(tmp_path, server(), config(), steps(count(steps=3, rows=4))), name)
    assert row.verdict == "off"
    assert why in row.reasons[0]


def test_aiters_experts_are_off_on_nvidia_though_the_checkpoint_is_theirs(tmp_path: Path) -> None:
    ran = call("mxfp8_moe", "Triton fused_moe", count=12)
    row = path(judged(tmp_path, server(), config(**MXFP8), ran, steps(count(steps=2, rows=4))), "mxfp8_moe")
    assert (row.verdict, row.reasons) == ("off", ("off: NVIDIA H200 is no ROCm GPU: AITER's experts are ROCm's alone",))


def test_a_gated_mi355x_that_fell_back_missed_it(tmp_path: Path) -> None:
    """0.33: both settings, one KV head, block 128: AITER's attend is eligible, and Triton ran."""
    gates = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
    ran = call("aiter_sparse_pa", "Triton", count=12)
    on = server(ON_ROCM, gates, vllm="0.33.0")
    row = path(judged(tmp_path, on, config(), ran, steps(count(steps=2, rows=4))), "aiter_sparse_pa")
    assert (row.verdict, row.configured, row.eligible) == ("missed", "yes", "yes")


def test_a_connector_that_no_hook_sees_is_configured_and_unproven(tmp_path: Path) -> None:
    moves = {"class": "KVTransferConfig", "kv_connector": "NixlConnector", "kv_role": "kv_both"}
    row = path(judged(tmp_path, server(), config(kv_transfer=moves), steps(count(steps=2, rows=4))), "kv_transfer")
    assert (row.verdict, row.configured, row.eligible) == ("unproven", "yes", "yes")


def test_a_release_without_rules_leaves_eligibility_unknown(tmp_path: Path) -> None:
    gates = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
    on = server(ON_ROCM, gates, vllm="0.34.0.dev7")
    ran = call("aiter_sparse_pa", "Triton", count=12)
    row = path(judged(tmp_path, on, config(), ran, steps(count(steps=2, rows=4))), "aiter_sparse_pa")
    assert (row.verdict, row.eligible) == ("unproven", "unknown")


def test_a_server_that_runs_did_start(tmp_path: Path) -> None:
    """0.25.1 without a block size: the rules say that it does not start; it runs, so the rule is in doubt, not the server."""
    picked = config(cache={"block_size": 16, "user_specified_block_size": False})
    made, point = setup(tmp_path, server(ON_ROCM), picked), Point(Phase.DECODE, 8, 8)
    found = state_at(fast_paths()["sparse_attention"], made, point)
    assert found.state is State.UNPROVEN
    assert any(text.startswith("the engine did start") for text in found.of(Held.UNKNOWN))


def test_the_resolved_runner_counts_before_the_builds_default(tmp_path: Path) -> None:
    v1 = setup(tmp_path, server(ON_ROCM, vllm="0.33.0"), config())
    v2 = setup(tmp_path, server(ON_ROCM), config(engine={"use_v2_model_runner": True}))
    assert (v2_runner(v1), v2_runner(v2)) == (False, True)


# --- beside a recipe ------------------------------------------------------------------------------------------------

SERVE = "vllm serve MiniMaxAI/MiniMax-M3 --block-size 128 --max-num-seqs {seqs} --max-num-batched-tokens 8192"
WORK = steps(count("decode", 9, 8))


def finding(found: Report) -> Finding | None:
    return next((f for f in found.answer.findings if f.id == "paths.recipe_differs"), None)


def test_a_recipe_wins_and_what_differs_is_one_sentence(tmp_path: Path) -> None:
    script = f"export VLLM_ROCM_USE_AITER=1\n{SERVE.format(seqs=128)} --enforce-eager --kv-cache-dtype auto\n"
    found = judged(tmp_path, server(env={"VLLM_ROCM_USE_AITER_MOE": "0"}), config(), WORK, recipe=script)
    told = finding(found)
    assert told is not None
    assert told.question == "paths"
    for said in (
        "--max-num-seqs (asked 128, resolved 64)",
        "--enforce-eager (asked true, resolved false)",
        "VLLM_ROCM_USE_AITER (asked 1, resolved not set)",
        "VLLM_ROCM_USE_AITER_MOE (asked nothing, resolved 0)",
    ):
        assert said in told.claim
    assert "--block-size" not in told.claim
    assert "--kv-cache-dtype" not in told.claim
    assert path(found, "graph_replay").verdict == "off"  # by the recipe: the server was not eager by configuration
    assert path(found, "graph_replay").reasons == ("off: --enforce-eager",)


def test_a_recipe_that_is_the_servers_own_says_nothing(tmp_path: Path) -> None:
    """Other words for the same values: half of JSON as text, a mode by its number, sizes as a list."""
    asked = f"{SERVE.format(seqs=64)} --dtype bfloat16 --compilation-config '{{\"cudagraph_capture_sizes\": [1,2,4,8,16,32,64]}}'"
    script = f"export VLLM_USE_BREAKABLE_CUDAGRAPH=1\n{asked}\n"
    assert finding(judged(tmp_path, server(env=GRAPHS), config(), WORK, recipe=script)) is None


def test_what_a_server_does_and_nobody_asked_for_is_told(tmp_path: Path) -> None:
    told = finding(judged(tmp_path, server(env={}), EAGER, WORK, recipe=f"{SERVE.format(seqs=64)}\n"))
    assert told is not None
    assert "--enforce-eager (asked nothing, resolved true)" in told.claim


def test_a_trace_alone_has_nothing_to_differ_from(tmp_path: Path) -> None:
    assert finding(judged(tmp_path, server(), WORK, recipe=f"{SERVE.format(seqs=64)}\n")) is None
