"""Findings: one claim each, with the rows that show it and what removing it could win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.model.tables import Array


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of one table that show a claim.

    ``count`` is how many times the claim is shown in all (kernels, calls, steps: what ``observed`` names); ``rows`` are
    the first few rows, and there are fewer rows than ``count`` where one stands for several: a census row for each
    replay of its graph.
    """

    table: str
    rows: tuple[int, ...]
    count: int
    observed: str
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is at most to be won: shares (0 to 1) and how they were made.

    ``basis`` names the time that they are shares of (``decode step time``); bounds of unlike bases are not compared.
    ``arithmetic`` is the formula with its numbers, one expression for ``high`` or one each for ``low`` and ``high``:
    numbers with units, ``+ - * /``, brackets, ``min`` and ``max``, so that whoever doubts a bound can work it out again
    (``(52,000 ns - 40,000 ns) / 65,000 ns``).
    """

    low: float
    high: float
    formula: str
    basis: str = ""
    arithmetic: tuple[str, ...] = ()


def figure(value: float, unit: str = "") -> str:
    """A number of ``Bound.arithmetic``: ``52,000 ns``, ``0.921``; twelve figures, so that a result can be held against it."""
    said = f"{int(value):,}" if float(value).is_integer() else f"{value:,.12g}"
    return f"{said} {unit}" if unit else said


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fact.

    ``id`` is stable between runs (``question.word[.where]``); ``bound`` is None where nothing was
    measured that could bound it; ``trusted`` is False when the evidence can hide kernels.
    """

    id: str
    question: str
    verdict: str
    claim: str
    where: str
    evidence: tuple[Evidence, ...]
    advice: str
    bound: Bound | None = None
    confidence: str = "high"
    trusted: bool = True


ROWS_SHOWN = 5
"""Row ids kept per evidence: enough to open the place, small enough for a report."""


def evidence(
    table: str, rows: Sequence[int] | Array, observed: str, expected: str = "", count: int | None = None
) -> Evidence:
    """Evidence from row ids; without ``count`` every row shows the claim once."""
    shown = tuple(int(i) for i in rows[:ROWS_SHOWN])
    return Evidence(table, shown, len(rows) if count is None else count, observed, expected)
