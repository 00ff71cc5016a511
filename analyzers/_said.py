"""What the paths question says of its evidence: lines per phase, reasons, and which variant was a fallback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from m3probe.analyzers._anchors import Calls
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.paths import Anchor, FastPath, Role
from m3probe.schema.verdicts import Evidence, Phase

_SHOWN = 6
"""Lines of one kind in a report; the rest is counted."""


class CellLike(Protocol):
    """One (rank file, phase) of the paths question."""

    @property
    def file(self) -> int: ...
    @property
    def phase(self) -> Phase: ...
    @property
    def at(self) -> Array: ...
    @property
    def ran(self) -> Array: ...
    @property
    def hidden(self) -> Array: ...
    @property
    def steps(self) -> int: ...


def span(values: Array) -> str:
    """``6`` or ``5 to 6``."""
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def evidence_lines(rec: Recording, calls: Sequence[Calls], cells: Sequence[CellLike]) -> tuple[str, ...]:
    """One line per variant and phase; ranks that say the same share it."""
    said: dict[str, list[int]] = {}
    for cell in cells:
        for call in calls:
            if call.per_place[cell.at].any():
                said.setdefault(_line(rec, call, cell), []).append(cell.file)
    return _cut(tuple(f"{_ranks(rec, files)}{text}" for text, files in said.items()))


def _line(rec: Recording, call: Calls, cell: CellLike) -> str:
    per_place = call.per_place[cell.at]
    total, ran = int(per_place.sum()), cell.at[per_place > 0]
    proof = Evidence.CENSUS if call.unrecorded[cell.at].any() else Evidence.KERNELS
    what = f"{total:,} calls of {call.variant.name} ({', '.join(n.split('(')[0] for n in call.names[:3])}"
    what += ", ...)" if len(call.names) > 3 else ")"
    if call.sizes is not None:
        sizes = call.sizes[np.isin(call.place, cell.at)]
        what = f"{total:,} graph launches ({call.variant.name}) x {span(sizes)} kernels"
    if not cell.steps:
        return f"no steps: {what} in the whole trace ({proof})"
    rows = rec.steps["rows"][ran]
    size = f", rows {span(rows[rows >= 0])}" if (rows >= 0).any() else ""
    return f"{cell.phase}: {what} in {len(ran):,} of {cell.steps:,} steps, {span(per_place[per_place > 0])} per step{size} ({proof})"


def _ranks(rec: Recording, files: list[int]) -> str:
    """``rank 0: `` when several ranks were read; nothing to tell apart otherwise."""
    ranks = sorted({rec.files[f].rank for f in files} - {None}, key=lambda r: r if r is not None else -1)
    if sum(f.role == "rank" for f in rec.files) < 2 or not ranks:
        return ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: "


def _cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    more = len(lines) - _SHOWN
    return lines if more <= 0 else (*lines[:_SHOWN], f"and {more:,} more")


def fallback_lines(path: FastPath, ran: Sequence[Calls], vendor: str) -> tuple[str, ...]:
    """Which variant that ran is a fallback of which, and what those would need."""
    fast = path.fast(vendor)
    lines = []
    for variant in (call.variant for call in ran):
        if variant.role is Role.FALLBACK and fast:
            asks = "; ".join(f"{v.name} ({', '.join(n.text for n in v.needs) or 'no known needs'})" for v in fast)
            lines.append(f"{variant.name} is what runs where none of these does: {asks}")
        if variant.note:
            lines.append(f"{variant.name}: {variant.note}")
    return tuple(lines)


def reasons_of(
    rec: Recording, path: FastPath, cells: Sequence[CellLike], strangers: tuple[str, ...], *, ran: bool
) -> tuple[str, ...]:
    """Why a phase is unproven, by rank and rows; then what is not understood."""
    said: dict[str, list[int]] = {}
    for cell in cells:
        if len(cell.ran) < len(cell.at):
            said.setdefault(_reason(rec, path, cell, ran=ran), []).append(cell.file)
    lines = _cut(tuple(f"{_ranks(rec, files)}{text}" for text, files in said.items()))
    if not cells:
        lines = ("no step and no kernel was recorded",)
    if strangers:
        lines += (f"{path.family} kernels of no known variant: {', '.join(strangers[:3])}",)
    by_source = [v.name for v in path.variants if v.names_from_source]
    if not ran and by_source:
        lines += (f"the kernel names of {', '.join(by_source)} were read in source, never seen in a trace",)
    return lines


def _reason(rec: Recording, path: FastPath, cell: CellLike, *, ran: bool) -> str:
    without, total = len(cell.at) - len(cell.ran), len(cell.at)
    where = f"{without:,} of {total:,} {cell.phase} steps" if cell.steps else "the whole trace (no steps)"
    if len(cell.hidden) == without:
        return f"graph launches show no kernels and no census explains them in {where}"
    hidden = f"; in {len(cell.hidden):,} of them graph launches show no kernels" if len(cell.hidden) else ""
    if path.counted_by is Anchor.GRAPH_LAUNCH:
        return f"no graph launch in {where}: eager{hidden}"
    missing = np.setdiff1d(cell.at, cell.ran)
    rows = rec.steps["rows"][missing] if cell.steps else np.empty(0, dtype=np.int64)
    size = f" (rows {span(rows[rows >= 0])})" if ran and (rows >= 0).any() else ""
    return f"no kernel of a known variant in {where}{size}{hidden}"
