"""Which steps a workload makes: rows of decode and prefill, and how far rows can go at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.hardware import Accelerator
from m3probe.model.recipe_report import WorkPoint
from m3probe.recipe.setup_of import size
from m3probe.schema.setup import Point, Setup
from m3probe.schema.verdicts import Phase

LADDER = (1, 16, 64, 128)
"""Requests looked at when nobody states a concurrency."""
GIB = 1 << 30
_SMALL, _LARGE = 70 * GIB, 160 * GIB
_ONE_BUDGET = ("0.24.0", "0.25.1")
"""Releases that do not ask for 160 GiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Most rows of a prefill step, most requests of a decode step, and what of it was assumed."""

    rows: int
    requests: int
    assumed: tuple[str, ...]


def limits(setup: Setup, gpu: Accelerator) -> Limits:
    """From the command, else vLLM's defaults for this build and device."""
    flags, assumed, drafts = setup.flags, [], setup.spec_tokens
    budget, seqs = _defaults(setup, gpu)
    memory = f"{gpu.hbm_bytes.value / GIB:,.0f} GiB"
    rows = size(flags, "--max-num-batched-tokens", budget)
    if "--max-num-batched-tokens" not in flags:
        assumed.append(f"max_num_batched_tokens {budget:,}, vLLM's default for a GPU of {memory}")
    if "--max-num-seqs" not in flags:
        seqs = min(
            seqs, rows
        )  # engine/arg_utils.py lowers its own default to the budget, never a number that was given
        assumed.append(f"max_num_seqs {seqs:,}, vLLM's default for a GPU of {memory}")
    # A step holds no more tokens than the budget: with drafts a decode batch ends before max_num_seqs.
    requests = max(1, min(size(flags, "--max-num-seqs", seqs), rows // (1 + drafts)))
    return Limits(rows, requests, tuple(assumed))


def over_budget(setup: Setup) -> tuple[str, ...]:
    """SchedulerConfig raises where max_num_batched_tokens < max_num_seqs (config/scheduler.py:286 at 0.24, :331 at 0.33)."""
    flags = setup.flags
    if "--max-num-batched-tokens" not in flags or "--max-num-seqs" not in flags:
        return ()
    rows, seqs = size(flags, "--max-num-batched-tokens"), size(flags, "--max-num-seqs")
    return (f"--max-num-batched-tokens {rows:,} < --max-num-seqs {seqs:,} (ValueError)",) if rows < seqs else ()


def _defaults(setup: Setup, gpu: Accelerator) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of an API server: ``get_batch_defaults``, engine/arg_utils.py.

    Since 0.32 a device of 160 GiB or more (MI300X, B200) gets 16,384 rows; H100 and H200 get 8,192 in all four.
    """
    memory, old = gpu.hbm_bytes.value, (setup.build.version or "").split("+")[0] in _ONE_BUDGET
    if memory >= _LARGE and not old:
        return 16384, 1024
    if memory < _SMALL or "a100" in gpu.name.lower():
        return 2048, 256
    return 8192, 1024


def workload(setup: Setup, most: Limits, concurrency: Sequence[int], isl: int | None) -> tuple[WorkPoint, ...]:
    """Decode steps of the stated concurrency (else of a ladder), a full prefill chunk, and one prompt."""
    asked = concurrency or LADDER
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
