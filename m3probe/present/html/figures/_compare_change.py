"""What explains the change of a step: a waterfall of its parts that ends at the change, then kernels and local shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from m3probe.model.compare_report import Pair, Part, PhaseChange, ShapeChange
from m3probe.model.view import View
from m3probe.present._compare_parts import SHAPE_MOVED, short
from m3probe.present._numbers import UNKNOWN, fixed, percent, plural, us
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._compare_ratios import step_name
from m3probe.present.html.figures._plot import hover
from m3probe.present.html.palette import GREY
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Column, Grid, Line

GROUPS = 2
"""Groups of steps drawn for each pair: those of which the whole time changed most. The run's page has all."""
PARTS, KERNELS = 10, 10
SMALL = 0.004
"""Parts below this share of the largest one stand together."""
TOTAL, REST, OVERLAP = "the whole change", "all other parts", "side by side"
COLUMNS = (
    Column("part", wide=True),
    Column("µs before", right=True),
    Column("µs after", right=True),
    Column("change µs", right=True),
    Column("% of change", right=True),
)


def figures(view: View) -> tuple[Figure, ...]:
    """A waterfall for each group of steps, and its kernels; nothing where no step was timed in both."""
    return tuple(figure for place, pair in look.drawn(view) for figure in _changes(place, pair))


def _changes(place: int, pair: Pair) -> tuple[Figure, ...]:
    known = [one for one in pair.phases if one.delta_ns is not None and _parts(one)]
    known.sort(key=lambda one: -abs(one.delta_ns or 0.0) * min(one.steps_before, one.steps_after))
    found: list[Figure] = []
    for at, change in enumerate(known[:GROUPS], 1):
        found.append(_waterfall(f"change-{place}-{at}", pair, change))
        found += _kernels(f"kernels-{place}-{at}", pair, change)
    return (*found, *_shapes(place, pair))


def _parts(change: PhaseChange) -> list[Part]:
    """Every part of the change, the largest first: families, idle time, copies, and what ran side by side."""
    return sorted((p for p in (*change.families, *change.parts) if p.delta_ns), key=lambda p: -abs(p.delta_ns or 0.0))


def _waterfall(key: str, pair: Pair, change: PhaseChange) -> Figure:
    parts = _parts(change)
    least = abs(parts[0].delta_ns or 0.0) * SMALL
    shown = [part for part in parts[:PARTS] if abs(part.delta_ns or 0.0) >= least]
    rest = parts[len(shown) :]
    names = [_name(part) for part in shown] + ([REST] if rest else []) + [TOTAL]
    values = [part.delta_ns or 0.0 for part in shown] + ([_sum(rest)] if rest else []) + [change.delta_ns or 0.0]
    told = [_hover(part) for part in shown]
    told += [hover(f"{plural(len(rest), 'more part')} together", f"{us(_sum(rest))} µs")] if rest else []
    told += [hover(step_name(change), _times(change))]
    return Figure(
        key=key,
        title=f"{pair.after}: what explains the change of a {step_name(change)}?",
        says=_said(pair, change, shown, rest),
        data=(_bars(names, values, told, look.run_target(pair.after)),),
        layout=look.signed_layout(_levels(values), len(names)),
        rows=Grid("Parts of the change", COLUMNS, q.keyed(_line(part, pair) for part in (*parts, _whole(change)))),
    )


def _levels(values_ns: Sequence[float]) -> list[float]:
    """µs at which the bars of a waterfall end; the last value is their sum, and no step of its own."""
    return [us / 1e3 for us in accumulate(values_ns[:-1])]


def _bars(names: Sequence[str], values_ns: Sequence[float], told: Sequence[str], opens: str) -> dict[str, Any]:
    return {
        "type": "waterfall",
        "orientation": "h",
        "y": look.distinct(names),
        "x": [round(ns / 1e3, 2) for ns in values_ns],
        "measure": ["relative"] * (len(values_ns) - 1) + ["total"],
        "text": [_signed(ns) for ns in values_ns],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": list(told),
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [opens] * len(values_ns),
        "increasing": {"marker": {"color": look.MORE}},
        "decreasing": {"marker": {"color": look.LESS}},
        "totals": {"marker": {"color": GREY}},
        "connector": {"line": {"color": GREY, "width": 1}},
    }


def _signed(ns: float) -> str:
    return f"{'+' if ns > 0 else ''}{us(ns)}"


def _sum(parts: Sequence[Part]) -> float:
    return sum(part.delta_ns or 0.0 for part in parts)


def _name(part: Part) -> str:
    return OVERLAP if part.what == "overlap" else part.name or part.name_after or part.what


def _hover(part: Part) -> str:
    share = "" if part.share is None else f"{percent(part.share)} % of the change"
    times = f"{us(part.before_ns)} → {us(part.after_ns)} µs, {_signed(part.delta_ns or 0.0)} µs"
    calls = ""
    if part.count_before is not None or part.count_after is not None:
        calls = f"{fixed(part.count_before, 1)} → {fixed(part.count_after, 1)} calls a step"
    named = (
        part.name
        if part.name == part.name_after or not part.name_after
        else f"{part.name or UNKNOWN} → {part.name_after}"
    )
    match = part.match if part.match not in ("", "same") else ""
    return hover(named or part.what, times, share, calls, match)


