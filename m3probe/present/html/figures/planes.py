"""What moved on each byte plane, how long it took, and what of it nothing proves."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from m3probe.model.report import BytePlanes, BytesSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, bytes_unit, in_unit, listed, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import (
    WIDE,
    axis,
    bars,
    hover,
    label,
    layout,
    near,
    rows_axis,
    rows_height,
    table,
    word,
)
from m3probe.present.html.figures._traffic import Kind, kinds_of, largest, name_of, times, told
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import in_ms, number
from m3probe.present.sheets.planes import PLANES
from m3probe.present.sheets.sheet import Cell, Grid

REASON = 40
"""Characters of a reason inside the plot; the hover has all of it."""
MOST_TICKS = 6
UNPROVEN = "? unproven"


def figures(view: View) -> tuple[Figure, ...]:
    """Bytes, and time, of the largest traffic; nothing where no plane saw any, and no bytes where none are proven."""
    found = q.section(view, BytesSection)
    kinds = kinds_of(found.bytes) if found else []
    if found is None or not kinds:
        return ()
    drawn = largest(kinds)
    if all(kind.bytes is None for kind in kinds):
        return times(drawn)  # a scale without a bar; the sentences below say what is not provable, and why
    return (
        Figure(
            key="planes",
            title="Bytes moved, by plane",
            says=_says(found.bytes, kinds, drawn),
            data=tuple(_bytes(drawn, found.bytes.not_provable)),
            layout=_bytes_layout(drawn, found.bytes.not_provable),
            rows=_grid(drawn, found.bytes.not_provable),
        ),
        *times(drawn),
    )


def _says(planes: BytePlanes, kinds: Sequence[Kind], drawn: Sequence[Kind]) -> str:
    proven = [kind for kind in kinds if kind.bytes is not None]
    said = f"Bytes are proven of {len(proven)} of {plural(len(kinds), 'kind')} of traffic"
    if proven:
        most = max(proven, key=lambda kind: kind.bytes or 0)
        unit, size = bytes_unit([most.bytes])
        said += f", most of {most.what} on the {most.plane} plane ({in_unit(most.bytes, size)} {unit})"
    quiet = [title for plane, title in PLANES if not any(kind.plane == plane for kind in kinds)]
    said += f"; nothing was seen of {listed(quiet)}, which proves nothing about it" if quiet else ""
    said += f"; {len(kinds) - len(drawn)} smaller kinds are not drawn" if len(drawn) < len(kinds) else ""
    count = len(planes.not_provable)
    return f"{said}{f'; {count} more cannot be proven here, each with its reason in its row' if count else ''}."


def _bytes(drawn: Sequence[Kind], reasons: Sequence[str]) -> list[dict[str, object]]:
    """One trace a plane; what nothing proves is a sign at the scale's begin, and no bar."""
    low, _, wide = _scale(drawn)
    size = 1 if wide else bytes_unit(kind.bytes for kind in drawn)[1]
    traces = [
        _trace(
            plane,
            title,
            [(at, kind) for at, kind in enumerate(drawn) if kind.plane == plane and kind.bytes is not None],
            size,
        )
        for plane, title in PLANES
    ]
    bare = [(at, UNPROVEN, told(kind)) for at, kind in enumerate(drawn) if kind.bytes is None]
    bare += [
        (at, label(f"? {_split(reason)[1]}", REASON), hover(f"not provable here: {reason}"))
        for at, reason in enumerate(reasons, len(drawn))
    ]
    return [trace for trace in traces if trace["y"]] + ([_unproven(bare, 1.02 * low / size)] if bare else [])


def _split(reason: str) -> tuple[str, str]:
    """What cannot be proven, and why not."""
    what, _, why = reason.partition(":")
    return what.strip(), why.strip() or "no evidence in this input"


def _trace(plane: str, title: str, some: list[tuple[int, Kind]], size: int) -> dict[str, object]:
    return bars(
        title,
        [at for at, _ in some],
        [near((kind.bytes or 0) / size) for _, kind in some],
        palette.filled((palette.PLANE[plane], "")),
        text=[f"{'≥ ' * bool(kind.unproven)}{_short(kind.bytes)}" for _, kind in some],
        hovertext=[told(kind) for _, kind in some],
    )


def _short(number_of: int | None) -> str:
    unit, size = bytes_unit([number_of])
    return f"{in_unit(number_of, size)} {unit}"


def _unproven(bare: Sequence[tuple[int, str, str]], at_x: float) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "unproven",
        "showlegend": False,
        "x": [near(at_x)] * len(bare),
        "y": [at for at, _, _ in bare],
        "text": [said for _, said, _ in bare],
        "textposition": "middle right",
        "textfont": {"size": 12, "color": palette.GREY},
        "hoverinfo": "text",
        "hovertext": [told for _, _, told in bare],
    }


def _scale(drawn: Sequence[Kind]) -> tuple[float, float, bool]:
    """(begin, end, logarithmic) in bytes: a linear scale begins at 0, with room for a number behind the longest bar."""
    known = [kind.bytes for kind in drawn if kind.bytes]
    if not known:
        return 0.0, 1.0, False
    wide = max(known) > WIDE * min(known)
    return (
        (min(known) / 4, max(known) * (max(known) / min(known)) ** 0.42, True)
        if wide
        else (0.0, max(known) * 1.5, False)
    )


def _bytes_layout(drawn: Sequence[Kind], reasons: Sequence[str]) -> dict[str, object]:
    low, high, wide = _scale(drawn)
    return layout(
        rows_height(len(drawn) + len(reasons), legend=1),
        axis("bytes, logarithmic", type="log", **_powers(low, high)) if wide else _linear(drawn, high),
        rows_axis([*map(name_of, drawn), *(_split(reason)[0] for reason in reasons)]),
        barmode="overlay",
        showlegend=True,
    )


def _powers(low: float, high: float) -> dict[str, object]:
    """Ticks at powers of 1,024, and at 32 times each where these are few."""
    every = [factor << power for power in range(0, 60, 10) for factor in (1, 32)]
    shown = [tick for tick in every if low <= tick <= high]
    ticks = shown if len(shown) <= MOST_TICKS else [tick for tick in shown if (tick.bit_length() - 1) % 10 == 0]
    texts = [_short(tick).replace(".00", "") for tick in ticks]
    return {"range": [near(log10(low), 6), near(log10(high), 6)], "tickvals": ticks, "ticktext": texts}


def _linear(drawn: Sequence[Kind], high: float) -> dict[str, object]:
    unit, size = bytes_unit(kind.bytes for kind in drawn)
    return axis(unit, range=[0, near(high / size)])


def _grid(drawn: Sequence[Kind], reasons: Sequence[str]) -> Grid:
    unit, size = bytes_unit(kind.bytes for kind in drawn)
    lines = [
        (
            word(kind.what),
            word(kind.plane),
            number(kind.calls),
            Cell(in_unit(kind.bytes, size), kind.bytes),
            number(kind.unproven),
            in_ms(kind.time_ns, 3),
            word(kind.evidence),
        )
        for kind in drawn
    ]
    nothing = Cell(UNKNOWN)
    lines += [
        (word(what), nothing, nothing, nothing, nothing, nothing, word(f"not provable: {why}"))
        for what, why in map(_split, reasons)
    ]
    return table("Traffic as drawn", ("what", "plane", "calls", unit, "kinds without bytes", "ms", "evidence"), lines)
