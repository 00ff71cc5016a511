"""Which finding to act on: what each could win at most, the likeliest first."""

from __future__ import annotations

from m3probe.model.findings import Bound, Finding
from m3probe.model.report import RankedRow
from m3probe.model.view import View
from m3probe.present._numbers import percent, plural
from m3probe.present._top import bound_text
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import (
    axis,
    bars,
    grouped,
    hover,
    label,
    layout,
    near,
    rows_axis,
    rows_height,
    table,
    word,
)
from m3probe.present.sheets._told import at_most, number, ranking, short
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

MOST = 12
ROOM = 1.3
"""The axis ends so far behind the longest bar: its text stands there."""
Shown = tuple[int, RankedRow, Bound, Finding | None]
"""Row of the plot, and what stands in it."""


def figures(view: View) -> tuple[Figure, ...]:
    """The ranking's bounds; nothing where nothing has a bound."""
    report = view.report
    rows = [row for row in ranking(report) if row.bound is not None]
    if report is None or not rows:
        return ()
    by_id = {finding.id: finding for finding in report.answer.findings}
    shown = [(at, row, row.bound, by_id.get(row.finding)) for at, row in enumerate(rows[:MOST]) if row.bound]
    bases = list(dict.fromkeys(row.basis or "a time that is not named" for _, row, _, _ in shown))
    return (
        Figure(
            key="verdict",
            title="What could be won, at most",
            says=_says(shown, len(rows), bases),
            data=tuple(_trace(sure, some, bases[0]) for sure, some in grouped(shown, map(_sure, shown)).items()),
            layout=_layout(shown, bases),
            rows=_grid(shown),
        ),
    )


def _sure(one: Shown) -> str:
    _, row, _, finding = one
    return row.confidence if finding is None or finding.trusted else "untrusted"


def _says(shown: list[Shown], every: int, bases: list[str]) -> str:
    _, first, bound, finding = shown[0]
    more = f"; {plural(every - len(shown), 'more', 'more')} in the table of findings" if every > len(shown) else ""
    unlike = "" if len(bases) == 1 else "; bounds of unlike times are not to be held against each other"
    return (
        f"First is {short(first.finding)}: {bound_text(bound)} of {first.basis or bases[0]} to win, "
        f"{_sure((0, first, bound, finding))} confidence; bounds overlap and are never added up{unlike}{more}."
    )


def _other(row: RankedRow, basis: str) -> str:
    """The sign of a bound that is a share of another time than the axis names."""
    return "" if row.basis in {"", basis} else " †"


def _trace(sure: str, shown: list[Shown], basis: str) -> dict[str, object]:
    """Bars of one confidence, from the lower to the upper bound."""
    return bars(
        sure if sure == "untrusted" else f"{sure} confidence",
        [at for at, *_ in shown],
        [near(100 * (bound.high - bound.low)) for _, _, bound, _ in shown],
        palette.filled(palette.CONFIDENCE.get(sure, palette.CONFIDENCE["low"])),
        base=[near(100 * bound.low) for _, _, bound, _ in shown],
        text=[f"{percent(bound.high)} %{_other(row, basis)}" for _, row, bound, _ in shown],
        hovertext=[_hover(one) for one in shown],
        customdata=[target("finding", row.finding) for _, row, _, _ in shown],
    )


def _hover(one: Shown) -> str:
    _, row, bound, finding = one
    return hover(
        f"{row.place}. {short(row.finding)}: {bound_text(bound)} of {row.basis or 'a time that is not named'}",
        finding.claim if finding else "",
        *(f"= {text}" for text in bound.arithmetic),
        f"lies inside {short(row.inside)}" if row.inside else "",
        f"{_sure(one)} confidence; {row.why}",
    )


def _layout(shown: list[Shown], bases: list[str]) -> dict[str, object]:
    names = [f"{row.place} {'↳ ' * bool(row.inside)}{short(row.finding)}" for _, row, _, _ in shown]
    of = f"{label(bases[0])}{'' if len(bases) == 1 else ' (†: of another)'}"
    most = 100 * max(bound.high for _, _, bound, _ in shown)
    return layout(
        rows_height(len(shown), legend=1),
        axis(f"at most, % of {of}", range=[0, near(max(most * ROOM, 0.1))]),
        rows_axis(names),
        showlegend=True,
        barmode="overlay",
    )


def _grid(shown: list[Shown]) -> Grid:
    lines = [
        (
            word(short(row.finding)),
            number(row.place),
            number(100 * bound.low, 1),
            at_most(bound),
            word(row.basis),
            word(_sure(one)),
            word(short(row.inside) if row.inside else ""),
        )
        for one in shown
        for _, row, bound, _ in [one]
    ]
    columns = ("what", "place", "at least %", "at most %", "of", "confidence", "inside")
    return table(
        "What could be won, at most", columns, lines, [target("finding", row.finding) for _, row, _, _ in shown]
    )
