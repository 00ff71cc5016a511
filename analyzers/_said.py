"""What the paths question says of its evidence: lines per phase, reasons, and which variant was a fallback."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from m3probe.analyzers._anchors import Calls
from m3probe.analyzers._places import Cell
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.paths import Anchor, FastPath, Role, Variant
from m3probe.schema.verdicts import Evidence

_NAME = 40
_NAMED = 4
_SHOWN = 6
"""Lines of one kind in a report; the rest is counted."""


def span(values: Array) -> str:
    """``6`` or ``5 to 6``."""
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def evidence_lines(rec: Recording, calls: Sequence[Calls], cells: Sequence[Cell]) -> tuple[str, ...]:
    """One line per variant and phase; ranks that say the same share it."""
    said: dict[str, list[int]] = {}
    for cell in cells:
        for call in calls:
            if call.per_place[cell.at].any():
                said.setdefault(_line(rec, call, cell), []).append(cell.file)
    return _cut(tuple(f"{_ranks(rec, files)}{text}" for text, files in said.items()))


def _line(rec: Recording, call: Calls, cell: Cell) -> str:
    per_place = call.per_place[cell.at]
    total, ran = int(per_place.sum()), cell.at[per_place > 0]
    proof = Evidence.CENSUS if call.unrecorded[cell.at].any() else Evidence.KERNELS
    what = _what(call, np.isin(call.place, cell.at), total)
    if not cell.steps:
        return f"no steps: {what} in the whole trace ({proof})"
    each = span(per_place[per_place > 0])
    return f"{cell.phase}: {what} in {len(ran):,} of {cell.steps:,} steps, {each} per step{_rows(rec, ran)} ({proof})"


def _what(call: Calls, here: Array, total: int) -> str:
    if call.sizes is not None:
        return f"{total:,} graph launches ({call.variant.name}) x {span(call.sizes[here])} kernels"
    names = list(dict.fromkeys(_short(call.names[i]) for i in np.unique(call.anchor[here]).tolist()))
    more = ", ..." if len(names) > 2 else ""
    return f"{total:,} calls of {call.variant.name} ({', '.join(names[:2])}{more})"


def _short(name: str) -> str:
    """A kernel's own name: without return type, namespaces, template arguments and parameters."""
    head = re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0].rpartition("::")[2] or name
    return head if len(head) <= _NAME else f"{head[:_NAME]}..."


def _rows(rec: Recording, steps: Array) -> str:
    rows = rec.steps["rows"][steps]
    return f", rows {span(rows[rows >= 0])}" if (rows >= 0).any() else ""


def _ranks(rec: Recording, files: list[int]) -> str:
    """``rank 0: `` when several ranks were read; nothing to tell apart otherwise."""
    ranks = sorted({rank for f in files if (rank := rec.files[f].rank) is not None})
    if sum(f.role == "rank" for f in rec.files) < 2 or not ranks:
        return ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(runs(ranks))}: "


def runs(numbers: Sequence[int]) -> list[str]:
    """Ascending numbers with each run of three or more as one (``0-63``): a claim of 64 ranks is read all the same."""
    said: list[list[int]] = []
    for number in numbers:
        if said and said[-1][-1] == number - 1:
            said[-1].append(number)
        else:
            said.append([number])
    return [text for run in said for text in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]


def _cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    more = len(lines) - _SHOWN
    return lines if more <= 0 else (*lines[:_SHOWN], f"and {more:,} more")


def fallback_lines(path: FastPath, ran: Sequence[Calls], vendor: str) -> tuple[str, ...]:
    """Which variant that ran is a fallback of which, and what those would need."""
    fast = path.fast(vendor)
    lines = []
    for variant in (call.variant for call in ran):
        if variant.role is Role.FALLBACK and fast:
            asks = "; ".join(f"{v.name} ({', '.join(n.text for n in v.needs or path.needs)})" for v in fast)
            lines.append(f"{variant.name} is what runs where none of these does: {asks}")
        if variant.note:
            lines.append(f"{variant.name}: {variant.note}")
    return tuple(lines)


