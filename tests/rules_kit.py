"""Shared by the tests of rules: Every kind of rule: one that holds, one that is broken, one whose evid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders import kernel, launch, recording, step, write_trace

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Reason, TrustRow, TrustSection
from m3probe.rules import judge, load_rules
from m3probe.rules._entry import Known
from m3probe.sources import open_recording

GRAPH = "traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz"
CAPTURED = "traces/tracelens/inference/vllm_decode_full"
KNOWN = Known(("graph_replay", "sparse_attention"), lambda _name: ("FULL", "PIECEWISE", "eager"))

COMPLETE = TrustRow("complete", ())
HIDING = TrustRow(
    "degraded", (Reason("graph_launches_without_kernels", "3 of 9 graph launches are bare", hides_kernels=True),)
)
TIMELESS = TrustRow("degraded", (Reason("no_time", "2 % without a time", hides_kernels=False),))
ONE_GONE = TrustRow(
    "degraded", (Reason("missing_rank", "rank 2 missing: 1 of 3 ranks wrote no trace", hides_kernels=True),)
)
UNUSABLE = TrustRow("unusable", (Reason("no_kernels", "no GPU kernels in trace", hides_kernels=True),))

PREFILL = "execute_context_1(64)_generation_0(0)"
DECODE = "execute_context_0(0)_generation_8(8)"
EMPTY = "execute_context_0(0)_generation_0(0)"

Step = tuple[str, Sequence[tuple[str, float]]]
ATTEND = ("_gqa_sparse_decode_kernel", 10.0)
REDUCE = ("ncclDevKernel_AllReduce", 5.0)


def events(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps 1,000 us apart; each launches its (name, us) kernels, which run one after another."""
    found: list[dict[str, Any]] = []
    correlation = 1
    for index, (name, kernels) in enumerate(steps):
        at = 1000.0 * (index + 1)
        found.append(step(at, 500.0, name))
        for place, (called, us) in enumerate(kernels):
            found.append(launch(at + 1 + 4 * place, correlation))
            found.append(kernel(at + 100 + 20 * place, us, correlation, called))
            correlation += 1
    return found


def served(tmp_path: Path, *steps: Step) -> Recording:
    return recording(tmp_path, events(steps))


def folder(tmp_path: Path, ranks: dict[int, Sequence[Step]]) -> Recording:
    inside = tmp_path / "ranks"
    inside.mkdir()
    for rank, steps in ranks.items():
        info = {"rank": rank, "world_size": 3}
        write_trace(inside / f"rank{rank}.pt.trace.json", events(steps), distributedInfo=info)
    return open_recording([inside])


def judged(
    tmp_path: Path,
    rec: Recording,
    rules: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> Judgement:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    sections: list[Any] = [] if trust is None else [TrustSection(trust, {})]
    sections += [] if paths is None else [PathsSection(tuple(paths))]
    return judge(load_rules(path, KNOWN), rec, Answer(tuple(sections)))


def result(
    tmp_path: Path,
    rec: Recording,
    rule: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> RuleResult:
    return judged(tmp_path, rec, f"[[rule]]\n{rule}\n", trust, paths).results[0]


def outcome(
    tmp_path: Path,
    rec: Recording,
    rule: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> str:
    return str(result(tmp_path, rec, rule, trust, paths).outcome)


# --- paths ---------------------------------------------------------------------------------------------------


def path_row(verdict: str, variant: str = "FULL", **by_phase: str) -> PathRow:
    counts = {"calls": 9, "decode.calls": 7}
    return PathRow(
        id="graph_replay",
        title="graph replay",
        verdict=verdict,
        variant=variant,
        counts=counts,
        configured="unknown",
        eligible="unknown",
        reasons=("a reason",),
        evidence=("a proof",),
        names_from_source=False,
        by_phase=by_phase,
        cells=cells(variant, **by_phase) if by_phase else cells(variant, decode=verdict),
    )


def cells(variant: str, rank: int = 0, absent: int = 0, **by_phase: str) -> tuple[PathCell, ...]:
    return tuple(
        PathCell(rank, phase, verdict, variant, 8, 7, 7, absent, decides=True) for phase, verdict in by_phase.items()
    )
