"""What output costs in decode, and whether launching bounds it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._basis import part_of
from m3probe.analyzers._coverage import launches_of
from m3probe.analyzers._engine import count, once, told
from m3probe.analyzers._idle import KERNELS, WORDS, idle_of
from m3probe.analyzers._view import View, decode_tokens, in_phases, ms, percent
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.repeat_report import Costs
from m3probe.model.tables import Array
from m3probe.schema.verdicts import Phase

IDLE_SHARE = 0.30
"""Below this the device is busy enough that launching is not what bounds a step."""
CALLS_PER_KERNEL = 0.5
"""With fewer host launches than this per kernel graphs already amortise launching."""
RESPONSE_TOKENS = 1_000


def costs(view: View) -> Costs:
    """Kernel time and step time per output token over timed decode steps, of one rank."""
    steps = view.timed_steps(Phase.DECODE)
    drafted = drafts(view.rec, steps)
    per_token = None if drafted else _per(view, steps, decode_tokens(view.rec))
    step = None if drafted else step_ns(view, steps)
    mixed = np.flatnonzero(in_phases(view.rec, Phase.MIXED) & once(view.rec))
    return Costs(
        ns_per_output_token=per_token,
        ns_per_1000_token_response=None if per_token is None else per_token * RESPONSE_TOKENS,
        ns_per_active_request=_per(view, steps, _active(view.rec)),
        decode_tokens_in_mixed_steps=_total(decode_tokens(view.rec), mixed) if len(view.rec.steps) else None,
        mixed_ns_per_decode_token=_per(view, view.timed_steps(Phase.MIXED), decode_tokens(view.rec)),
        launch_bound=launch_bound(view),
        step_ns_per_token=step,
        step_ns_per_1000_token_response=None if step is None else step * RESPONSE_TOKENS,
    )


def step_ns(view: View, steps: Array) -> float | None:
    """Mean time from the first work of a step to that of the next; None where no step has a next one.

    A decode step makes one token for each of its requests, so that this is what each of them waits for a token.
    """
    with_next = steps[view.time.followed[steps]]
    return float(view.time.window_ns[with_next].mean()) if len(with_next) else None


def drafts(rec: Recording, steps: Array) -> bool:
    """Whether decode rows hold draft tokens: then how many tokens came out is not in the trace."""
    return bool((decode_tokens(rec)[steps] > _active(rec)[steps]).any())


def _active(rec: Recording) -> Array:
    return np.where(rec.steps["gen_reqs"] >= 0, rec.steps["gen_reqs"], rec.steps["requests"])


def _total(values: Array, steps: Array) -> int | None:
    """Sum of a column over steps; None when one of them does not say it; 0 without steps is a count."""
    return None if (values[steps] < 0).any() else int(values[steps].sum())


def _per(view: View, steps: Array, of: Array) -> float | None:
    number = _total(of, steps)
    return view.time_ns(view.rows_in(steps)) / number if number else None


def issue_interval_ns(rec: Recording, steps: Array) -> float | None:
    """Mean time from one launch call of a step to its next; None when no step has two."""
    calls = rec.launches
    own = (calls["kind"] > 0) & (calls["step"] >= 0)
    step, start = calls["step"][own], calls["start_ns"][own]
    first = np.full(len(rec.steps), np.iinfo(np.int64).max)
    last = np.full(len(rec.steps), np.iinfo(np.int64).min)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, start)
    count = np.bincount(step, minlength=len(rec.steps))
    several = steps[count[steps] > 1]
    if not len(several):
        return None
    return float((last[several] - first[several]).sum()) / float((count[several] - 1).sum())


def launch_bound(view: View) -> bool | None:
    """Whether the host's launching bounds decode; None without GPU times or launch calls.

    True needs all three: the device idle for more than `IDLE_SHARE`, nearly every kernel launched by itself,
    and a mean interval between launches longer than the mean kernel.
    """
    steps = view.timed_steps(Phase.DECODE)
    idle = view.time.idle_share(steps)
    calls = launches_of(view.rec)[steps]
    if idle is None or not view.trusted or not calls.sum():
        return None
    if idle <= IDLE_SHARE:
        return False
    rows = view.rows_in(steps)
    interval = issue_interval_ns(view.rec, steps)
    if calls.sum() < CALLS_PER_KERNEL * rows.sum() or interval is None:
        return False
    return interval > view.time_ns(rows) / int(rows.sum())


def cost_findings(view: View, *, explained: str) -> Iterator[Finding]:
    """Launch-bound decode, decode tokens that waited for prefill work, and rows that hold drafts.

    ``explained``: id of a finding that bounds the same idle time already, "" without one.
    """
    if launch_bound(view):
        yield _launch_bound_finding(view, explained)
    mixed = np.flatnonzero(in_phases(view.rec, Phase.MIXED))
    tokens = _total(decode_tokens(view.rec), mixed[once(view.rec)[mixed]])
    if len(mixed) and tokens:
        yield _mixed_finding(view, mixed, tokens)
    decode = view.steps(Phase.DECODE)
    if drafts(view.rec, decode):
        yield _draft_finding(view, decode)


def _launch_bound_finding(view: View, explained: str) -> Finding:
    steps = view.timed_steps(Phase.DECODE)
    rows = view.rows_in(steps)
    interval = issue_interval_ns(view.rec, steps) or 0.0
    mean_ns = view.time_ns(rows) / int(rows.sum())
    bound, waits = None, f" (the idle time is bounded by {explained})"
    if not explained and view.decode is not None:
        idle = idle_of(view.rec, view.time, steps)
        formula = f"idle time {WORDS[KERNELS]} / {view.decode.name}, if launches cost the device nothing"
        bound = part_of(idle.inside_ns, idle.window_ns, formula, view.decode.name)
        waits = f", and the device is idle {percent(bound.high)} of {view.decode.name} {WORDS[KERNELS]}"
    return Finding(
        id="repeats.launch_bound",
        question="repeats",
        verdict="launch_bound",
        claim=f"Decode is bound by launching: a launch follows the last one after {interval / 1e3:,.1f} us, and the mean "
        f"kernel takes {mean_ns / 1e3:,.1f} us{waits}",
        where="decode",
        evidence=(
            evidence(
                "steps", steps, f"launch interval {interval:,.0f} ns", f"below the mean kernel, {mean_ns:,.0f} ns"
            ),
        ),
        advice="Run decode in graphs, or make fewer and larger kernels (fusion). A profiler slows the host: check the "
        "step time without it before crediting the whole idle share",
        bound=bound,
        confidence="medium",
        trusted=view.trusted,
    )


def _mixed_finding(view: View, mixed: Array, tokens: int) -> Finding:
    context = _total(view.rec.steps["ctx_tokens"], mixed[once(view.rec)[mixed]])
    mean = step_ns(view, view.timed_steps(Phase.MIXED))
    pure = step_ns(view, view.timed_steps(Phase.DECODE))
    cost = "" if mean is None else f"; a mixed step takes {ms(mean)}"
    cost += "" if mean is None or pure is None else f" where a pure decode step takes {ms(pure)}"
    beside = "" if context is None else f" beside {context:,} prefill tokens"
    return Finding(
        id="repeats.mixed_steps",
        question="repeats",
        verdict="measured",
        claim=f"{tokens:,} decode tokens were made in {_steps(count(view.rec, mixed))}{beside}{cost}",
        where="mixed",
        evidence=(evidence("steps", mixed, f"{tokens:,} decode tokens in {told(view.rec, mixed, 'mixed steps')}"),),
        # no bound: the prefill work must be done anyway, only its place can change
        advice="Each of these tokens waits for the prefill work of its step: a smaller max_num_batched_tokens shortens "
        "the wait and lengthens prefill, separate prefill workers remove it",
        trusted=view.trusted,
    )


def _steps(number: int) -> str:
    return f"{number:,} mixed step{'s' if number != 1 else ''}"


def _draft_finding(view: View, decode: Array) -> Finding:
    unique = decode[once(view.rec)[decode]]
    tokens = _total(decode_tokens(view.rec), unique)
    active = _total(_active(view.rec), unique)
    return Finding(
        id="repeats.draft_rows",
        question="repeats",
        verdict="unproven",
        claim=f"Decode steps compute {tokens} rows for {active} active requests: rows hold draft tokens, and how many were "
        "accepted is not in the trace, so the cost per output token is not stated",
        where="decode",
        evidence=(evidence("steps", decode, f"{tokens} rows", f"{active} without drafts"),),
        advice="The acceptance counters of /metrics (vllm:spec_decode_num_accepted_tokens) say how many tokens came out",
        trusted=view.trusted,
    )
