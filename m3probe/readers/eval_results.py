"""Evaluation files as gates want them: lm-eval's results JSON, vLLM's GSM8K script, a file of cosines.

No plug: nothing here adds rows to a recording. What a file does not say stays None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.schema.gates import Cosine, Score

_PREFERRED = ("exact_match,strict-match", "exact_match,flexible-extract", "exact_match,none", "acc,none")


def read_scores(content: bytes, where: str = "") -> tuple[Score, ...]:
    """Every accuracy figure of one file, lm-eval's strict match before the flexible one.

    Args:
        content: ``{"results": {task: {"metric,filter": value}}, "n-samples": {task: {"effective": n}}}`` (lm-eval), or
            ``{"accuracy": value, "num_questions": n}`` (tests/evals/gsm8k of vLLM).
        where: the file's name, for the error.

    Raises:
        UnreadableInput: not JSON, or neither of the two forms.
    """
    document = _json(content, where)
    if isinstance(document.get("results"), Mapping):
        scores = tuple(_lm_eval(document))
    elif (value := _share(document.get("accuracy"))) is not None:
        scores = (Score("gsm8k", "accuracy", value, n=_count(document.get("num_questions"))),)
    else:
        scores = ()
    if not scores:
        raise UnreadableInput(
            "no accuracy figure in this file",
            where=where,
            next_move="Give lm-eval's results_*.json, or a file with accuracy and num_questions",
        )
    return scores


def read_cosines(content: bytes, where: str = "") -> tuple[Cosine, ...]:
    """``{name: cosine}``, or a list of ``{"name": ..., "cosine": ...}`` under ``cosines``.

    Raises:
        UnreadableInput: not JSON, or a value is no number from -1 to 1.
    """
    document = _json(content, where)
    listed = document.get("cosines")
    pairs = _named(listed) if isinstance(listed, list) else list(document.items())
    found = [Cosine(str(name), float(value)) for name, value in pairs if _is_number(value) and abs(value) <= 1 + 1e-6]
    if not found or len(found) < len(pairs):
        raise UnreadableInput(
            f"{len(found)} of {len(pairs)} entries are a name with a cosine",
            where=where,
            next_move="Write {name: cosine}",
        )
    return tuple(found)


def _named(listed: list[Any]) -> list[tuple[Any, Any]]:
    return [(c.get("name"), c.get("cosine")) if isinstance(c, Mapping) else (None, None) for c in listed]


def _json(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        document = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"no JSON: {error}", where=where) from error
    if not isinstance(document, Mapping):
        raise UnreadableInput("a JSON object was expected", where=where)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once: of two values one would be lost, and a gate would hold on the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands twice")
    return found


def _lm_eval(document: Mapping[str, Any]) -> Iterator[Score]:
    samples = document.get("n-samples")
    for task, figures in document["results"].items():
        if not isinstance(figures, Mapping):
            continue
        known = samples.get(task) if isinstance(samples, Mapping) else None
        n = _count(known.get("effective")) if isinstance(known, Mapping) else None
        for metric in [*_PREFERRED, *sorted(set(figures) - set(_PREFERRED))]:
            value = _share(figures.get(metric))
            if value is not None and "," in metric and "_stderr," not in metric:
                name, _, chosen = metric.partition(",")
                yield Score(task, metric, value, n=n, stderr=_share(figures.get(f"{name}_stderr,{chosen}")))


def _is_number(value: object) -> bool:
    # an integer of 400 digits is no float, and isfinite() would raise
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63 and math.isfinite(value)
    )


def _share(value: Any) -> float | None:
    """A figure from 0 to 1; lm-eval writes the text N/A where it has none."""
    return float(value) if _is_number(value) and 0 <= value <= 1 else None


def _count(value: Any) -> int | None:
    return int(value) if _is_number(value) and value > 0 else None
