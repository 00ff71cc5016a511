"""A recording's steps by phase and rows, each group with what ran in it: sums that two runs can be compared by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from m3probe.analyzers._gemm import Gemms
from m3probe.analyzers._view import UNTIMED_SHARE, View, decode_tokens, in_phases
from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import head_of
from m3probe.model.compare_run import KernelCost, ShapeCost, StepGroup, StepTimes
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, PHASES, Phase

SEEN = (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN)
MOST_SHAPES = 4
"""Shapes named per kernel: one kernel of a library may compute them all."""
LEAST_STEPS = 3
"""Fewer steps have no spread worth the name."""


def step_groups(view: View, shapes: Mapping[tuple[str, str], tuple[str, ...]]) -> Iterator[StepGroup]:
    """Groups in the order of phases, then of rows.

    Args:
        shapes: (phase, kernel name as recorded) -> local shapes.
    """
    for phase in SEEN:
        timed = view.timed_steps(phase)
        steps = _with_next(view, timed) if len(timed) else view.steps(phase)
        bucket = buckets(view.rec.steps["rows"][steps])
        for rows in np.unique(bucket).tolist():
            yield _group(view, phase, steps[bucket == rows], rows, shapes, timed=len(timed) > 0)


def _with_next(view: View, steps: Array) -> Array:
    """Steps whose whole time is known, up to the next one's start; all where none of a phase has a next one."""
    followed = steps[view.time.followed[steps]]
    return followed if len(followed) else steps


def buckets(rows: Array) -> Array:
    """Rows rounded up to a power of two, -1 where they are not known."""
    known = np.maximum(rows, 1).astype(np.float64)
    return np.where(rows > 0, np.exp2(np.ceil(np.log2(known))), -1).astype(np.int64)


def _group(
    view: View, phase: Phase, steps: Array, rows: int, shapes: Mapping[tuple[str, str], tuple[str, ...]], *, timed: bool
) -> StepGroup:
    kernels, known = _kernels(view, phase, steps, shapes, timed=timed)
    window = view.time.window_ns[steps]
    copies = view.rec.transfers
    moved = _owned(view, copies["step"], steps) & (copies["start_ns"] != 0) & (copies["dur_ns"] >= 0)
    real, tokens = view.rec.steps["rows"][steps], decode_tokens(view.rec)[steps]
    return StepGroup(
        phase=str(phase),
        rows=rows if rows > 0 else None,
        mean_rows=float(real.mean()) if rows > 0 else None,
        steps=len(steps),
        window_ns=int(window.sum()) if known else None,
        error_ns=float(window.std(ddof=1) / np.sqrt(len(steps))) if known and len(steps) >= LEAST_STEPS else None,
        idle_ns=int((window - view.time.busy_ns[steps]).sum()) if known else None,
        copies=int(moved.sum()),
        copies_ns=int(copies["dur_ns"][moved].sum()) if known else None,
        tokens=int(tokens.sum()) if phase is Phase.DECODE and (tokens >= 0).all() else None,
        kernels=kernels,
        times=_times(phase, rows, window) if known else None,
    )


def _times(phase: Phase, rows: int, window: Array) -> StepTimes:
    low, q1, median, q3, high = np.percentile(window, (0, 25, 50, 75, 100)).tolist()
    return StepTimes(str(phase), rows if rows > 0 else None, len(window), low, q1, median, q3, high)


def _owned(view: View, step: Array, steps: Array) -> Array:
    chosen = np.zeros(len(view.rec.steps) + 1, dtype=bool)  # the last row is what step -1 reads
    chosen[steps] = True
    found: Array = chosen[step]
    return found


def _kernels(
    view: View, phase: Phase, steps: Array, shapes: Mapping[tuple[str, str], tuple[str, ...]], *, timed: bool
) -> tuple[tuple[KernelCost, ...], bool]:
    """What ran, by demangled name; and whether (nearly) all of it has a time."""
    rows = np.flatnonzero(view.rows_in(steps))
    name, family, dur = view.ex.name[rows], view.ex.family[rows], view.ex.dur_ns[rows]
    untimed = int((dur < 0).sum())
    known = timed and untimed <= UNTIMED_SHARE * len(rows)
    key = name.astype(np.int64) * len(FAMILIES) + family
    distinct, place = np.unique(key, return_inverse=True)
    count = np.bincount(place, minlength=len(distinct))
    time = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(time, place[dur > 0], dur[dur > 0])
    found: dict[tuple[str, str], KernelCost] = {}
    for one, n, ns in zip(distinct.tolist(), count.tolist(), time.tolist(), strict=True):
        text = view.rec.strings[one // len(FAMILIES)]
        readable, kind = demangle(text), str(FAMILIES[one % len(FAMILIES)])
        before = found.get((readable, kind))
        found[readable, kind] = KernelCost(
            name=readable,
            head=head_of(readable.lower()),
            family=kind,
            count=n + (before.count if before else 0),
            time_ns=ns + (before.time_ns or 0 if before else 0) if known else None,
            shapes=shapes.get((str(phase), text), ()),
        )
    return tuple(sorted(found.values(), key=lambda cost: (-(cost.time_ns or 0), -cost.count, cost.name))), known


def shape_costs(view: View, found: Gemms) -> tuple[ShapeCost, ...]:
    """Every local GEMM shape of every phase; a call that computed several counts in none: its time cannot be split."""
    costs = []
    for group in found.shaped:
        alone = [calls for calls in group.calls if len(calls.shapes()) == 1]
        if group.shape is None or not alone:
            continue
        short = bool(view.time.short[in_phases(view.rec, group.phase)].any())
        times = [calls.time_ns for calls in alone]
        told = [ns for ns in times if ns is not None]
        costs.append(
            ShapeCost(
                phase=str(group.phase),
                op=group.op,
                shape=f"{group.shape.M} x {group.shape.N} x {group.shape.K}",
                count=sum(calls.count for calls in alone),
                time_ns=sum(told) if len(told) == len(times) and not short else None,
                kernels=tuple(dict.fromkeys(calls.kernel for calls in alone)),
            )
        )
    return tuple(costs)


def shapes_by_kernel(costs: tuple[ShapeCost, ...]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(phase, kernel name as recorded) -> the first few shapes that it computed."""
    found: dict[tuple[str, str], list[str]] = {}
    for cost in costs:
        for kernel in cost.kernels:
            found.setdefault((cost.phase, kernel), []).append(cost.shape)
    return {key: tuple(shapes[:MOST_SHAPES]) for key, shapes in found.items()}


def steps_by_phase(view: View) -> dict[str, int]:
    """Steps with proven executions, per phase."""
    return {str(p): n for p in PHASES if (n := len(view.steps(p)))}
