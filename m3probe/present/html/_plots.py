"""Figures as HTML: a place that the page's script draws into, the same in words, and its rows as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from m3probe.model.view import View
from m3probe.present.html._tables import table
from m3probe.present.html._text import html, script_json
from m3probe.present.html.figure import Figure
from m3probe.present.html.pen import Pen
from m3probe.present.sheets.sheet import Said

FIGURES = "m3probe.present.html.figures"
HEIGHT_PX = 360


def figures_of(view: View, *names: str) -> tuple[tuple[Figure, ...], tuple[Said, ...]]:
    """Figures of modules of ``figures/``, and of each that failed a sentence: one plot's fault takes no page with it."""
    found: list[Figure] = []
    failed = []
    for name in names:
        try:
            found += _module(name)(view)
        except Exception as error:  # noqa: BLE001 - the tables below hold the same figures
            failed.append(Said(f"The plot {name} could not be drawn ({type(error).__name__}: {error}).", "unproven"))
    return tuple(found), tuple(failed)


def _module(name: str) -> Callable[[View], tuple[Figure, ...]]:
    made: Callable[[View], tuple[Figure, ...]] = import_module(f"{FIGURES}.{name}").figures
    return made


def plot(figure: Figure, pen: Pen) -> str:
    """One figure with its heading, its sentence and its table."""
    name = f"figure:{html(figure.key)}"
    height = _height(figure.layout)
    rows = figure.rows
    said = html(figure.says)
    below = f"<details><summary>The same as a table</summary>{table(rows, pen)}</details>" if rows is not None else ""
    data = script_json({"data": figure.data, "layout": dict(figure.layout)})
    return (
        f'<figure class="plot" id="{name}"><h3>{html(figure.title)}</h3>'
        f'<div class="canvas" role="group" aria-label="{said}" style="min-height:{height:.0f}px"></div>'
        f'<script type="application/json" class="figure">{data}</script>'
        f"<figcaption>{said}</figcaption>{below}</figure>"
    )


def _height(layout: Mapping[str, object]) -> float:
    height = layout.get("height")
    return float(height) if isinstance(height, int | float) else HEIGHT_PX
