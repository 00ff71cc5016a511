"""The idle gap as a finding: where the device waits, which level is at fault there, and what to try."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from m3probe.analyzers._basis import Basis
from m3probe.analyzers._costs import issue_interval_ns
from m3probe.analyzers._devices import by_device
from m3probe.analyzers._idle import AFTER, BEFORE, BETWEEN, INSIDE, KERNELS, WORDS, Idle
from m3probe.analyzers._view import View, ms, percent
from m3probe.model.device_report import DeviceRow
from m3probe.model.findings import Bound, Evidence, Finding, evidence
from m3probe.model.idle_report import IdlePart, IdleSection
from m3probe.schema.verdicts import GRAPH_MODES, GraphMode, Phase

IDLE = "next_bottleneck.idle"
CAUSES = ("repeats.decode_eager", "repeats.launch_bound", "repeats.eager_decode_steps")
"""Findings that say why the device waits inside a step, and bound that part of the idle time."""
LEVELS = {
    BEFORE: "launch (what the host does before it launches the graph)",
    INSIDE: "launch (dependent kernels inside the graph)",
    AFTER: "launch (what follows the graph)",
    KERNELS: "launch",
    BETWEEN: "queue",
}
_NO_STEPS = "host's (launches, start-up, or nobody who asks: steps would tell)"
_PROFILER = "A profiler slows the host: measure the step time without it before crediting all of it"


def idle_finding(
    view: View, base: Basis, idle: Idle | None, causes: Iterable[Finding], devices: Sequence[DeviceRow] = ()
) -> Finding:
    """The gap by its parts; its bound leaves out what the given findings already bound.

    Args:
        view: the recording.
        base: the steps.
        idle: parts of their idle time; None without steps, where the parts are the ``devices``.
        causes: findings with a bound on the same basis that explain a part.
        devices: time of each device.
    """
    causes = list(causes)
    rest = base.idle - sum(cause.bound.high for cause in causes if cause.bound)
    bound, named = None, ", ".join(cause.id for cause in causes)
    if rest > 1e-9:  # less is rounding
        less = f", less what {named} bounds" if causes else ""
        formula = f"idle time / {base.name}{less}, if the next kernel were always ready"
        less = "".join(
            f" - ({cause.bound.arithmetic[0]})" for cause in causes if cause.bound and cause.bound.arithmetic
        )
        worked = f"({base.window_ns:,} ns - {base.busy_ns:,} ns) / {base.window_ns:,} ns{less}"
        bound = Bound(0.0, rest, formula, base.name, (worked,))
    return Finding(
        id=IDLE,
        question="next_bottleneck",
        verdict="idle",
        claim=f"The device is idle for {percent(base.idle)} of {base.name}{_parts(idle, named, devices)}",
        where=base.where,
        evidence=(evidence("steps", base.steps, f"{base.window_ns:,} ns of {base.name}", "no gap"),)
        if base.where
        else _gaps(base),
        advice=f"{_advice(view, base, idle)}. {_PROFILER}",
        bound=bound,
        confidence="medium",  # recorded under a profiler, which slows the host
        trusted=view.trusted,
    )


def _gaps(base: Basis) -> tuple[Evidence, ...]:
    """The kernels that ran after the longest gaps of a recording without steps."""
    rows, gaps = [], []
    for file in np.unique(base.events.file).tolist():
        here = base.events.at(base.events.file == file)  # by start
        gap = here.start[1:] - np.maximum.accumulate(here.end)[:-1]
        found = np.flatnonzero(gap > 0)
        rows.append(here.kernel[1:][found])
        gaps.append(gap[found])
    row, gap = np.concatenate(rows), np.concatenate(gaps)
    order = np.argsort(-gap, kind="stable")
    row = row[order][row[order] >= 0]
    observed = f"{len(gap):,} gaps in {base.window_ns:,} ns of {base.name}; the kernels that ended the longest"
    return (evidence("kernels", row, observed, "no gap", count=len(gap)),)


def _parts(idle: Idle | None, causes: str, devices: Sequence[DeviceRow]) -> str:
    """Shares that make the idle share; the last step has no next one, so that the wait after it is not in them."""
    if idle is None:
        each = by_device(devices, lambda row: row.idle_share)
        return f" ({each})" if each else ""
    told = [(part, idle.share(part) or 0.0) for part, ns in idle.parts.items() if ns] or [(idle.largest, 0.0)]
    parts = [f"{percent(share)} {WORDS[part]}" for part, share in told]
    mean = ms(idle.parts[BETWEEN] / idle.followed) if idle.followed else ""
    after = f" ({mean} after each of {idle.followed} of {idle.steps} steps)" if told[-1][0] == BETWEEN else ""
    bounded = f"; the wait inside steps is bounded by {causes}" if causes else ""
    empty = f"; after {idle.emptied} step(s) no request was left, which is not counted" if idle.emptied else ""
    unknown = empty if idle.followed or idle.emptied else "; the wait for the next step is unknown (none was recorded)"
    # a single part is the whole: its share is told already
    return (f": {', '.join(parts)}{after}" if len(parts) > 1 else f", {WORDS[told[0][0]]}{after}") + bounded + unknown


def _advice(view: View, base: Basis, idle: Idle | None) -> str:
    if idle is None:
        return (
            "Without steps nothing says whether it waits inside or between them, or for somebody to ask: record with ranges "
            "for the steps (docs/record.md)"
        )
    return {BEFORE: _before_graph, KERNELS: _between_kernels}.get(idle.largest, _plain)(view, base, idle)


def _plain(_view: View, _base: Basis, idle: Idle) -> str:
    return {
        INSIDE: "Kernels of the graph wait for each other: fuse the small ones, or run independent ones on branches",
        AFTER: "Work after the graph is launched kernel by kernel: sampling and output copies in fewer launches",
        BETWEEN: "The host has no next step ready: the scheduler, sampling, output handling and the front end (question "
        "queues); asynchronous scheduling prepares the next step while this one runs",
    }[idle.largest]


def _before_graph(view: View, base: Basis, _idle: Idle) -> str:
    number, interval = _before_the_graph(view, base)
    spread = "" if interval is None else f", one each {interval / 1e3:,.0f} us on average"
    return (
        f"Host preparation: {number:,.0f} other launches per step{spread}, come before the graph is launched (input "
        "buffers, attention metadata, copies). Prepare less per step, in fewer launches, or while the previous step runs "
        "(asynchronous scheduling); the graph itself is there already"
    )


def _before_the_graph(view: View, base: Basis) -> tuple[float, float | None]:
    """Launches before the graph launch, per step that has one, and the mean time from one to the next."""
    rec, calls = view.rec, view.rec.launches
    own = np.flatnonzero((calls["kind"] > 0) & np.isin(calls["step"], base.steps))
    step, start = calls["step"][own], calls["start_ns"][own]
    graph = rec.graph_launches[own]
    at = np.full(len(rec.steps), np.iinfo(np.int64).max)
    np.minimum.at(at, step[graph], start[graph])
    first = np.full(len(rec.steps), np.iinfo(np.int64).max)
    np.minimum.at(first, step, start)
    steps = np.unique(step[graph])
    number = int(((start < at[step]) & np.isin(step, steps)).sum())
    return number / max(len(steps), 1), float((at[steps] - first[steps]).sum()) / number if number else None


def _between_kernels(view: View, base: Basis, _idle: Idle) -> str:
    mode = view.rec.steps["graph_mode"][base.steps]
    interval = issue_interval_ns(view.rec, base.steps)
    every = "" if interval is None else f" (one launch each {interval / 1e3:,.1f} us on average)"
    if (mode == GRAPH_MODES.index(GraphMode.PIECEWISE)).all():
        return f"Between graphs' pieces and the launches beside them{every}: fewer pieces, FULL graphs where they are allowed"
    if base.where == Phase.DECODE:
        return f"Launch less{every}: graphs, or fewer and larger kernels (fusion)"
    return (
        f"Launch less{every}: fewer and larger kernels (fusion, compilation), or more rows per step; graphs help where "
        "shapes repeat"
    )


def idle_section(base: Basis, idle: Idle) -> IdleSection:
    """The parts as rows: what a chart of them draws."""
    has = {BETWEEN: idle.followed, KERNELS: idle.steps - idle.graph_steps}
    parts = (
        IdlePart(part, WORDS[part], LEVELS[part], ns, idle.share(part) or 0.0, has.get(part, idle.graph_steps))
        for part, ns in idle.parts.items()
    )
    return IdleSection(base.name, tuple(parts))


def level(idle: Idle | None) -> str:
    """The level to look at: that of the largest part."""
    return _NO_STEPS if idle is None else LEVELS[idle.largest]
