"""Kernel time of each step, stacked by family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.model.report import StepRow, SummarySection
from m3probe.model.step_families import family_ns
from m3probe.model.view import View
from m3probe.present._numbers import fixed, percent, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import axis, hover, label, layout, near, table, word
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import number
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import FAMILIES

MOST_BARS = 2000
NAMED = 8
"""Families with a colour in the stack; the others are one."""


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring steps of one rank that share a bar: their rows, and the mean ns of each family."""

    steps: tuple[int, ...]
    phase: str
    ns: tuple[float, ...]


def stacks(view: View) -> tuple[Figure, ...]:
    """The chart; nothing without a recording, or where no step's kernel time is whole."""
    found = q.section(view, SummarySection)
    rows = found.steps if found else ()
    rec = view.recording
    if rec is None or len(rec.steps) != len(rows):
        return ()
    whole = [at for at, row in enumerate(rows) if row.kernel_time_ns]
    if not whole:
        return ()
    sums = family_ns(rec)
    total = sums[whole].sum(axis=0).tolist()
    order = sorted((code for code, ns in enumerate(total) if ns), key=lambda code: -total[code])
    named, rest = order[:NAMED], order[NAMED:]
    each = max(-(-len(whole) * (len(named) + bool(rest)) // MOST_BARS), 1)
    groups = _groups(whole, rows, each)
    means = [[float(sums[list(some), code].mean()) for some in groups] for code in named]
    names = [str(FAMILIES[code]) for code in named]
    if rest:
        means.append([float(sums[list(some)][:, rest].sum(axis=1).mean()) for some in groups])
        names.append(plural(len(rest), "other family", "other families"))
    phases = [Counter(rows[at].phase for at in some).most_common(1)[0][0] for some in groups]
    drawn = [Group(some, phases[at], tuple(mean[at] for mean in means)) for at, some in enumerate(groups)]
    shares = {name: total[code] for name, code in zip(names, named, strict=False)}
    return (_figure(drawn, names, shares, sum(total), each, len(rows) - len(whole)),)


def _groups(whole: Sequence[int], rows: Sequence[StepRow], each: int) -> list[tuple[int, ...]]:
    """Runs of steps of one rank, so many at most."""
    found: list[list[int]] = []
    for at in whole:
        if not found or len(found[-1]) == each or rows[found[-1][-1]].rank != rows[at].rank:
            found.append([])
        found[-1].append(at)
    return [tuple(some) for some in found]


def _figure(drawn: list[Group], names: list[str], shares: dict[str, int], total: int, each: int, lost: int) -> Figure:
    first = ", ".join(f"{name} {percent(ns / total)} %" for name, ns in list(shares.items())[:3])
    said = (
        f"Kernel time of {plural(sum(len(one.steps) for one in drawn), 'step')}: {first} of {fixed(total / 1e6, 1)} ms"
    )
    said += f"; {each} steps share a bar, which is their mean" if each > 1 else ""
    said += f"; {plural(lost, 'step')} without a whole kernel time left out" if lost else ""
    return Figure(
        key="step-families",
        title="Kernel time of each step, by family",
        says=f"{said}.",
        data=tuple(_trace(at, name, drawn) for at, name in enumerate(names)),
        layout=layout(
            430,
            axis("step, in order of the recording"),
            axis("ms of kernel time", rangemode="tozero"),
            barmode="stack",
            bargap=0.12,
            showlegend=True,
        ),
        rows=table(
            "Kernel time by family",
            ("family", "ms, all steps", "% of kernel time"),
            [(word(name), number(ns / 1e6, 3), number(100 * ns / total, 1)) for name, ns in shares.items()],
        ),
    )


def _trace(at: int, name: str, drawn: Sequence[Group]) -> dict[str, object]:
    return {
        "type": "bar",
        "name": label(name),
        "x": [one.steps[0] for one in drawn],
        "y": [near(one.ns[at] / 1e6) for one in drawn],
        "marker": palette.family(name),
        "hoverinfo": "text",
        "hovertext": [_hover(name, one, one.ns[at]) for one in drawn],
        "customdata": [target("step", one.steps[0]) for one in drawn],
    }


def _hover(name: str, one: Group, ns: float) -> str:
    which = f"step {one.steps[0]:,}" if len(one.steps) == 1 else f"steps {one.steps[0]:,} to {one.steps[-1]:,}, mean"
    return hover(f"{name}: {fixed(ns / 1e6, 3)} ms", f"{which}, {one.phase}; {fixed(sum(one.ns) / 1e6, 3)} ms in all")
