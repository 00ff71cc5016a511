"""Before any conclusion: can the evidence be trusted, and what could be seen at all?"""

from __future__ import annotations

from typing import Any

from m3probe.analyzers._checks import Check, checks
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Reason, TrustRow, TrustSection
from m3probe.model.tables import NONE
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import Trust

_ORDER = (Trust.UNUSABLE, Trust.DEGRADED)


def trust_of(found: list[Check]) -> TrustRow:
    """The worst trust that any check leaves, with the reasons for it."""
    against = [check for check in found if check.verdict]
    verdict = next((word for word in _ORDER if any(c.verdict == word for c in against)), Trust.COMPLETE)
    return TrustRow(str(verdict), tuple(Reason(c.word, c.text, c.hides_kernels) for c in against))


def coverage(rec: Recording) -> dict[str, Any]:
    """What the inputs could show at all."""
    shaped = int((rec.ops["dims"] != NONE).sum())
    graph = rec.graph_launches
    return {
        "files": len(rec.files),
        "ranks": sorted({f.rank for f in rec.files if f.role == "rank" and f.rank is not None}),
        "steps": len(rec.steps),
        "kernels": len(rec.kernels),
        "kernels_linked": int((rec.kernels["launch"] != NONE).sum()),
        "ops_with_shapes": shaped,
        "graph_launches": int(graph.sum()),
        "graph_launches_with_census": int((rec.launches["graph"][graph] != NONE).sum()),
        "processes": len(rec.tables["processes"]),
        "steps_counted": int(rec.tables["step_counts"]["count"].sum()),
        "modules": len(rec.tables["modules"]),
        "configuration": False,
        "queues": len(rec.tables["samples"]) > 0,
    }


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Trust and coverage; no findings of its own."""
    return Answer((TrustSection(trust_of(checks(rec)), coverage(rec)),))


ANALYZER = Analyzer(title="Can the evidence be trusted?", order=0, judge=judge)