def name_lines(path: FastPath, variants: Sequence[Variant]) -> tuple[str, ...]:
    """Which of these variants leave names that a real trace held, and which are known from source alone."""
    if path.counted_by is not Anchor.KERNEL:
        return ()
    source = [v.name for v in variants if v.names_from_source]
    real = [v.name for v in variants if not v.names_from_source]
    more = f" and {len(source) - _NAMED} more" if len(source) > _NAMED else ""
    said = [f"names read in source only: {', '.join(source[:_NAMED])}{more}"] if source else []
    return tuple(said + ([f"names seen in real traces: {', '.join(real)}"] if real and source else []))


def reasons_of(
    rec: Recording, path: FastPath, ran: Sequence[Calls], cells: Sequence[Cell], strangers: tuple[str, ...]
) -> tuple[str, ...]:
    """Why phases are unproven; phases and ranks of which the same is to be said share a line. Then kernels not known."""
    said: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells:
        if len(cell.ran) < len(cell.at):
            said.setdefault(_reason(rec, path, ran, cell), []).append(cell.file)
    shared: dict[tuple[str, str, tuple[int, ...]], list[str]] = {}
    for (before, where, after), files in said.items():
        shared.setdefault((before, after, tuple(files)), []).append(where)
    lines = _cut(
        tuple(
            f"{_ranks(rec, list(files))}{before} in {_places(where)}{after}"
            for (before, after, files), where in shared.items()
        )
    )
    if not cells:
        lines = ("no step and no kernel was recorded",)
    if strangers:
        lines += (f"{path.family} kernels of no known variant: {', '.join(strangers[:3])}",)
    return lines


def _places(where: list[str]) -> str:
    """``1 of 1 prefill and 9 of 9 decode steps``."""
    *before, last = where
    return f"{', '.join(place.removesuffix(' steps') for place in before)} and {last}" if before else last


def _reason(rec: Recording, path: FastPath, ran: Sequence[Calls], cell: Cell) -> tuple[str, str, str]:
    """(what, where, more)."""
    missing = np.setdiff1d(cell.at, cell.ran)
    without = len(missing)
    where = f"{without:,} of {len(cell.at):,} {cell.phase} steps" if cell.steps else "the whole trace (no steps)"
    if len(cell.hidden) == without:
        return "graph launches show no kernels and no census explains them", where, ""
    if path.counted_by is Anchor.NONE:
        return "no kernel is this path's own: only a hook, a live object or the server's log can tell", where, ""
    hidden = f"; in {len(cell.hidden):,} of them graph launches show no kernels" if len(cell.hidden) else ""
    # Which batches lack the path matters where others have it; otherwise the phase says it all.
    size = _rows(rec, missing) if cell.steps and len(cell.ran) else ""
    if path.counted_by is Anchor.KERNEL:
        instead = [c.variant.name for c in ran if not path.executes(c.variant) and c.per_place[missing].all()]
        what = f"the fallback ran ({', '.join(instead)})" if instead else "no kernel of a known variant"
        return what, where, f"{size}{hidden}"
    if not cell.told:
        return "no runtime call was recorded, so no graph launch could be seen", where, ""
    return _eager(rec, cell, missing)


def _eager(rec: Recording, cell: Cell, missing: Array) -> tuple[str, str, str]:
    """Of steps without a launch that shows kernels: some launched no graph, others launched one that shows none."""
    eager = np.setdiff1d(missing, cell.hidden)
    where = f"{len(eager):,} of {len(cell.at):,} {cell.phase} steps" if cell.steps else "the whole trace (no steps)"
    size = _rows(rec, eager) if cell.steps and len(eager) < len(cell.at) else ""
    more = f"; graph launches of {len(cell.hidden):,} more show no kernels" if len(cell.hidden) else ""
    return "no graph launch", where, f": eager{size}{more}"
