"""Sweeps: runs that differ in concurrency alone, the knee between them, and runs that must not be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from m3probe.model.bench import BenchRun
from m3probe.model.bench_report import SweepStep

KNEE_GAIN = 0.05
KNEE_TTFT = 2.0
"""For a doubling of concurrency: less gain than this while time to first token grows more than this."""
_ALIKE = 0.10
"""Share by which mean lengths of one sweep may differ: random datasets draw them anew."""
_LEAST_STEP, _MOST_STEP = 1.2, 4.5
"""Ratios of neighbouring concurrencies that are scaled to a doubling; beyond them nobody knows what lies between."""


def sweeps(runs: Sequence[BenchRun]) -> list[list[BenchRun]]:
    """Groups of comparable runs of one contract with two or more concurrencies, each in ascending order.

    Of several runs at one concurrency the one with the highest throughput stands: the others were disturbed.
    """
    groups: list[list[BenchRun]] = []
    for run in runs:
        if run.max_concurrency is None or run.total_token_throughput is None or not run.comparable:
            continue
        home = next((group for group in groups if same_contract(group[0], run)), None)
        if home is None:
            groups.append([run])
        else:
            home.append(run)
    return [best for group in groups if len(best := _best(group)) > 1]


def _best(group: list[BenchRun]) -> list[BenchRun]:
    best: dict[int, BenchRun] = {}
    for run in group:
        at = run.max_concurrency or 0
        if at not in best or (run.total_token_throughput or 0) > (best[at].total_token_throughput or 0):
            best[at] = run
    return [best[at] for at in sorted(best)]


def same_contract(one: BenchRun, other: BenchRun) -> bool:
    """Whether two runs asked the same of the same hardware but for their concurrency."""
    return not differences(one, other)


def differences(one: BenchRun, other: BenchRun) -> list[str]:
    """What keeps two runs from being compared, in words; a value that one of them does not say is no difference."""
    found = []
    for what, a, b in (
        ("GPUs", one.num_gpus, other.num_gpus),
        ("prefill GPUs", one.prefill_gpus, other.prefill_gpus),
        ("decode GPUs", one.decode_gpus, other.decode_gpus),
        ("model", one.model, other.model),
        ("backend", one.backend, other.backend),
        ("precision", _label(one, "precision"), _label(other, "precision")),
        ("hardware", _label(one, "hw"), _label(other, "hw")),
        ("parallel layout", _layout(one), _layout(other)),
    ):
        if a and b and a != b:
            found.append(f"{what} {a} against {b}")
    return found + lengths(one, other)


def lengths(one: BenchRun, other: BenchRun) -> list[str]:
    """Differences in the lengths of prompts and answers alone, in words: with the load they make a workload point."""
    found = []
    for what in ("isl", "osl"):
        a, b = _label(one, what), _label(other, what)
        if a and b and a != b:
            found.append(f"{what} {a} against {b}")
    for what, x, y in (
        ("input tokens a request", one.mean_input_tokens, other.mean_input_tokens),
        ("output tokens a request", one.mean_output_tokens, other.mean_output_tokens),
    ):
        if x and y and abs(x - y) > _ALIKE * max(x, y):
            found.append(f"{what} {x:,.0f} against {y:,.0f}")
    return found


def _label(run: BenchRun, key: str) -> str:
    return str(run.metadata.get(key, ""))


def _layout(run: BenchRun) -> str:
    keys = ("tp", "pp", "ep", "dp", "dp_attention", "prefill_tp", "decode_tp", "spec_decoding", "disagg")
    return " ".join(f"{key}={run.metadata[key]}" for key in keys if key in run.metadata)


def steps(group: Sequence[BenchRun]) -> Iterator[SweepStep]:
    """Neighbours of one sweep; a step that is no doubling is scaled to one, as if growth were even."""
    for low, high in pairwise(group):
        made = _step(low, high)
        if made is not None:
            yield made


def _step(low: BenchRun, high: BenchRun) -> SweepStep | None:
    few, many = low.max_concurrency, high.max_concurrency
    before, after = low.total_token_throughput, high.total_token_throughput
    if not few or not many or not before or not after or not _LEAST_STEP <= many / few <= _MOST_STEP:
        return None
    doublings = math.log2(many / few)
    gain = float((after / before) ** (1 / doublings)) - 1
    ratio = _ttft_ratio(low, high)
    ratio = None if ratio is None else float(ratio ** (1 / doublings))
    return SweepStep(
        low=low.name,
        high=high.name,
        low_concurrency=few,
        high_concurrency=many,
        gain=gain,
        ttft_ratio=ratio,
        knee=ratio is not None and gain < KNEE_GAIN and ratio > KNEE_TTFT,
    )


def _ttft_ratio(low: BenchRun, high: BenchRun) -> float | None:
    """Means with means, else medians with medians: a mean over a median would be a ratio of nothing."""
    for name in ("mean_ms", "median_ms"):
        before, after = getattr(low.ttft, name), getattr(high.ttft, name)
        if before and after is not None:
            return float(after / before)
    return None
