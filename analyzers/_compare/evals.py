"""Accuracies against their noise: which difference two equal servers show by chance.

A share p of n questions answered right has the standard error sqrt(p (1 - p) / n); the difference of two such shares
has the root of both squares. GSM8K has 1,319 questions: near 0.95 two scores 0.017 apart may be of equal servers.
"""

from __future__ import annotations

import math

from m3probe.model.compare_bench import EvalPair, MetricVerdict
from m3probe.schema.gates import EvalRun, Score

GSM8K = 1319


def share_error(p: float, n: int) -> float:
    """Standard error of a share p (0 to 1) of n questions.

    Raises:
        ValueError: p is no share, or n below 1.
    """
    if not 0 <= p <= 1 or n < 1:
        raise ValueError(f"a share of 0 to 1 of at least one question, not {p} of {n}")
    return math.sqrt(p * (1 - p) / n)


def eval_band(p_a: float, p_b: float, n: int, n_b: int | None = None) -> float:
    """Two standard errors of the difference of two shares: what lies within is noise; ``n_b`` where B's n is another.

    Raises:
        ValueError: see ``share_error``.
    """
    return 2 * math.hypot(share_error(p_a, n), share_error(p_b, n if n_b is None else n_b))


def evaluation(a: EvalRun | None, b: EvalRun | None) -> EvalPair | None:
    """Both sides' scores of one task and metric; None where either has none, or they are not of one task."""
    one, other = a.score if a else None, b.score if b else None
    if one is None or other is None or (one.task, one.metric) != (other.task, other.metric):
        return None
    errors = [_error(score) for score in (one, other)]
    known = [error for error in errors if error is not None]
    error = math.hypot(*known) if len(known) == 2 else None
    change = other.value - one.value
    return EvalPair(
        task=one.task,
        metric=one.metric,
        a=one.value,
        b=other.value,
        n_a=one.n,
        n_b=other.n,
        error=error,
        band=None if error is None else 2 * error,
        verdict=_verdict(change, error),
        claim=_claim(one, other, error),
    )


def _error(score: Score) -> float | None:
    if score.stderr is not None:
        return score.stderr
    return share_error(score.value, score.n) if score.n and 0 <= score.value <= 1 else None


def _verdict(change: float, error: float | None) -> MetricVerdict:
    if error is None:
        return MetricVerdict.SAME if change == 0 else MetricVerdict.UNPROVEN
    if abs(change) <= 2 * error:
        return MetricVerdict.SAME
    return MetricVerdict.BETTER if change > 0 else MetricVerdict.WORSE


def _claim(one: Score, other: Score, error: float | None) -> str:
    asked = "" if one.n is None else f", {one.n:,} questions"
    head = f"{one.task} {one.metric}{asked}: {one.value:.4f} -> {other.value:.4f}"
    if error is None:
        return f"{head}; how many questions is not known, so neither is the noise"
    change = other.value - one.value
    side = "within" if abs(change) <= 2 * error else "beyond"
    return f"{head}, {change:+.4f}, {side} the {2 * error:.4f} that equal servers may lie apart (two standard errors)"
