"""Question 2 on hand-written steps (worked out beside each) and on real recordings counted again by plain json: real recordings."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel, recording
from repeats_kit import EAGER, GRAPH, judged, row
from steps import (
    GEMM,
    steps,
)
from tree import shared_or_skip

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._basis import basis, removable_share, step_share
from m3probe.analyzers._layers import layers
from m3probe.analyzers._steptime import step_times
from m3probe.analyzers._view import view
from m3probe.model.repeat_report import RepeatRow, RepeatsSection
from m3probe.model.report import Answer
from m3probe.sources import open_recording

# --- real recordings ---------------------------------------------------------------------------------


def ns(value: object) -> int:
    return int(Decimal(str(value)) * 1000)


def kernels_by_step(path: Path) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """[(annotation, [(kernel, stream, ns)])] by plain json: the step begun last before the launch owns it."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    named = sorted(
        (ns(e["ts"]), e["name"])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")
    )
    calls = {
        e["args"]["correlation"]: ns(e["ts"])
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "aunch" in e["name"]
    }
    found: list[tuple[str, list[tuple[str, int, int]]]] = [(name, []) for _, name in named]
    for e in events:
        if e.get("cat") == "kernel":
            at = calls[e["args"]["correlation"]]
            last = sum(start <= at for start, _ in named) - 1
            found[last][1].append((e["name"], e["args"]["stream"], ns(e["dur"])))
    return found


@pytest.mark.parametrize(("trace", "bound"), [(GRAPH, False), (EAGER, True)])
def test_the_h200_recordings_counted_again(trace: str, bound: bool) -> None:
    path = shared_or_skip(trace)
    rec = open_recording([path])
    section, findings = judged(rec)
    decode = [kernels for name, kernels in kernels_by_step(path) if "generation_8(8)" in name]
    assert len(decode) == 9
    flat = [k for kernels in decode for k in kernels]
    assert section.costs.ns_per_output_token == sum(dur for _, _, dur in flat) / 72
    assert section.costs.launch_bound is bound
    sparse = [dur for name, _, dur in flat if "_gqa_sparse_decode_kernel" in name]
    assert len(sparse) == 54
    seen = layers(view(rec, Answer()))
    assert (seen.dense, seen.sparse, seen.moe, seen.index) == (3, 6, 6, 6)
    moe = [dur for name, _, dur in flat if name == "fused_moe_kernel"]
    assert row(section, "decode", "moe_gemm") == RepeatRow(
        "decode", "moe_gemm", 12.0, 2.0, sum(moe) / 72, sum(moe) / 9, "kernels"
    )
    assert ("repeats.decode_eager" in findings) is bound
    assert not any("relayout" in id_ for id_ in findings)
    # the shared expert has a stream of its own there: everything on it is gate/up, reduction, activation, down
    main = max({s for _, s, _ in flat}, key=lambda s: sum(stream == s for _, stream, _ in flat))
    beside = [dur for _, stream, dur in flat if stream != main]
    shared = findings["repeats.shared_expert_separate"]
    assert shared.evidence[0].count == len(beside) == 9 * 24
    assert f"{sum(beside) / 9 / 1e6:,.3f} ms" in shared.claim
    # in the graph it is a branch beside the routed experts; eagerly the host launches one after the other
    assert ("of its time beside other work" in shared.claim) is not bound
    assert ("with nothing beside it" in shared.claim) is bound
    assert findings["repeats.index_every_layer"].evidence[0].count == 54


@pytest.mark.parametrize(
    ("trace", "phase", "number"),
    [
        ("traces/tracelens/inference/vllm_prefilldecode_piecewise", "mixed", 24),
        ("traces/tracelens/b200/eager_trace.json.gz", "prefill", 36),
    ],
)
def test_layers_of_other_models(trace: str, phase: str, number: int) -> None:
    """24 and 36 layers: one rotary kernel each, and twice as many norms plus the last one."""
    section, findings = judged(open_recording([shared_or_skip(trace)]))
    for family, per_layer in (("attention", 1), ("moe_gemm", 2), ("rope_kv", 1)):
        assert (row(section, phase, family).per_step, row(section, phase, family).per_layer) == (
            number * per_layer,
            per_layer,
        )
    assert row(section, phase, "norm").per_step == 2 * number + 1
    assert not any("relayout" in id_ or "shared" in id_ for id_ in findings)


