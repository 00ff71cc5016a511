"""Question 3: what moves on each byte plane, each judged by itself; collectives by size; what nothing here can prove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from m3probe.model.report import BytePlanes, BytesSection, PlaneRow
from m3probe.model.roofline_report import ControlPlaneRow, RooflineSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, bytes_unit, fixed, in_unit, plural, us
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._counters import counter_blocks
from m3probe.present.sheets.sheet import Bar, Bars, Block, Cell, Column, Grid, Lens, Line, Said, Sheet

TITLE = "3 bytes"
BARS = 6
PLANES = (("compute", "compute tensors"), ("state", "persistent state"), ("comm", "communication"))
NO_TOTAL = ("weights,", "experts read,", "cache pool", "main cache, per", "index cache, per")
"""Beginnings of rows that say what is held, or read by one step: no part of a chart of a recording's traffic."""
CHANGE = (
    "An eager twin or a census for what graphs hide, a recording inside the server for caches and collectives, memory "
    "counters for bytes that kernels really read"
)


def answer(view: View) -> Said:
    """The question in one sentence: what of the bytes could be proven."""
    found = q.section(view, BytesSection)
    rows = [row for key, _ in PLANES for row in getattr(found.bytes, key)] if found else []
    if not rows:
        return Said("unproven: nothing was seen on any byte plane, which proves nothing about it", q.UNPROVEN)
    sized = sum(row.bytes is not None for row in rows)
    head = f"bytes proven of {sized} of {plural(len(rows), 'kind')} of traffic"
    first = next((f for f in q.of_question(view, "bytes") if f.verdict != "unproven"), None)
    if not sized:
        return Said(f"unproven: {head}", q.UNPROVEN)
    claim = f". {first.claim}" if first else ""
    if sized < len(rows) or (found and found.bytes.not_provable):
        return Said(f"in part: {head}{claim}")
    return Said(f"measured: {head}{claim}", q.GOOD)


def moves(row: PlaneRow) -> bool:
    """Whether it is traffic of the recording, rather than what is held or what one step reads."""
    return not row.what.startswith(NO_TOTAL)


def largest(planes_of: Mapping[str, Sequence[PlaneRow]]) -> list[tuple[tuple[str, str, str], int]]:
    """((plane, what, evidence), bytes), most first: rows that differ in dtype or layout are one kind of traffic."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for key, title in PLANES:
        for row in planes_of[key]:
            if row.bytes and moves(row):
                sums[title, row.what, row.evidence] += row.bytes
    return sums.most_common()


def planes(view: View, lens: Lens) -> Sheet:
    """The page."""
    found = q.section(view, BytesSection)
    if found is None:
        return q.unanswered(view, TITLE, "bytes")
    kept = {key: of_phase(getattr(found.bytes, key), lens.phase) for key, _ in PLANES}
    blocks: list[Block] = [answer(view), *q.hidden(view), *_chart(kept)]
    blocks += [_plane(title, kept[key], lens, comm=key == "comm") for key, title in PLANES]
    blocks += [Said(f.claim, q.mark_of(f.verdict)) for f in q.named(view, "bytes.cache_writes")]
    blocks += _index(view)
    blocks += counter_blocks(view)
    blocks += _not_provable(found.bytes)
    blocks += q.findings_grid(q.of_question(view, "bytes"))
    blocks.append(q.origin(view, (row.evidence for rows in kept.values() for row in rows)))
    return Sheet(TITLE, tuple(blocks), change=CHANGE)


def of_phase(rows: Sequence[PlaneRow], phase: str | None) -> tuple[PlaneRow, ...]:
    """Rows of one phase, and those that name none: ``KV write, decode``, ``group tp:0, decode``."""
    if phase is None:
        return tuple(rows)
    every = {"prefill", "decode", "mixed"}
    said = [(row, {word.strip(" ,") for word in f"{row.what} {row.layout}".split()} & every) for row in rows]
    return tuple(row for row, words in said if not words or phase in words)


def _chart(kept: dict[str, tuple[PlaneRow, ...]]) -> list[Bars]:
    """The largest proven traffic of all planes on one scale; evidence is said, for kernels and the ledger may both know the same."""
    sized = largest(kept)[:BARS]
    if not sized:
        return []
    unit, size = bytes_unit(number for _, number in sized)
    bars = tuple(
        Bar(f"{title.split()[-1]}: {what}", number / size, f"{in_unit(number, size)} {unit} ({evidence})")
        for (title, what, evidence), number in sized
    )
    unproven = sum(row.bytes is None for rows in kept.values() for row in rows if moves(row))
    more = f" ({unproven} without bytes)" if unproven else ""
    return [Bars(f"Largest traffic{more}", bars, bars[0].value, unit)]


def _plane(title: str, rows: tuple[PlaneRow, ...], lens: Lens, *, comm: bool) -> Grid:
    """One plane; collectives stand by the size of a call, for that decides which backend carries them."""
    unit, size = bytes_unit(row.bytes for row in rows)
    columns = (
        Column("what", wide=True),
        Column("count", right=True),
        Column(unit, right=True),
        *((Column("B a call, mean", right=True, keep=1),) if comm else ()),
        Column("ms", right=True, keep=1),
        Column("dtype", keep=2),
        Column("layout", keep=4),
        Column("evidence", keep=3),
    )
    if comm:
        order = sorted(rows, key=lambda row: (_each(row) is None, _each(row) or 0.0))
    else:
        order = sorted(rows, key=lambda row: (-(row.time_ns or 0), -(row.bytes or 0), -row.count))
    lines = q.keyed(_line(row, size, comm=comm) for row in order)
    name = f"{title[0].upper()}{title[1:]}{', by bytes a call' if comm else ''}"
    phase = f" in phase {lens.phase}" if lens.phase else ""
    return Grid(name, columns, lines, f"Nothing seen on this plane{phase}, which proves nothing about it.")


def _each(row: PlaneRow) -> float | None:
    return row.bytes / row.count if row.bytes is not None and row.count else None


def _line(row: PlaneRow, size: int, *, comm: bool) -> Line:
    cells = (
        q.word(row.what),
        q.number(row.count),
        Cell(in_unit(row.bytes, size), row.bytes),
        *((q.number(_each(row)),) if comm else ()),
        q.scaled(row.time_ns, 1e6, 3),
        q.word(row.dtype),
        q.word(row.layout),
        q.word(row.evidence),
    )
    return Line(f"{row.what} {row.dtype} {row.layout} {row.evidence}", cells)


def _index(view: View) -> list[Block]:
    """Choosing key blocks beside attending to them: the index's share of what a sparse layer reads."""
    found = q.section(view, RooflineSection)
    row = found.roofline.control_plane if found else None
    if row is None:
        return []
    return [Said(control(row), dim=True)]


def control(row: ControlPlaneRow) -> str:
    """Times and least bytes of index and attend in one decode step, and from which context the index reads more."""
    said = f"index beside attend, a decode step (computed): choosing blocks {us(row.choose_ns)} µs, attending {us(row.attend_ns)} µs"
    if row.choose_bytes is not None and row.attend_bytes is not None:
        said += f"; least bytes {fixed(row.choose_bytes / 1e6, 2)} and {fixed(row.attend_bytes / 1e6, 2)} MB"
    else:
        said += f"; least bytes {UNKNOWN}"
    if row.crossover_tokens is not None:
        said += f"; the index reads as much as the attend from {row.crossover_tokens:,.0f} tokens on"
    return said


def _not_provable(found: BytePlanes) -> list[Said]:
    return [Said(f"not provable here: {text}", q.UNPROVEN) for text in found.not_provable]
