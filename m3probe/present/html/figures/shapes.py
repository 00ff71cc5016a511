"""Which local GEMM shapes reached the device: rows of a call (M) against weights (N x K)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.model.report import ShapeRow, ShapesSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, listed, plural
from m3probe.present._shapes import FILLED
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import axis, hover, label, layout, rows_axis, rows_height, table, word
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._shape_lines import started
from m3probe.present.sheets._told import number
from m3probe.present.sheets.shapes import MEASURED
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

MOST_ROWS, MOST_COLUMNS = 24, 24
TOLD = 3
"""Kernels of one cell that a hover tells of."""
SHORT = {"prefill": "pre", "decode": "dec", "mixed": "mix"}
Weight = tuple[str, str, int, int]
"""Module, operator, N, K."""
Column = tuple[str, int]
"""Phase, M."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The cells that have room: rows and columns by calls, the columns then by phase and M."""

    weights: list[Weight]
    columns: list[Column]
    cells: dict[tuple[Weight, Column], list[ShapeRow]]
    starved: dict[str, str]
    evidence: str

    @property
    def calls(self) -> int:
        """Calls that are drawn."""
        return sum(row.count for rows in self.cells.values() for row in rows)


def figures(view: View) -> tuple[Figure, ...]:
    """The heat map; nothing where no shape is known."""
    found = q.section(view, ShapesSection)
    if found is None or not found.shapes:
        return ()
    drawn = _drawn(view, found.shapes)
    return (
        Figure(
            key="shapes",
            title="Local GEMM shapes: calls by rows (M) and weights (N x K)",
            says=_says(drawn, found.shapes),
            data=(_cells(drawn),),
            layout=_layout(drawn),
            rows=_grid(drawn),
        ),
    )


def _weight(row: ShapeRow) -> Weight:
    return row.module, row.op, row.N, row.K


def _drawn(view: View, every: Sequence[ShapeRow]) -> Drawn:
    """What was measured, else what the ledger says: both may know the same calls, which are never added up."""
    measured = [row for row in every if row.evidence in MEASURED]
    rows = measured or list(every)
    by_weight: Counter[Weight] = Counter()
    by_column: Counter[Column] = Counter()
    for row in rows:
        by_weight[_weight(row)] += row.count
        by_column[row.phase, row.M] += row.count
    weights = [weight for weight, _ in by_weight.most_common(MOST_ROWS)]
    columns = sorted(column for column, _ in by_column.most_common(MOST_COLUMNS))
    kept: defaultdict[tuple[Weight, Column], list[ShapeRow]] = defaultdict(list)
    chosen_weights, chosen_columns = set(weights), set(columns)
    for row in rows:
        if _weight(row) in chosen_weights and (row.phase, row.M) in chosen_columns:
            kept[_weight(row), (row.phase, row.M)].append(row)
    starved = {f.id.split(".")[2]: f.id for f in q.named(view, "shapes.starved.")}
    return Drawn(weights, columns, dict(kept), starved, ", ".join(sorted({row.evidence for row in rows})))


def _says(drawn: Drawn, every: Sequence[ShapeRow]) -> str:
    (weight, (phase, rows)), most = max(drawn.cells.items(), key=lambda item: sum(row.count for row in item[1]))
    kinds = set(drawn.evidence.split(", "))
    left = sum(row.count for row in every if row.evidence in kinds) - drawn.calls
    other = sorted({row.evidence for row in every} - kinds)
    strange = sum(row.predicted is False for rows in drawn.cells.values() for row in rows)
    said = (
        f"{plural(drawn.calls, 'call')} of {plural(len(drawn.weights), 'GEMM')} at {plural(len(drawn.columns), 'size')} of M from "
        f"{drawn.evidence}; most often {_name(weight)} at M {rows:,} in {phase} ({sum(row.count for row in most):,})"
    )
    said += f"; {plural(strange, 'shape is', 'shapes are')} not the model's (✗)" if strange else ""
    said += f"; {left:,} calls of rarer shapes are not drawn" if left else ""
    return f"{said}{f'; evidence of another kind ({listed(other)}) is in the table of shapes alone' if other else ''}."


def _name(weight: Weight) -> str:
    module, op, n, k = weight
    return f"{module or op.removeprefix('aten::')} {n} x {k}"


