"""Kernels of one step, found without a copy of the recording: four million rows are looked through once, in milliseconds."""

from __future__ import annotations

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.present._numbers import ms, per, percent, plural
from m3probe.present.sheets import _cells as cells
from m3probe.present.sheets._told import Lazy, whole
from m3probe.present.sheets.sheet import Bar, Bars, Block, Column, Grid, Line
from m3probe.schema.verdicts import FAMILIES, Family

MOST_BARS = 5
"""Families with a bar of their own, so that kernels stand on the same small screen."""
MOST_SORTED = 200_000
"""Kernels of one step that are put in launch order: 20 ms; a step of four million would take half a second a key."""


def kernels_of(rec: Recording, step: int) -> Array:
    """Rows of kernels that a step launched, in order of record."""
    found: Array = (rec.kernels["step"] == step).nonzero()[0]
    return found


def in_launch_order(rec: Recording, rows: Array) -> Array:
    """The same rows as they were launched; those of one launch (a graph's) in order of their start."""
    launch = rec.kernels["launch"][rows]
    launched = rec.kernels["start_ns"][rows].copy()
    linked = launch != NONE
    launched[linked] = rec.launches["start_ns"][launch[linked]]
    by_start = rec.kernels["start_ns"][rows].argsort(kind="stable")
    order: Array = rows[by_start][launched[by_start].argsort(kind="stable")]
    return order


def family_time(rec: Recording, rows: Array) -> dict[Family, tuple[int, int]]:
    """{family: (kernels, ns)} of timed kernels, largest first."""
    rows = rows[rec.kernels["timed"][rows]]
    family, took = rec.kernels["family"][rows], rec.kernels["dur_ns"][rows]
    found = {}
    for code, name in enumerate(FAMILIES):
        here = family == code
        if here.any():
            found[name] = int(here.sum()), int(took[here].sum())
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def bars(rec: Recording, rows: Array) -> Bars:
    """Kernel time of a step by family; the small ones in one bar."""
    times = list(family_time(rec, rows).items())
    total = sum(ns for _, (_, ns) in times)
    shown = [_bar(str(name), count, ns, total) for name, (count, ns) in times[:MOST_BARS]]
    rest = [each for _, each in times[MOST_BARS:]]
    if rest:
        label = plural(len(rest), "more family", "more families")
        shown.append(_bar(label, sum(count for count, _ in rest), sum(ns for _, ns in rest), total))
    most = max((bar.value for bar in shown), default=0.0)
    return Bars("Kernel time of this step by family, recorded", tuple(shown), most, "ms")


def _bar(label: str, count: int, ns: int, total: int) -> Bar:
    return Bar(label, ns / 1e6, f"{ms(ns, 3)} ms, {plural(count, 'kernel')}, {percent(per(ns, total))} %")


def kernel_blocks(rec: Recording, row: int) -> list[Block]:
    """Families as bars and every kernel of one step."""
    rows = kernels_of(rec, row)
    if not len(rows):
        return [Grid("Kernels, recorded", (Column("#", right=True), *cells.KERNEL), (), _without(rec, row))]
    sort = len(rows) <= MOST_SORTED
    order = in_launch_order(rec, rows) if sort else rows

    def line(at: int) -> Line:
        here = int(order[at])
        return Line(f"kernels/{here}", (whole(at), *cells.kernel(rec, here)))

    columns = (Column("#", right=True), *(each for each in cells.KERNEL if each.name != "step"))
    without = next(at for at, each in enumerate(cells.KERNEL) if each.name == "step") + 1

    def bare(at: int) -> Line:
        made = line(at)
        return Line(made.key, made.cells[:without] + made.cells[without + 1 :])

    by = "as launched" if sort else "in order of record, too many to sort"
    title = f"Kernels {by}, recorded; start: from the step's begin"
    return [bars(rec, rows), Grid(title, columns, Lazy(len(order), bare))]


def _without(rec: Recording, row: int) -> str:
    replays = int(((rec.launches["step"] == row) & rec.graph_launches).sum())
    if replays:
        return (
            f"No kernel record belongs to this step: it launched {replays:,} graph(s) whose kernels were not recorded."
        )
    return "No kernel record belongs to this step."
