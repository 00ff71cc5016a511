"""Shared by the tests of repeats: Question 2 on hand-written steps (worked out beside each) and on real ."""

from __future__ import annotations

from steps import (
    PERIOD_US,
)

from m3probe.analyzers import repeats
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.repeat_report import RepeatRow, RepeatsSection
from m3probe.model.report import Answer

GRAPH = "traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = "traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz"
WINDOW_US = 2 * PERIOD_US + 31 * 10 + 2
"""Three steps of 32 kernels launched every 10 us: two full periods, then first start to last end of the third."""


def judged(rec: Recording, so_far: Answer | None = None) -> tuple[RepeatsSection, dict[str, Finding]]:
    answer = repeats.ANALYZER.judge(rec, so_far or Answer())
    section = answer.section(RepeatsSection)
    assert section is not None
    return section, {finding.id: finding for finding in answer.findings}


def row(section: RepeatsSection, phase: str, family: str) -> RepeatRow:
    return next(r for r in section.repeats if (r.phase, r.family) == (phase, family))
