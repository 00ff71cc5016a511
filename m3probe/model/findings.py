"""Findings: one claim each, with the rows that show it and what removing it could win."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of one table that show a claim; ``rows`` holds the first few of ``count``."""

    table: str
    rows: tuple[int, ...]
    count: int
    observed: str
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is at most to be won: shares of the step time (0 to 1) and how they were made."""

    low: float
    high: float
    formula: str


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


def evidence(table: str, rows: Iterable[int], observed: str, expected: str = "") -> Evidence:
    """Evidence from an int array (or list) of row ids."""
    ids = [int(i) for i in rows]
    return Evidence(table, tuple(ids[:ROWS_SHOWN]), len(ids), observed, expected)
