"""A tiny MoE at TP2 on the real vLLM: everything recorded is compared with the model's config and vLLM's own counters."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from guest_kit import files, only, read
from live_starts import LOAD, OUTPUT_TOKENS, PROMPT_TOKENS, Live
from tree import ROOT

from m3probe import pipeline
from m3probe.model.path_report import PathsSection
from m3probe.schema import records

HIDDEN, HEADS, KV_HEADS, HEAD, EXPERTS, TOP_K, MOE, VOCAB, LAYERS, TP = 256, 4, 2, 64, 8, 2, 128, 1024, 2, 2
F32 = 4
# module's last name -> (N, K) of one rank, from config.json by hand
SHAPES = {
    "qkv_proj": ((HEADS + 2 * KV_HEADS) * HEAD // TP, HIDDEN),
    "o_proj": (HIDDEN, HEADS * HEAD // TP),
    "gate": (EXPERTS, HIDDEN),
    "lm_head": (VOCAB // TP, HIDDEN),
    "embed_tokens": (VOCAB // TP, HIDDEN),
}
EXPERT_SHAPE = (2 * MOE // TP, HIDDEN)
RANKS = (0, 1)


def workers(live: Live) -> dict[int, list[records.AnyRecord]]:
    found = live.records("worker")
    assert sorted(found) == list(RANKS)
    return found


def counted(kept: list[records.AnyRecord]) -> list[records.StepCount]:
    return [step for record in only(records.StepCounts, kept) for step in record.steps]  # type: ignore[union-attr]


def moved(calls: records.Collective) -> int:
    """Bytes of all calls of one record: of one size, or many sizes summed."""
    return calls.payload_sum_bytes if calls.payload_sum_bytes >= 0 else calls.count * calls.payload_bytes


def rows_of_metrics(live: Live) -> int:
    """Rows that the model computed: prompts without what the prefix cache gave, and each output token but the last."""
    local = live.metrics["vllm:prompt_tokens_total"] - live.metrics["vllm:prompt_tokens_cached_total"]
    return int(local + live.metrics["vllm:generation_tokens_total"] - len(LOAD))


def test_the_load_was_served_as_it_was_sent(tp2: Live) -> None:
    """The premise of all that follows: vLLM's own counters are those of the load."""
    assert tp2.metrics["vllm:prompt_tokens_total"] == PROMPT_TOKENS
    assert tp2.metrics["vllm:generation_tokens_total"] == OUTPUT_TOKENS
    assert tp2.metrics["vllm:request_success_total"] == len(LOAD)
    assert tp2.metrics["vllm:prompt_tokens_cached_total"] == 96  # 3 blocks of 32 of the prompt that came twice


def test_every_process_of_the_server_wrote_a_file(tp2: Live) -> None:
    roles = Counter(status.role for status in tp2.armed.values())
    assert roles == {"api": 1, "engine": 1, "worker": 2}
    assert len(files(tp2.folder)) == 4
    assert {status.rank for status in tp2.armed.values() if status.role == "worker"} == set(RANKS)
    assert all(status.failed_hooks == {} and status.dropped == {} for status in tp2.armed.values())
    assert all(status.stopped == "" and not status.late for status in tp2.armed.values())


def test_no_part_of_the_probe_failed(tp2: Live) -> None:
    bad = {"part_failed", "hook_failed", "no_recording", "no_socket", "shared_folder"}
    notes = [n for path in files(tp2.folder) for n in only(records.Note, read(path)[0])]
    assert [n.text for n in notes if n.word in bad] == []  # type: ignore[union-attr]


def test_graphs_that_enforce_eager_turned_off_are_off(tp2: Live) -> None:
    """The start's own flags and no recipe: --enforce-eager and -tp 2 on a CPU, which has no path of a GPU."""
    rec = pipeline.read([tp2.folder])
    assert rec.meta.setup is not None
    assert (rec.meta.setup.tp, rec.meta.setup.gfx, rec.meta.setup.flags["--enforce-eager"]) == (TP, "cpu", True)
    assert rec.meta.setup.model.kv_heads == KV_HEADS
    section = pipeline.report(rec).answer.section(PathsSection)
    assert section is not None
    graphs = next(row for row in section.paths if row.id == "graph_replay")
    assert graphs.verdict == "off"
    assert set(graphs.by_phase.values()) == {"off"}
    assert graphs.reasons == ("off: enforce_eager is on, as the server resolved it",)
    assert {row.verdict for row in section.paths} == {"off", "executed"}


@pytest.mark.parametrize("rank", RANKS)
def test_local_shapes_are_those_of_the_config(tp2: Live, rank: int) -> None:
    modules = only(records.Module, workers(tp2)[rank])
    by_name: dict[str, set[tuple[int, int]]] = {}
    for module in modules:
        by_name.setdefault(module.name.rpartition(".")[2], set()).add((module.N, module.K))  # type: ignore[union-attr]
    assert {name: by_name.get(name) for name in SHAPES} == {name: {shape} for name, shape in SHAPES.items()}
    experts = [m for m in modules if m.kind == "moe"]  # type: ignore[union-attr]
    assert {(m.N, m.K) for m in experts} == {EXPERT_SHAPE}  # type: ignore[union-attr]
    assert sorted(m.layer for m in experts) == list(range(LAYERS))  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", RANKS)