def _names(drawn: Drawn) -> list[str]:
    """A name for each row, its sizes on one line; the operator stands behind names that two rows share."""
    often = Counter(map(_name, drawn.weights))
    names = [_name(one).replace(" x ", "\xa0x\xa0") for one in drawn.weights]
    return [
        f"{name} {one[1]}" if often[_name(one)] > 1 else name for name, one in zip(names, drawn.weights, strict=True)
    ]


def _cells(drawn: Drawn) -> dict[str, object]:
    cells = [[drawn.cells.get((weight, column), []) for column in drawn.columns] for weight in drawn.weights]
    counts = [[sum(row.count for row in rows) for rows in line] for line in cells]
    most = max(max(line) for line in counts)
    return {
        "type": "heatmap",
        "x": list(range(len(drawn.columns))),
        "y": list(range(len(drawn.weights))),
        "z": [[round(math.log10(count), 2) if count else None for count in line] for line in counts],
        "zmin": 0,
        "zmax": max(math.log10(most), 1),
        "colorscale": [list(step) for step in palette.COUNTS],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "text": [
            [_text(count, rows) for count, rows in zip(line, cell_line, strict=True)]
            for line, cell_line in zip(counts, cells, strict=True)
        ],
        "texttemplate": "%{text}",
        "hoverinfo": "text",
        "hovertext": [[_hover(rows) for rows in line] for line in cells],
        "hoverongaps": False,
        "customdata": [[_opens(drawn, rows) for rows in line] for line in cells],
    }


def _text(count: int, rows: list[ShapeRow]) -> str:
    if not count:
        return ""
    shown = f"{count / 1000:.3g}k" if count >= 1000 else str(count)
    return f"{shown} ✗" if any(row.predicted is False for row in rows) else shown


def _hover(rows: list[ShapeRow]) -> str:
    if not rows:
        return ""
    first = rows[0]
    known = {True: "one of the model's shapes", False: "✗ not one of the model's shapes", None: ""}[first.predicted]
    told = [_kernel(row) for row in rows[:TOLD]]
    more = f"{len(rows) - TOLD} more kinds of call" if len(rows) > TOLD else ""
    head = f"{first.op} {first.M} x {first.N} x {first.K}"
    return hover(f"{head}{f', {first.module}' if first.module else ''}, {first.phase}", *told, more, known)


def _kernel(row: ShapeRow) -> str:
    begun = started(row)
    programs = "" if begun is None else f"; {fixed(begun)} programs on {fixed(row.units)} units"
    tile = row.tile.partition("; ")[0]
    return f"{plural(row.count, 'call')} ({row.evidence}), {row.dtype or 'dtype unknown'}, tile {tile or UNKNOWN}{programs}"


def _opens(drawn: Drawn, rows: list[ShapeRow]) -> str:
    """The finding of starved GEMMs, of cells that leave units without work."""
    found = drawn.starved.get(rows[0].phase) if rows else None
    bare = any((begun := started(row)) is not None and row.units and begun < FILLED * row.units for row in rows)
    return target("finding", found) if found and bare else ""


def _layout(drawn: Drawn) -> dict[str, object]:
    phases = list(dict.fromkeys(phase for phase, _ in drawn.columns))
    one = len(phases) == 1
    named = {phase: SHORT.get(phase, phase) for phase in phases}
    ticks = [f"{m:,}" if one else f"{m:,} {label(named[phase])}" for phase, m in drawn.columns]
    of = (
        label(phases[0])
        if one
        else ", ".join(f"{label(short)}: {label(phase)}" for phase, short in named.items() if short != phase)
    )
    return layout(
        rows_height(len(drawn.weights)) + 60,
        axis(
            f"M, rows ({of})" if of else "M (rows)",
            tickvals=list(range(len(ticks))),
            ticktext=ticks,
            range=[-0.5, max(len(ticks), 4) - 0.5],
            showgrid=False,
        ),
        rows_axis(_names(drawn)),
    )


def _grid(drawn: Drawn) -> Grid:
    order = sorted(drawn.cells.items(), key=lambda item: -sum(row.count for row in item[1]))
    opens = [_opens(drawn, rows) for _, rows in order]
    lines = [
        (
            word(_name(weight)),
            word(phase),
            number(m),
            number(weight[2]),
            number(weight[3]),
            number(sum(row.count for row in rows)),
            word(" + ".join(sorted({row.evidence for row in rows}))),
        )
        for (weight, (phase, m)), rows in order
    ]
    return table("Calls by shape, as drawn", ("GEMM", "phase", "M", "N", "K", "calls", "evidence"), lines, opens)
