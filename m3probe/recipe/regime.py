"""A workload beside what the server can hold, and beside the range in which a path was measured to pay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.fastpaths._sparse_pa import PAYS_FROM
from m3probe.model.recipe_report import PathLine, Warned
from m3probe.recipe.points import Limits
from m3probe.schema.setup import State


def crowded(concurrency: Sequence[int], each: int, most: Limits, tokens: int | None) -> Iterator[Warned]:
    """A workload whose requests cannot all run, or hold their KV, at once: some of them wait."""
    largest = max(concurrency, default=0)
    if largest > most.requests:
        said = f"{largest:,} requests > {most.requests:,}, the most of one decode step (max_num_seqs, token budget)"
        yield Warned("capacity", f"{said}: the others wait, and decode is judged at {most.requests:,}")
    if tokens is not None and each and largest * each > tokens:
        said = f"{largest:,} requests of {each:,} tokens are {largest * each:,} tokens"
        yield Warned("capacity", f"{said}, and at most {tokens:,} fit: requests wait or are preempted")


def slower(concurrency: Sequence[int], isl: int | None, path: PathLine) -> tuple[Warned, ...]:
    """An eligible path outside of the range in which it was measured to pay."""
    tokens, requests = PAYS_FROM
    least = min(concurrency, default=requests)
    below = (isl is not None and isl < tokens) or least < requests
    if path.state != State.ELIGIBLE or not below:
        return ()
    has = ([] if isl is None else [f"{isl:,} tokens"]) + [f"{least:,} requests"] * bool(concurrency)
    said = f"aiter_sparse_pa was measured slower below {tokens:,} prompt tokens or {requests} requests (InferenceX PR 2187)"
    return (Warned("regime", f"{said}: this workload has {' and '.join(has)}"),)
