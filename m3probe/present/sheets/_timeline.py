"""Steps as spans of a time line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from m3probe.model.report import StepRow
from m3probe.present._numbers import plural
from m3probe.present.sheets.sheet import Strip

MOST_SPANS = 400
"""Spans of a strip at most: more than a wide terminal has cells; beyond it neighbours share one."""


def timeline(rows: Sequence[StepRow], whose: str) -> Strip | None:
    """GPU spans of one rank's steps in ms from the first; None where no step has a known time."""
    spans = [
        (row.gpu_start_ns, row.gpu_end_ns, row.phase)
        for row in rows
        if row.gpu_start_ns is not None and row.gpu_end_ns is not None
    ]
    if not spans:
        return None
    begin, end = min(low for low, _, _ in spans), max(high for _, high, _ in spans)
    each = -(-len(spans) // MOST_SPANS)
    groups = [spans[at : at + each] for at in range(0, len(spans), each)]
    drawn = tuple(
        (
            (group[0][0] - begin) / 1e6,
            (max(high for _, high, _ in group) - begin) / 1e6,
            Counter(phase for _, _, phase in group).most_common(1)[0][0],
        )
        for group in groups
    )
    many = f"; {each} steps to a span, by the phase of most, gaps between them not drawn" if each > 1 else ""
    title = f"{plural(len(spans), 'step')} of {whose} on the GPU{many}, recorded"
    phases = dict.fromkeys(phase for _, _, phase in drawn)
    return Strip(title, drawn, (end - begin) / 1e6, "ms", tuple((phase, phase) for phase in phases))