def test_weights_are_counted_in_bytes(tp2: Live, rank: int) -> None:
    modules = only(records.Module, workers(tp2)[rank])
    weights = {m.name.rpartition(".")[2]: m.weight_bytes for m in modules if m.kind == "linear"}  # type: ignore[union-attr]
    assert {name: weights[name] for name in ("qkv_proj", "o_proj")} == {
        name: SHAPES[name][0] * SHAPES[name][1] * F32 for name in ("qkv_proj", "o_proj")
    }
    experts = {m.weight_bytes for m in modules if m.kind == "moe"}  # type: ignore[union-attr]
    assert experts == {EXPERTS * (EXPERT_SHAPE[0] * HIDDEN + HIDDEN * MOE // TP) * F32}


@pytest.mark.parametrize("rank", RANKS)
def test_kv_bytes_per_token_are_those_of_the_config(tp2: Live, rank: int) -> None:
    layers = only(records.KvLayer, workers(tp2)[rank])
    assert len(layers) == LAYERS
    expected = 2 * (KV_HEADS // TP) * HEAD * F32
    assert {layer.page_bytes / layer.block_tokens for layer in layers} == {expected}  # type: ignore[union-attr]
    (pool,) = only(records.KvPool, workers(tp2)[rank])
    assert pool.bytes == pool.blocks * 32 * expected * LAYERS  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", RANKS)
def test_steps_and_rows_are_those_of_vllm_s_counters(tp2: Live, rank: int) -> None:
    steps = counted(workers(tp2)[rank])
    run = [step for step in steps if step.phase != "empty"]
    assert sum(step.count for step in run) == tp2.metrics["vllm:iteration_tokens_total_count"]
    assert sum(step.rows_sum for step in run) == rows_of_metrics(tp2)
    assert {step.mode for step in run} == {"NONE"}
    assert tp2.armed[_pid(tp2, rank)].step == sum(step.count for step in run)


def test_ranks_of_one_engine_count_the_same_steps(tp2: Live) -> None:
    def kinds(rank: int) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        for step in counted(workers(tp2)[rank]):
            found[step.phase, step.padded_rows] += step.count
        return found

    assert kinds(0).total() > 0
    assert kinds(0) == kinds(1)


@pytest.mark.parametrize("rank", RANKS)
def test_all_reduces_are_five_a_step_and_carry_every_row(tp2: Live, rank: int) -> None:
    """Embedding, and attention and experts of two layers; float32 rows of the hidden size."""
    kept = workers(tp2)[rank]
    found = [c for c in only(records.Collective, kept) if c.op == "all_reduce" and c.stage == "eager"]  # type: ignore[union-attr]
    per_step = 1 + 2 * LAYERS
    steps = sum(step.count for step in counted(kept) if step.phase != "empty")
    assert sum(c.count for c in found) == per_step * steps  # type: ignore[union-attr]
    assert sum(moved(c) for c in found) == per_step * rows_of_metrics(tp2) * HIDDEN * F32  # type: ignore[union-attr]


def test_every_request_is_told_with_its_tokens(tp2: Live) -> None:
    (kept,) = tp2.records("api").values()
    requests = only(records.Request, kept)
    assert Counter((r.prompt_tokens, r.output_tokens) for r in requests) == Counter((len(p), n) for p, n in LOAD)  # type: ignore[union-attr]


def test_detaching_leaves_the_hooks_of_start_up_and_no_other(tp2: Live) -> None:
    """The second plugin looks for functions of m3probe on everything of vLLM, without m3probe's own lists."""
    while_recording = {pid: len(seen["wrapped"]) for pid, seen in tp2.seen["recording"].items()}
    assert all(status.hooks > 0 for status in tp2.armed.values())
    assert any(count > 6 for count in while_recording.values())
    start_up = (
        ".load_model",
        ".compile_or_warm_up_model",
        "Scheduler.__init__",
        "AsyncLLM.__init__",
        "LLMEngine.__init__",
    )
    for pid, seen in tp2.seen["detached"].items():
        assert [place for place in seen["wrapped"] if not place.endswith(start_up)] == []
        assert [name for name in seen["threads"] if "writer" in name] == []
        assert tp2.detached[pid].left_behind == ()


def test_detaching_gives_the_same_objects_back(tp2: Live) -> None:
    """Attribute by attribute of everything of vLLM, before and after a second recording."""
    for pid, before in tp2.seen["detached"].items():
        there, during, after = (before["objects"], *(tp2.seen[n][pid]["objects"] for n in ("again", "after")))
        both = there.keys() & after.keys()
        assert len(both) > 1000
        assert [place for place in sorted(both) if there[place] != after[place]] == []
        if tp2.armed[pid].role == "worker":
            assert [place for place in both if during.get(place) != there[place]] != []  # it would see a hook


def test_a_killed_worker_loses_at_most_a_second(tp2: Live) -> None:
    (worker,) = tp2.seen["killed"]
    (path,) = [path for path in files(tp2.killed) if f"-{worker}-" in path.name]
    kept, cut = read(path)
    clocks = [record.mono_ns for record in only(records.Clock, kept)]  # type: ignore[union-attr]
    steps = [record.mono_ns for record in only(records.StepCounts, kept)]  # type: ignore[union-attr]
    assert cut.why == ""
    assert not only(records.End, kept)
    assert steps
    assert tp2.killed_ns - clocks[-1] < 1.5e9  # a second, and a machine that is busy


def test_the_report_speaks_of_the_recording(tp2: Live) -> None:
    command = [sys.executable, "-P", "-m", "m3probe", "analyze", "--json", str(tp2.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    seen = {(s["N"], s["K"]) for s in report["shapes"]}
    assert {SHAPES["qkv_proj"], SHAPES["o_proj"]} <= seen


def _pid(live: Live, rank: int) -> int:
    return next(pid for pid, status in live.armed.items() if status.role == "worker" and status.rank == rank)
