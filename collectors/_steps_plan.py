"""What a step computes, from the scheduler's output: the same object in the engine and in every worker.

Cost matters: it runs once a step in each process. Loops over requests are left to C (``sum``, ``in``); Python loops go
over the requests of the prefill side alone (measured by benchmarks/bench_collectors.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from m3probe.schema.verdicts import Phase


class Plan(NamedTuple):
    """One step's tokens and requests, split as vLLM's ``Worker.annotate_profile`` does.

    A context request has not produced a token yet. Lengths are key lengths: computed + scheduled. ``spec_rows``: drafted
    tokens to verify.
    """

    phase: str
    rows: int
    requests: int
    ctx_reqs: int
    ctx_rows: int
    gen_reqs: int
    gen_rows: int
    ctx_seq_len_sum: int
    gen_seq_len_sum: int
    spec_rows: int


EMPTY = Plan(str(Phase.EMPTY), 0, 0, 0, 0, 0, 0, 0, 0, 0)


_LAST: list[tuple[Any, Plan]] = []
"""The plan made last: on one GPU engine and worker are one process, and ask for the same object one after the other."""


def plan_of(output: Any) -> Plan:
    """The plan of a ``SchedulerOutput``; of the same object it is made once."""
    held = _LAST[-1] if _LAST else None
    if held is not None and held[0] is output:
        return held[1]
    plan = _made(output)
    _LAST[:] = [(output, plan)]
    return plan


def forget() -> None:
    """Nothing of vLLM's is held once nobody records."""
    _LAST.clear()


def _made(output: Any) -> Plan:
    """One pass over the scheduled tokens.

    Source: ``v1/core/sched/output.py`` (``scheduled_new_reqs``, ``scheduled_cached_reqs`` with ``num_computed_tokens`` and
    ``num_output_tokens``, ``num_scheduled_tokens``, ``scheduled_spec_decode_tokens``), equal in 0.24.0 to 0.33.0.
    """
    rows = output.total_num_scheduled_tokens
    if not rows:
        return EMPTY
    scheduled = output.num_scheduled_tokens
    new, cached = output.scheduled_new_reqs, output.scheduled_cached_reqs
    requests = len(scheduled)
    ctx_reqs = ctx_rows = ctx_keys = 0
    for request in new:
        tokens = scheduled.get(request.req_id, 0)
        ctx_reqs, ctx_rows = ctx_reqs + 1, ctx_rows + tokens
        ctx_keys += request.num_computed_tokens + tokens
    computed, outputs = cached.num_computed_tokens, cached.num_output_tokens
    keys = sum(computed) + rows - ctx_rows + ctx_keys
    if 0 in outputs:  # a prompt that comes in several steps
        for at, request_id in enumerate(cached.req_ids):
            if outputs[at] == 0:
                tokens = scheduled.get(request_id, 0)
                ctx_reqs, ctx_rows = ctx_reqs + 1, ctx_rows + tokens
                ctx_keys += computed[at] + tokens
    drafts = output.scheduled_spec_decode_tokens
    return Plan(
        _phase(ctx_reqs, requests),
        rows,
        requests,
        ctx_reqs,
        ctx_rows,
        requests - ctx_reqs,
        rows - ctx_rows,
        ctx_keys,
        keys - ctx_keys,
        sum(map(len, drafts.values())) if drafts else 0,
    )


def _phase(ctx_reqs: int, requests: int) -> str:
    if not ctx_reqs:
        return str(Phase.DECODE)
    return str(Phase.PREFILL) if ctx_reqs == requests else str(Phase.MIXED)
