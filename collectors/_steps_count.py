"""Steps of one second as counts by kind: exact sums, so that shapes and bytes stay exact products.

Graph steps are counted by descriptor (M is its padded rows). Eager ones are counted by their rows, which are M; a second
with more than ``MOST_KINDS`` distinct sizes counts those above ``FINE`` rows in steps of 64, and ``padded_rows * count``
then differs from ``rows_sum``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from m3probe.collectors._steps_plan import Plan
from m3probe.schema.records import StepCount, StepRow
from m3probe.schema.roles import Role, Stage

MOST_KINDS = 24
FINE = 64
UNKNOWN = -1


class Done(NamedTuple):
    """One finished step. Times are ``time.monotonic_ns()``; 0 where not taken.

    Worker: start, launch, launched, end, sampled of ``execute_model`` and ``sample_tokens``. Engine: the same five hold
    schedule, scheduled, output, done and 0.
    """

    step: int
    plan: Plan
    mode: str
    descriptor: int
    padded_rows: int
    replays: int
    spec_on_prefill: int
    stage: Stage
    t0: int
    t1: int
    t2: int
    t3: int
    t4: int
    idle_ns: int


def counts(steps: Iterable[Done], role: Role) -> tuple[StepCount, ...]:
    """One entry per (phase, mode, descriptor, padded rows), in order of first appearance."""
    steps = list(steps)
    sizes = {s.plan.rows for s in steps if s.descriptor < 0}
    kinds: dict[tuple[str, str, int, int, Stage], list[Done]] = {}
    for step in steps:
        padded = step.padded_rows
        if step.descriptor < 0:
            padded = _size(step.plan.rows, fine=len(sizes) <= MOST_KINDS)
        kinds.setdefault((step.plan.phase, step.mode, step.descriptor, padded, step.stage), []).append(step)
    return tuple(_count(key, found, role) for key, found in kinds.items())


def row(step: Done, role: Role) -> StepRow:
    """One step in full."""
    plan, worker = step.plan, role is Role.WORKER
    return StepRow(
        role=role,
        step=step.step,
        phase=plan.phase,
        rows=plan.rows,
        padded_rows=step.padded_rows,
        requests=plan.requests,
        ctx_reqs=plan.ctx_reqs,
        ctx_rows=plan.ctx_rows,
        gen_reqs=plan.gen_reqs,
        gen_rows=plan.gen_rows,
        ctx_seq_len_sum=plan.ctx_seq_len_sum,
        gen_seq_len_sum=plan.gen_seq_len_sum,
        spec_rows=plan.spec_rows,
        spec_rows_on_prefill=step.spec_on_prefill,
        mode=step.mode,
        descriptor=step.descriptor,
        replays=step.replays,
        stage=step.stage,
        t_start=(step.t0 or None) if worker else None,
        t_launch=(step.t1 or None) if worker else None,
        t_launched=(step.t2 or None) if worker else None,
        t_end=(step.t3 or None) if worker else None,
        t_sample_end=(step.t4 or None) if worker else None,
        t_schedule=None if worker else step.t0 or None,
        t_scheduled=None if worker else step.t1 or None,
        t_output=None if worker else step.t2 or None,
        t_done=None if worker else step.t3 or None,
    )


def _size(rows: int, *, fine: bool) -> int:
    return rows if fine or rows <= FINE else -(-rows // 64) * 64


def _count(key: tuple[str, str, int, int, Stage], steps: list[Done], role: Role) -> StepCount:
    phase, mode, descriptor, padded, stage = key
    plans = [step.plan for step in steps]
    worker = role is Role.WORKER
    return StepCount(
        phase=phase,
        mode=mode,
        descriptor=descriptor,
        padded_rows=padded,
        count=len(steps),
        rows_sum=sum(p.rows for p in plans),
        requests_sum=sum(p.requests for p in plans),
        ctx_reqs_sum=sum(p.ctx_reqs for p in plans),
        ctx_rows_sum=sum(p.ctx_rows for p in plans),
        gen_reqs_sum=sum(p.gen_reqs for p in plans),
        gen_rows_sum=sum(p.gen_rows for p in plans),
        ctx_seq_len_sum=sum(p.ctx_seq_len_sum for p in plans),
        gen_seq_len_sum=sum(p.gen_seq_len_sum for p in plans),
        spec_rows_sum=sum(p.spec_rows for p in plans),
        spec_rows_on_prefill_sum=_sum([s.spec_on_prefill for s in steps]),
        replays=sum(s.replays for s in steps),
        schedule_ns=UNKNOWN if worker else _between([(s.t0, s.t1) for s in steps]),
        prepare_ns=_between([(s.t0, s.t1) for s in steps]) if worker else UNKNOWN,
        launch_ns=_between([(s.t1, s.t2) for s in steps]) if worker else UNKNOWN,
        wait_ns=_between([(s.t2, s.t4 or s.t3) for s in steps]) if worker else UNKNOWN,
        output_ns=UNKNOWN if worker else _between([(s.t2, s.t3) for s in steps]),
        idle_ns=_sum([s.idle_ns for s in steps]),
        role=role,
        stage=stage,
    )


def _sum(values: list[int]) -> int:
    """The sum; -1 when one of them is not known: a part would look like the whole."""
    return UNKNOWN if min(values) < 0 else sum(values)


def _between(times: list[tuple[int, int]]) -> int:
    return UNKNOWN if any(not a or not b for a, b in times) else sum(b - a for a, b in times)
