"""Small charts of a sheet without a library: they are there without JavaScript too."""

from __future__ import annotations

from m3probe.present._numbers import fixed
from m3probe.present.html._tables import marked
from m3probe.present.html._text import html, shown
from m3probe.present.sheets.sheet import Bars, Curve, Strip

WIDE, HIGH, THICK = 1000.0, 120.0, 26.0
KINDS = 6
"""Colours of a strip's kinds in ``style.css``; more kinds share them."""


def bars(one: Bars) -> str:
    """Bars on one scale: label, bar, figure in words."""
    rows = []
    for bar in one.bars:
        share = min(max(bar.value / one.high, 0.0), 1.0) if one.high > 0 else 0.0
        rows.append(
            f'<li><span class="label">{marked(bar.label, bar.mark)}</span>'
            f'<span class="track" aria-hidden="true"><span style="width:{100 * share:.2f}%"></span></span>'
            f'<span class="value">{html(shown(bar.text))}</span></li>'
        )
    return f'<div class="chart"><p class="title">{html(one.title)}</p><ul class="bars">{"".join(rows)}</ul></div>'


def curve(one: Curve) -> str:
    """A series: its line broken at gaps, restarts as vertical lines, its scale in words."""
    xs = [x for x, _ in one.points]
    if not xs:
        return f'<p class="said dim">{html(one.title)}: nothing was measured.</p>'
    begin, span = min(xs), (max(xs) - min(xs)) or 1.0
    tall = (one.high - one.low) or 1.0

    def x_of(x: float) -> float:
        return WIDE * (x - begin) / span

    def y_of(value: float) -> float:
        return HIGH * (1 - min(max((value - one.low) / tall, 0.0), 1.0))

    path, broken = [], True
    for x, value in one.points:
        if value is not None:
            path.append(f"{'M' if broken else 'L'}{x_of(x):.1f} {y_of(value):.1f}")
        broken = value is None
    marks = "".join(f'<path class="mark" d="M{x_of(x):.1f} 0V{HIGH:g}"/>' for x in one.marks)
    scale = f"{fixed(one.low, 1)} to {fixed(one.high, 1)} {one.unit}"
    spread = f"{fixed(begin, 1)} to {fixed(begin + span, 1)} {one.x_unit}"
    label = html(f"{one.title}: {one.text or scale}")
    return (
        f'<div class="chart"><p class="title">{html(one.title)} <span class="count">{html(one.text)}</span></p>'
        f'<svg class="curve" role="img" aria-label="{label}" viewBox="0 -2 {WIDE:g} {HIGH + 4:g}" '
        f'preserveAspectRatio="none">{marks}<path class="line" d="{"".join(path)}"/></svg>'
        f'<p class="scale"><span>{html(scale)}</span><span>{html(spread)}</span></p></div>'
    )


def strip(one: Strip) -> str:
    """A time line; kinds by colour and by the legend's words, and each span's kind as its tip."""
    kinds = dict(one.legend)
    order = list(dict.fromkeys([*kinds, *(kind for *_, kind in one.spans)]))
    length = one.length or 1.0
    drawn = "".join(
        f'<rect class="k{order.index(kind) % KINDS}" x="{WIDE * begin / length:.2f}" y="0" height="{THICK:g}" '
        f'width="{max(WIDE * (end - begin) / length, 0.5):.2f}"><title>{html(kinds.get(kind, kind))}</title></rect>'
        for begin, end, kind in one.spans
    )
    legend = "".join(
        f'<span class="key"><i class="k{place % KINDS}"></i>{html(kinds.get(kind, kind))}</span>'
        for place, kind in enumerate(order)
    )
    scale = f"0 to {fixed(one.length, 1)} {one.unit}"
    return (
        f'<div class="chart"><p class="title">{html(one.title)} <span class="count">{html(scale)}</span></p>'
        f'<svg class="strip" role="img" aria-label="{html(one.title)}, {html(scale)}" viewBox="0 0 {WIDE:g} {THICK:g}" '
        f'preserveAspectRatio="none">{drawn}</svg><p class="legend">{legend}</p></div>'
    )
