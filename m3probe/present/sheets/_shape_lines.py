"""One GEMM shape as a line of a table; made when it is looked at, of tens of thousands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from m3probe.model.report import ShapeRow
from m3probe.model.roofline_report import RooflineRow
from m3probe.present._numbers import fixed
from m3probe.present._shapes import FILLED
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Cell, Column, Line
from m3probe.present.sheets.targets import target

COLUMNS = (
    Column("phase"),
    *(Column(name, right=True) for name in ("M", "N", "K", "count")),
    Column("module", wide=True),
    Column("x least", right=True, keep=1),
    Column("µs a call", right=True, keep=2),
    Column("programs/units", right=True, keep=3),
    Column("dtype", keep=5),
    Column("tile", keep=6),
    Column("selector", keep=8),
    Column("layout", keep=7),
    Column("op", keep=9),
    Column("evidence", keep=4),
    Column("note", keep=10),
)
PREDICTED = {True: ("predicted", q.GOOD), False: ("not predicted", q.WARN), None: ("", "")}
Key = tuple[str, str, int, int, int, str, str, str]


def _key(row: ShapeRow) -> Key:
    return row.phase, row.op, row.M, row.N, row.K, row.dtype, row.module, row.evidence


def again_of(rows: Sequence[ShapeRow]) -> list[int]:
    """How often each row's shape stood above it already: a cursor stays on one of those that are alike."""
    seen: dict[Key, int] = {}
    found = []
    for key in map(_key, rows):
        found.append(before := seen.get(key, 0))
        seen[key] = before + 1
    return found


def line_of(row: ShapeRow, floor: RooflineRow | None, starved: str, again: int) -> Line:
    """One shape with its floor; ``starved``: the finding that it opens."""
    ran, _, would = row.tile.partition("; ")
    said, mark = PREDICTED[row.predicted]
    wrong = floor is not None and floor.ratio is not None and floor.ratio < 1
    cells = (
        q.word(row.phase),
        *(q.number(value) for value in (row.M, row.N, row.K, row.count)),
        q.word(row.module),
        q.number(floor.ratio if floor else None, 2, q.BAD if wrong else ""),
        q.scaled(floor.observed_ns if floor else None, 1e3),
        _programs(row),
        q.word(row.dtype),
        q.word(ran),
        q.word(would),
        q.word(said, mark),
        q.word(row.op),
        q.word(row.evidence),
        q.word(floor.note if floor else ""),
    )
    phase, op, m, n, k, *rest = _key(row)
    key = " ".join((phase, op, f"{m} x {n} x {k}", *map(str, rest), *([f"#{again + 1}"] if again else [])))
    return Line(key, cells, target("finding", starved) if starved and cells[8].mark else "")


def started(row: ShapeRow) -> int | None:
    """Workgroups that started, as recorded, else as the tile gives; None where neither is known."""
    return prod(row.grid) if row.grid is not None else row.programs


def _programs(row: ShapeRow) -> Cell:
    """Workgroups that started over the device's units."""
    begun = started(row)
    if begun is None:
        return q.word("")
    starved = row.units is not None and begun < FILLED * row.units
    return Cell(f"{fixed(begun)}/{fixed(row.units)}", begun, q.WARN if starved else "")
