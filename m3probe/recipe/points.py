"""Which steps a workload makes: rows of decode and prefill, and how far rows can go at all."""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.model.recipe_report import WorkPoint
from m3probe.recipe.setup_of import size
from m3probe.schema.setup import Point, Setup
from m3probe.schema.verdicts import Phase

LADDER = (1, 16, 64, 128)
"""Requests looked at when nobody states a concurrency."""
BUDGETS = {"0.24.0": 8192, "0.25.1": 8192}
BUDGET = 16384
"""vLLM's max_num_batched_tokens for an API server on a device of at least 160 GiB (``get_batch_defaults``,
engine/arg_utils.py: 8,192 at 0.24 and 0.25.1, 16,384 at 0.32 and 0.33)."""
MOST_SEQS = 1024
"""vLLM's max_num_seqs on such a device, in all four."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Most rows of a prefill step, most requests of a decode step, and what of it was assumed."""

    rows: int
    requests: int
    assumed: tuple[str, ...]


def limits(setup: Setup) -> Limits:
    """From the command, else vLLM's defaults for this build."""
    flags, assumed = setup.flags, []
    if "--max-num-batched-tokens" in flags:
        rows = size(flags, "--max-num-batched-tokens")
    else:
        rows = BUDGETS.get(setup.build.version or "", BUDGET)
        assumed.append(f"max_num_batched_tokens {rows:,}, vLLM's default for a large GPU")
    return Limits(rows, size(flags, "--max-num-seqs", MOST_SEQS), tuple(assumed))


def workload(setup: Setup, most: Limits, concurrency: int | None, isl: int | None) -> tuple[WorkPoint, ...]:
    """Decode steps of the stated concurrency (else of a ladder), a full prefill chunk, and one prompt."""
    asked = (concurrency,) if concurrency else LADDER
    drafts = setup.spec_tokens
    each = f" x {1 + drafts} rows" if drafts else ""
    decode = [
        WorkPoint(str(Phase.DECODE), n * (1 + drafts), n, f"decode, {n:,} request{'s' * (n > 1)}{each}")
        for n in dict.fromkeys(min(n, most.requests) for n in asked)
    ]
    return (*decode, *_prefill(most.rows, isl))


def _prefill(budget: int, isl: int | None) -> list[WorkPoint]:
    full = WorkPoint(str(Phase.PREFILL), budget, max(1, -(-budget // isl)) if isl else 1, f"prefill, {budget:,} rows")
    if isl is None or isl >= budget:
        return [full]
    return [full, WorkPoint(str(Phase.PREFILL), isl, 1, f"prefill, one prompt of {isl:,} rows")]


def point_of(work: WorkPoint) -> Point:
    """The same as paths are asked by."""
    return Point(Phase(work.phase), work.rows, work.requests)
