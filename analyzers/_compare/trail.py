"""A row per run: its headline figure, and where its bottleneck is."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.analyzers._compare.moved import claims
from m3probe.model.bench import BenchRun
from m3probe.model.compare_report import TrailRow
from m3probe.model.compare_run import RunKept
from m3probe.schema.verdicts import Phase


def trail(runs: Sequence[RunKept]) -> tuple[TrailRow, ...]:
    """Runs in order; the figure is one that all of them have, so that a row can be read against the next."""
    figure, values = next(
        ((name, values) for name, values in _figures(runs) if all(v is not None for v in values)),
        ("", [None] * len(runs)),
    )
    told = claims(runs)
    return tuple(
        TrailRow(run.name, figure, value, *words) for run, value, words in zip(runs, values, told, strict=True)
    )


def _figures(runs: Sequence[RunKept]) -> list[tuple[str, list[float | None]]]:
    shared = [{r.max_concurrency for r in run.bench} for run in runs]
    common = [c for c in set.intersection(*shared) if c is not None] if shared else []
    at = max(common, default=None)
    where = f" at c{at}" if at is not None else ""
    picked = [_at(run.bench, at) for run in runs]
    return [
        (f"output tokens/s per GPU{where}", [_per_gpu(r) for r in picked]),
        (f"output tokens/s{where}", [r.output_throughput if r else None for r in picked]),
        (f"total tokens/s{where}", [r.total_token_throughput if r else None for r in picked]),
        ("decode step, ms", [_decode_ms(run) for run in runs]),
    ]


def _at(bench: Sequence[BenchRun], concurrency: int | None) -> BenchRun | None:
    """The run at a concurrency that all have; the best of each where they share none."""
    found = [r for r in bench if concurrency is None or r.max_concurrency == concurrency]
    return max(found, key=lambda r: r.output_throughput or 0.0, default=None)


def _per_gpu(run: BenchRun | None) -> float | None:
    return run.output_throughput / run.num_gpus if run and run.output_throughput and run.num_gpus else None


def _decode_ms(run: RunKept) -> float | None:
    groups = [g for g in run.groups if g.phase == Phase.DECODE and g.window_ns is not None]
    steps = sum(g.steps for g in groups)
    return sum(g.window_ns or 0 for g in groups) / steps / 1e6 if steps else None
