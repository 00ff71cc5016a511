"""Live figures of the first page, in one line and in a table, and what to try where no figure came."""

from __future__ import annotations

from m3probe.model.view import Gauge, Scope, View, Word
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.sheets._gauges import figure
from m3probe.present.sheets._told import lasting, scaled, text
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Line, Said
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import PathVerdict

PULSE = 6
"""Figures of the line: two rows of a small terminal."""
PULSED = ("running", "waiting", "kv_usage", "output_tokens_per_s", "ttft_p50_ms", "itl_p50_ms")
"""What stands in it before the others."""
_NO_ANSWER = (Word.DOWN, Word.BAD_DATA, Word.STALE)


def pulse(view: View) -> list[Said]:
    """The first known figures in one line, by scope, with the age of the oldest; what is absent stands in the table."""
    names = [name for name in PULSED if name in view.gauges]
    every = [view.gauges[name] for name in dict.fromkeys([*names, *view.gauges])]
    known = [gauge for gauge in every if gauge.value is not None][:PULSE]
    if not known:
        return []
    said = []
    for scope in Scope:
        here = [f"{gauge.title.replace(', ', ' ')} {_short(gauge)}" for gauge in known if gauge.scope is scope]
        head = f"windowed, {_window(view)}" if scope is Scope.WINDOWED else scope.value
        said += [f"{head}: {', '.join(here)}"] if here else []
    oldest = max((gauge.age_s for gauge in known if gauge.age_s is not None), default=None)
    return [Said(" · ".join([*said, *([] if oldest is None else [f"{lasting(oldest)} old"])]))]


def first_moves(view: View) -> list[Said]:
    """Three things to try where nothing was ever read."""
    bad = [each for each in view.sources if each.word in _NO_ANSWER]
    if not bad:
        return []
    again = [each.retry_in_s for each in bad if each.retry_in_s is not None]
    asked = f"in {min(again):.0f} s" if again else "at the next turn"
    if not bad[0].name.startswith(("http://", "https://")):
        pid = bad[0].name.rpartition(" ")[2]
        return [
            Said(
                f"1. Is it there, and may you look into it? ps -fp {pid}"
                if pid.isdecimal()
                else "1. Does a server run here?"
            ),
            Said("2. Give the pid of the API server or of a worker, or its address: m3probe tui http://HOST:PORT."),
            Said("3. m3probe doctor says what this host allows. The sources' page (o) has the state of each."),
        ]
    return [
        Said(
            f"1. Ask it by hand: curl -sS {bad[0].name.removesuffix('/metrics')}/metrics, which must answer with metrics."
        ),
        Said("2. Is it the API server's port, and is the server done loading? Its log says when it is ready."),
        Said(f"3. Wait: it is asked again {asked}. The sources' page (o) has the state of each."),
    ]


def _window(view: View) -> str:
    return "all that is kept" if view.window_s is None else f"last {lasting(view.window_s)}"


def _short(gauge: Gauge) -> str:
    """Figure and unit, where the title does not name it."""
    shown, unit = figure(gauge)
    return shown if unit in gauge.title or unit == "requests" else f"{shown} {unit}"


def tiles(view: View) -> list[Block]:
    """Live figures; absence in words, never 0."""
    if not view.gauges:
        return []
    columns = (
        Column("figure"),
        Column("value", right=True),
        Column("unit"),
        Column("scope", keep=1),
        Column("age", right=True, keep=1),
        Column("lowest to highest", wide=True, keep=2),
    )
    return [Grid(f"Live figures, {_window(view)}", columns, tuple(_tile(gauge) for gauge in view.gauges.values()))]


def _tile(gauge: Gauge) -> Line:
    shown, unit = figure(gauge)
    size = gauge.value / scaled(gauge.value, gauge.unit)[0] if gauge.value else 1.0
    recent = [value / size for _, value in gauge.recent if value is not None]
    span = f"{fixed(min(recent), 1)} to {fixed(max(recent), 1)}" if recent else UNKNOWN
    cells = (
        text(gauge.title),
        Cell(shown, gauge.value, str(PathVerdict.UNPROVEN) if gauge.value is None else ""),
        text(unit),
        text(gauge.scope.value),
        Cell(UNKNOWN if gauge.age_s is None else lasting(gauge.age_s), gauge.age_s),
        Cell(f"{span}, counters began anew" if gauge.resets else span),
    )
    return Line(f"gauge/{gauge.name}", cells, target("queues"))