def _times(change: PhaseChange) -> str:
    noise = "" if change.error_ns is None else f" ± {us(2 * change.error_ns)}"
    times = f"{us(change.before_ns)} → {us(change.after_ns)} µs, change {_signed(change.delta_ns or 0.0)}{noise} µs: {change.verdict}"
    return f"{times}; unsure: {change.doubt}" if change.doubt else times


def _said(pair: Pair, change: PhaseChange, shown: Sequence[Part], rest: Sequence[Part]) -> str:
    """The change, then its largest parts with their shares."""
    told = [f"{_name(part)} {_signed(part.delta_ns or 0.0)} µs ({percent(part.share)} %)" for part in shown[:5]]
    others = (*shown[5:], *rest)
    told += [f"{plural(len(others), 'other part')} {_signed(_sum(others))} µs"] if others else []
    claim = "" if pair.contract.comparable else f" No speed-up is claimed: {pair.contract.claim}."
    return f"A {step_name(change)} takes {_times(change)}. Its parts: {look.listed(told)}.{claim}"


def _whole(change: PhaseChange) -> Part:
    share = 1.0 if change.delta_ns else None
    return Part("whole", TOTAL, TOTAL, "", "", None, None, change.before_ns, change.after_ns, change.delta_ns, share)


def _line(part: Part, pair: Pair) -> Line:
    times = (q.scaled(value, 1e3) for value in (part.before_ns, part.after_ns, part.delta_ns))
    name = _name(part) if part.what != "kernel" else f"{part.name} {part.name_after}"
    return Line(name, (q.word(_name(part)), *times, q.share(part.share)), look.run_target(pair.after))


def _kernels(key: str, pair: Pair, change: PhaseChange) -> tuple[Figure, ...]:
    """Signed bars of the kernels that changed most; nothing where none did."""
    known = sorted((k for k in change.kernels if k.delta_ns), key=lambda k: -abs(k.delta_ns or 0.0))
    if not known:
        return ()
    shown = known[:KERNELS]
    values = [kernel.delta_ns or 0.0 for kernel in shown]
    told = [f"{_kernel(kernel)} {_signed(kernel.delta_ns or 0.0)} µs" for kernel in shown[:4]]
    more = f"; {len(known) - len(told):,} more" if len(known) > len(told) else ""
    return (
        Figure(
            key=key,
            title=f"{pair.after}: which kernels changed in a {step_name(change)}?",
            says=f"Largest changes of kernels, a step: {look.listed(told)}{more}",
            data=(_signed_bars([_kernel(one) for one in shown], values, [_hover(one) for one in shown], pair),),
            layout=look.signed_layout([ns / 1e3 for ns in values], len(shown)),
            rows=Grid("Kernels that changed", COLUMNS, q.keyed(_line(kernel, pair) for kernel in known[:200])),
        ),
    )


def _kernel(kernel: Part) -> str:
    return short(kernel.name_after or kernel.name)


def _signed_bars(names: Sequence[str], values_ns: Sequence[float], told: Sequence[str], pair: Pair) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "y": look.distinct(names),
        "x": [round(ns / 1e3, 2) for ns in values_ns],
        "text": [_signed(ns) for ns in values_ns],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": list(told),
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [look.run_target(pair.after)] * len(values_ns),
        "marker": {"color": [look.MORE if ns > 0 else look.LESS for ns in values_ns]},
    }


def _shapes(place: int, pair: Pair) -> tuple[Figure, ...]:
    """What local GEMM shapes take of a step, where both runs timed them and a call of one takes another time."""
    moved = [(s, d) for s in pair.shapes if abs((s.ratio or 1.0) - 1) >= SHAPE_MOVED and (d := _delta(s))]
    known = sorted(moved, key=lambda one: -abs(one[1]))[:KERNELS]
    if not known:
        return ()
    names = [f"{shape.shape} {shape.phase}" for shape, _ in known]
    told = [f"{name} {_signed(ns)} µs" for name, (_, ns) in zip(names, known, strict=True)]
    return (
        Figure(
            key=f"shapes-{place}",
            title=f"{pair.after}: which local GEMM shapes changed?",
            says=f"Time of local shapes M x N x K a step, after less before: {look.listed(told[:5])}",
            data=(_signed_bars(names, [ns for _, ns in known], [_shape(s, ns) for s, ns in known], pair),),
            layout=look.signed_layout([ns / 1e3 for _, ns in known], len(known)),
        ),
    )


def _delta(shape: ShapeChange) -> float | None:
    """ns a step: calls x time of a call, after less before; None where a factor is not known."""
    sides = (shape.per_step_before, shape.call_before_ns, shape.per_step_after, shape.call_after_ns)
    if any(side is None for side in sides):
        return None
    return (sides[2] or 0.0) * (sides[3] or 0.0) - (sides[0] or 0.0) * (sides[1] or 0.0)


def _shape(shape: ShapeChange, ns: float) -> str:
    calls = f"{fixed(shape.per_step_before, 1)} → {fixed(shape.per_step_after, 1)} calls a step"
    times = f"{us(shape.call_before_ns)} → {us(shape.call_after_ns)} µs a call, x {fixed(shape.ratio, 3)}"
    return hover(f"{shape.op} {shape.shape} in {shape.phase}", calls, times, f"{_signed(ns)} µs a step")
