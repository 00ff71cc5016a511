"""What is in a file, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.cells import cell_len, chop_cells

from m3probe.present._page import middle_cut
from m3probe.present.escape import safe

_LISTED = 12
"""Entries of a long list that are shown; --json has them all."""


def inspect_text(
    kind: str, outcome: str, facts: Mapping[str, Any], warnings: Sequence[str], *, width: int = 100
) -> str:
    """Warnings first, then every fact on its own line.

    Args:
        width: columns; longer values are wrapped under themselves.
    """
    lines = [f"{kind}: {outcome}"]
    for warning in warnings:
        lines += _wrapped(f"! {safe(warning)}", width, "  ")
    lines.append("")
    pad = min(max((len(key) for key in facts), default=0), 34)
    for key, value in facts.items():
        lines += _fact(key, value, pad, width)
    return "\n".join(lines)


def _fact(key: str, value: Any, pad: int, width: int) -> list[str]:
    head = f"{safe(key):<{pad}}  "
    room = max(width - len(head), 20)
    if key in {"names", "demangled"}:
        shown = _names(value, room)
    elif key == "step_list":
        shown = _steps(value)
    elif key == "by_run":
        shown = [line for run in _runs(value) for line in _wrapped(safe(run), room, "  ")]
    else:
        shown = _wrapped(safe(_value(key, value)), room) or [""]
    return [(head if i == 0 else " " * len(head)) + line for i, line in enumerate(shown)]


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most ``width`` cells: a character of East Asia takes two, which ``textwrap`` counts as one."""
    if cell_len(text) == len(text):
        return textwrap.wrap(text, width, subsequent_indent=indent)
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
            continue
        before = indent if lines else ""
        first, *rest = chop_cells(word, max(width - len(indent), 2)) or [""]
        lines += [before + first, *(indent + piece for piece in rest)]
    return lines


def _names(value: Any, room: int) -> list[str]:
    """One name per line, its middle cut where it is too long."""
    texts = [f"{k} = {v}" for k, v in value.items()] if isinstance(value, Mapping) else list(value)
    lines = [middle_cut(safe(text), room) for text in texts[:_LISTED]]
    more = len(texts) - _LISTED
    return [*lines, f"and {more:,} more in --json"] if more > 0 else lines or ["none"]


def _steps(value: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs of equal steps: ``9 x decode, 8 rows, 8 requests``."""
    said = [f"{s['phase']}, {_or_unknown(s['rows'])} rows, {_or_unknown(s['requests'])} requests" for s in value]
    runs = [(len(list(group)), text) for text, group in groupby(said)]
    lines = [f"{count:,} x {text}" for count, text in runs[:_LISTED]]
    return [*lines, f"and {len(runs) - _LISTED:,} more runs in --json"] if len(runs) > _LISTED else lines


def _runs(value: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a benchmark run: what is known of it, without what it does not say."""
    lines = [
        f"{place}. "
        + (_some([f"{k} {_value(k, v)}" for k, v in run.items() if v is not None], most=len(run)) or "none")
        for place, run in enumerate(value[:_LISTED], 1)
    ]
    more = len(value) - _LISTED
    return [*lines, f"and {more:,} more runs in --json"] if more > 0 else lines


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    if isinstance(value, int):
        return f"{value:,} ns" if key.endswith("_ns") else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return _some([f"{k}: {_value('', v)}" for k, v in value.items()])
    if isinstance(value, list):
        return _some([_value("", v) for v in value])
    return str(value)


def _some(parts: list[str], most: int = _LISTED) -> str:
    more = len(parts) - most
    shown = ", ".join(parts[:most])
    return f"{shown}, and {more:,} more" if more > 0 else shown or "none"