def test_counts_survive_the_loss_of_all_graph_kernels_and_times_do_not(tmp_path: Path) -> None:
    source = shared_or_skip("traces/tracelens/inference/vllm_decode_full")
    whole, _ = judged(open_recording([source]))
    shutil.copytree(source / "capture_traces", tmp_path / "capture_traces")
    document = json.loads(gzip.decompress((source / "graph_execution.json.gz").read_bytes()))
    replays = {e["args"]["correlation"] for e in document["traceEvents"] if e.get("name") == "hipGraphLaunch"}
    document["traceEvents"] = [
        e for e in document["traceEvents"] if e.get("cat") != "kernel" or e["args"]["correlation"] not in replays
    ]
    (tmp_path / "graph_execution.json").write_text(json.dumps(document))
    bare, findings = judged(open_recording([tmp_path]))

    def counts(section: RepeatsSection) -> dict[str, tuple[float, float | None]]:
        return {r.family: (r.per_step, r.per_layer) for r in section.repeats}

    assert counts(bare) == counts(whole)
    assert row(bare, "decode", "moe_gemm").evidence == "census"
    assert row(bare, "decode", "moe_gemm").ns_per_step is None
    assert bare.costs.ns_per_output_token is None
    assert bare.costs.launch_bound is None
    assert all(f.bound is None for f in findings.values())


def covered(spans: list[tuple[int, int]], low: int, high: int) -> int:
    """Nanoseconds of [low, high) that some span covers, one span after the other."""
    total, reach = 0, low
    for start, end in sorted(spans):
        total += max(0, min(end, high) - max(start, reach))
        reach = max(reach, min(end, high))
    return total


@pytest.mark.parametrize("trace", [GRAPH, EAGER])
def test_the_share_that_removing_the_experts_wins_counted_again(trace: str) -> None:
    """Time of the decode windows in which only fused_moe_kernel runs, instant by instant."""
    rec = open_recording([shared_or_skip(trace)])
    base = basis(rec)
    assert base is not None
    _, start, end = figures.gpu_events(rec)
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    experts = {i for i, n in enumerate(rec.kernels["name"].tolist()) if rec.strings[n] == "fused_moe_kernel"}
    others = [span for i, span in enumerate(spans) if i not in experts]
    owner = [*rec.kernels["step"].tolist(), *rec.transfers["step"].tolist()]
    first = [min(b for (b, _), o in zip(spans, owner, strict=True) if o == s) for s in range(10)]
    edges = [*first, max(e for (_, e), o in zip(spans, owner, strict=True) if o == 9)]
    windows = list(pairwise(edges[1:]))  # step 0 is the prefill
    won = sum(covered(spans, low, high) - covered(others, low, high) for low, high in windows)
    bound = removable_share(rec, np.array(sorted(experts)), base)
    assert bound.high == won / sum(high - low for low, high in windows)
    taken = sum(e - b for i, (b, e) in enumerate(spans) if i in experts and owner[i] > 0)
    assert step_share(rec, np.array(sorted(experts)), base) == taken / (edges[-1] - edges[1])


@pytest.mark.parametrize("trace", [GRAPH, EAGER, "traces/tracelens/inference/vllm_decode_full"])
def test_step_windows_equal_a_count_step_by_step(trace: str) -> None:
    rec = open_recording([shared_or_skip(trace)])
    times = step_times(rec)
    _, start, end = figures.gpu_events(rec)
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    owner = [*rec.kernels["step"].tolist(), *rec.transfers["step"].tolist()]
    first = {s: min(b for (b, _), o in zip(spans, owner, strict=True) if o == s) for s in set(owner) if s >= 0}
    last = max(e for (_, e), o in zip(spans, owner, strict=True) if o == max(first))
    edges = [first[s] for s in sorted(first)] + [last]
    assert [i for i, seen in enumerate(times.seen) if seen] == sorted(first)
    for i, low, high in zip(sorted(first), edges, edges[1:], strict=False):
        assert times.window_ns[i] == high - low
        assert times.busy_ns[i] == covered(spans, low, high)


def test_device_time_after_the_work_of_a_step_is_its_tail(tmp_path: Path) -> None:
    events = steps(2, [GEMM])
    late = kernel(1500.0, 100.0, 0, "no launch")  # fills a part of the first window, and no step owns it
    times = step_times(recording(tmp_path, [*events, late]))
    assert times.window_ns.tolist() == [1_000_000, 2_000]
    assert times.busy_ns.tolist() == [102_000, 2_000]
    # the device waits for the next step while nothing runs: 998 us less the 100 us of that kernel
    assert times.tail_ns.tolist() == [898_000, 0]
    assert times.followed.tolist() == [True, False]
