"""Tuned tables of the serving host, and which local shapes they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from m3probe.model.recipe_report import ShapeLine, WorkPoint
from m3probe.schema.setup import Setup

Tables = Mapping[str, Any]


def with_tuned(shapes: Sequence[ShapeLine], setup: Setup, points: Sequence[WorkPoint]) -> tuple[ShapeLine, ...]:
    return tuple(shapes)


def read_tables(paths: Sequence[Any], env: Mapping[str, str]) -> Tables:
    return {}
