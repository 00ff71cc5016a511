"""A plot as plain data: what plotly.js draws, and the same in words for whoever sees no plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from m3probe.present.sheets.sheet import Grid


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot.

    Args:
        key: unique on a page, lower-case words and dashes: its anchor.
        title: what is asked, as a heading.
        says: what it shows, in one sentence with its numbers: the text alternative.
        data: traces in plotly's words. A point that leads somewhere has ``customdata``: its target (``targets.target``).
        layout: axes, units and height in plotly's words; colours of text, grid and paper are the page's.
        rows: the same figures as a table.
    """

    key: str
    title: str
    says: str
    data: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    rows: Grid | None = None
