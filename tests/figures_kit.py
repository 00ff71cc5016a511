"""Figures as values, and what plotly itself says of them."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from m3probe.model.view import View
from m3probe.present.html.figure import Figure

NAMES = ("verdict", "shapes", "repeats", "planes", "paths", "queues", "roofline", "steps")


def drawn(name: str, view: View) -> dict[str, Figure]:
    """The figures of one file by key, each sound."""
    found: tuple[Figure, ...] = import_module(f"m3probe.present.html.figures.{name}").figures(view)
    for figure in found:
        sound(figure)
    keys = [figure.key for figure in found]
    assert len(set(keys)) == len(keys)
    return {figure.key: figure for figure in found}


def every(view: View) -> dict[str, Figure]:
    """All figures of a view; no key stands twice on a page."""
    return {key: figure for name in NAMES for key, figure in drawn(name, view).items()}


def sound(figure: Figure) -> None:
    """What a page relies on: numbers that JSON has, words, a bounded height, whole tables."""
    json.dumps([figure.data, figure.layout], allow_nan=False)
    assert figure.data
    assert figure.says.endswith(".")
    assert 60 <= figure.layout["height"] <= 900
    assert all(char.islower() or char.isdigit() or char == "-" for char in figure.key)
    for line in figure.rows.lines if figure.rows else ():
        assert figure.rows and len(line.cells) == len(figure.rows.columns)


def trace(figure: Figure, name: str) -> dict[str, Any]:
    """The trace of a legend's entry."""
    return next(dict(one) for one in figure.data if one.get("name") == name)


def labels(figure: Figure) -> list[str]:
    """What stands beside the rows."""
    return list(figure.layout["yaxis"]["ticktext"])


def column(figure: Figure, name: str) -> list[Any]:
    """Raw values of a column of the table."""
    assert figure.rows is not None
    at = [one.name for one in figure.rows.columns].index(name)
    return [line.cells[at].raw for line in figure.rows.lines]
