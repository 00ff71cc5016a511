"""Question 1: which local M, N, K reach this rank, on which tile, and how far from the least time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from m3probe.model.path_report import PathsSection
from m3probe.model.report import ModelMatch, ShapeRow, ShapesSection
from m3probe.model.roofline_report import RooflineRow, RooflineSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, listed
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._shape_lines import COLUMNS, again_of, line_of
from m3probe.present.sheets._told import Lazy
from m3probe.present.sheets.sheet import Bar, Bars, Block, Grid, Lens, Line, Said, Sheet

TITLE = "1 shapes"
BARS = 6
MEASURED = {"kernels", "census"}
EMPTY = (
    "An operator with input shapes (record_shapes) around a GEMM's launch, or a census of the graph, would name one."
)
CHANGE = (
    "A trace with shapes (record_shapes) of more batch sizes, one with an eager twin for what graphs hide, or another "
    "parallel layout"
)


def answer(view: View) -> Said:
    """The question in one sentence: shapes seen, whose they are, and what is wrong with them."""
    found = q.section(view, ShapesSection)
    if found is None or not found.shapes:
        return Said("unproven: no local GEMM shape is proven", q.UNPROVEN)
    rows = found.shapes
    head = q.local_shapes(rows)
    match = found.model_match
    whose = f", those of {layout(match)}" if match else ", of no known layout"
    worst = next((f for f in q.of_question(view, "shapes") if f.verdict in {"starved", "unexpected", "missed"}), None)
    if worst is None:
        return Said(f"measured: {head}{whose}", q.GOOD if match else "")
    return Said(f"{worst.verdict}: {head}{whose}. {worst.claim}", q.mark_of(worst.verdict))


def layout(match: ModelMatch) -> str:
    """``MiniMax M3 at TP4, EP8``."""
    return f"{match.model} at TP{match.tp}{f', EP{match.ep}' if match.ep and match.ep > 1 else ''}"


def shapes(view: View, lens: Lens) -> Sheet:
    """The page."""
    found = q.section(view, ShapesSection)
    if found is None:
        return q.unanswered(view, TITLE, "shapes")
    rows = [row for row in found.shapes if lens.phase in {None, row.phase}]
    blocks: list[Block] = [answer(view), *q.hidden(view)]
    blocks += [Said(f.claim, q.UNPROVEN) for f in q.named(view, "shapes.unproven", "shapes.moe_unproven")]
    blocks += _chart(view, rows, lens)
    blocks.append(_grid(view, rows, lens))
    blocks += _match(found.model_match)
    blocks += _tuned(view)
    blocks += q.findings_grid([f for f in q.of_question(view, "shapes") if f.verdict != "unproven"])
    ranks = "" if lens.rank is None else "; of all ranks together, whatever the rank filter"
    blocks.append(q.origin(view, (row.evidence for row in rows), f"x least is computed from the device's peaks{ranks}"))
    return Sheet(TITLE, tuple(blocks), change=CHANGE)


Floors = Mapping[tuple[str, str, str], Sequence[RooflineRow]]
"""(phase, operator, sizes) -> rows of the roofline that are of one GEMM shape."""


def floors(view: View) -> Floors:
    """Rows of the roofline by the shape that they are of; the shape's text may name its module behind the sizes."""
    found = q.section(view, RooflineSection)
    by: dict[tuple[str, str, str], list[RooflineRow]] = {}
    for row in found.roofline.rows if found else ():
        if not row.part:
            by.setdefault((row.phase, row.what, " ".join(row.shape.split(" ")[:5])), []).append(row)
    return by


def floor_of(row: ShapeRow, every: Floors) -> RooflineRow | None:
    """The roofline's row of a shape: same phase, operator and sizes; None where there is none, or more than one."""
    mine = every.get((row.phase, row.op, f"{row.M} x {row.N} x {row.K}"), ())
    alike = [found for found in mine if found.dtype == row.dtype] or mine
    return alike[0] if len(alike) == 1 else None


def _chart(view: View, rows: list[ShapeRow], lens: Lens) -> list[Bars]:
    """Time above the floor of the shapes and parts that lost most; without floors, calls by M."""
    found = q.section(view, RooflineSection)
    timed = [r for r in (found.roofline.rows if found else ()) if r.ratio is not None and lens.phase in {None, r.phase}]
    lost = sorted(((above_ms(row), row) for row in timed), key=lambda pair: -pair[0])
    if lost and lost[0][0] > 0:
        bars = tuple(_lost(ms, row) for ms, row in lost[:BARS] if ms > 0)
        title = "Time above the least, computed; a part holds its shapes"
        return [Bars(title, bars, bars[0].value, "ms")]
    calls: Counter[int] = Counter()
    for row in rows:
        calls[row.M] += row.count
    top = calls.most_common(BARS)
    bars = tuple(Bar(f"M {m:,}", float(n), f"{n:,}") for m, n in sorted(top))
    return [Bars("GEMM calls by rows (M), the most frequent", bars, float(top[0][1]), "calls")] if top else []


def above_ms(row: RooflineRow) -> float:
    """What all timed executions took beyond their floor, in ms."""
    return ((row.observed_ns or 0.0) - (row.floor_ns or 0.0)) * row.count / 1e6


def _lost(ms: float, row: RooflineRow) -> Bar:
    name = row.what if row.part else row.shape
    text = f"{fixed(ms, 2)} ms, x {fixed(row.ratio, 2)}, bound by {row.bound_by or UNKNOWN}"
    return Bar(f"{row.phase} {name}", ms, text)


def _grid(view: View, rows: list[ShapeRow], lens: Lens) -> Grid:
    every = floors(view)
    # the same calls may be known twice, by kernels and by the ledger: never added up, what was measured first
    kinds = tuple(sorted({row.evidence for row in rows}, key=lambda kind: (kind not in MEASURED, kind)))
    first = sorted(rows, key=lambda row: (kinds.index(row.evidence), -row.count))
    starved = {f.id.split(".")[2]: f.id for f in q.named(view, "shapes.starved.")}
    again = again_of(first)

    @cache
    def line(at: int) -> Line:
        # sixty µs each: twenty thousand shapes would take a second, of which a screen shows twenty
        row = first[at]
        return line_of(row, floor_of(row, every), starved.get(row.phase, ""), again[at])

    said = [f"{kind} {sum(row.count for row in rows if row.evidence == kind):,} calls" for kind in kinds]
    empty = q.nothing("GEMM shape", lens.phase)
    return Grid(f"Local GEMM shapes: {', '.join(said) or 'none'}", COLUMNS, Lazy(len(first), line), f"{empty} {EMPTY}")


def _match(match: ModelMatch | None) -> list[Said]:
    if match is None:
        return [Said("model unproven: no parallel layout's whole set of local shapes was seen", q.UNPROVEN)]
    said = [Said(f"local shapes of {layout(match)}: each is the model's global shape, divided", q.GOOD)]
    said += [Said(text, dim=True) for text in match.notes]
    return said + ([Said(f"not seen: {listed(match.missing)}", q.UNPROVEN, dim=True)] if match.missing else [])


def _tuned(view: View) -> list[Said]:
    """Whether a tuned table held the shapes, as its path says; nothing where no path was judged."""
    found = q.section(view, PathsSection)
    row = next((row for row in found.paths if row.id == "tuned_table"), None) if found else None
    if row is None:
        return []
    why = f": {row.reasons[0]}" if row.reasons else ""
    return [Said(f"tuned tables {row.verdict}{why}", row.verdict)]
