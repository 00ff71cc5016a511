"""Graph coverage: which steps, rows and decode tokens ran in graphs, and what decode steps without one cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._basis import part_of
from m3probe.analyzers._engine import count, told
from m3probe.analyzers._idle import KERNELS, WORDS, idle_of
from m3probe.analyzers._view import View, decode_tokens, in_phases, ms, percent
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.repeat_report import CoverageRow
from m3probe.model.tables import Array
from m3probe.schema.verdicts import GRAPH_MODES, GraphMode, Phase

_WORKING = (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN)
UNKNOWN_MODE = "unknown"
_AMORTISES = (
    "A gain from fewer launches shrinks as concurrency grows (the published shared-expert fusion: +30.2 % at "
    "concurrency 1, +5.6 % at 128): measure at two concurrencies to tell it from other gains"
)


def launches_of(rec: Recording) -> Array:
    """Kernel and graph launches of the host in each step."""
    calls = rec.launches
    own = (calls["kind"] > 0) & (calls["step"] >= 0)
    return np.bincount(calls["step"][own], minlength=len(rec.steps))


def graph_coverage(rec: Recording) -> tuple[CoverageRow, ...]:
    """One row per graph mode over all non-empty steps; ``unknown`` where no launch of the step was recorded.

    A step that several ranks ran counts once in each mode that it had on one of them; shares are over the ranks' steps.
    Shares of rows and of decode tokens are None when one step does not say them, or there are none.
    """
    working = in_phases(rec, *_WORKING)
    seen = launches_of(rec) > 0
    tokens = decode_tokens(rec)
    found = []
    for name, steps in _by_mode(rec, working, seen):
        share = len(steps) / int(working.sum())
        rows = _part(rec.steps["rows"], steps, working)
        found.append(CoverageRow(name, count(rec, steps), share, rows, _part(tokens, steps, working)))
    return tuple(found)


def _by_mode(rec: Recording, working: Array, seen: Array) -> Iterator[tuple[str, Array]]:
    mode = rec.steps["graph_mode"]
    for name in (GraphMode.FULL, GraphMode.PIECEWISE, GraphMode.NONE):
        steps = np.flatnonzero(working & seen & (mode == GRAPH_MODES.index(name)))
        if len(steps):
            yield str(name), steps
    blind = np.flatnonzero(working & ~seen)
    if len(blind):
        yield UNKNOWN_MODE, blind


def _part(values: Array, steps: Array, of: Array) -> float | None:
    total = values[of]
    if (total < 0).any() or not total.sum():
        return None
    return int(values[steps].sum()) / int(total.sum())


def coverage_findings(view: View) -> Iterator[Finding]:
    """Decode steps that ran without a graph: all of them, or some while others ran one."""
    rec = view.rec
    calls = launches_of(rec)
    decode = np.flatnonzero(in_phases(rec, Phase.DECODE) & (calls > 0))
    eager = decode[rec.steps["graph_launches"][decode] == 0]
    if not len(eager):
        return
    if len(eager) == len(decode):
        yield _all_eager(view, eager, calls)
    else:
        yield _some_eager(view, eager, decode)


def _all_eager(view: View, eager: Array, calls: Array) -> Finding:
    launched = float(calls[eager].mean())
    bound, waits = None, ""
    if view.decode is not None:
        idle = idle_of(view.rec, view.time, view.decode.steps)
        formula = (
            f"idle time {WORDS[KERNELS]} / {view.decode.name}, if a graph left no gap; the wait between steps stays"
        )
        bound = part_of(idle.inside_ns, idle.window_ns, formula, view.decode.name)
        waits = f"; the device is idle {percent(bound.high)} of {view.decode.name} {WORDS[KERNELS]}"
    return Finding(
        id="repeats.decode_eager",
        question="repeats",
        verdict="eager",
        # one graph launch stays; which others must (sampling, copies of inputs) the trace does not say
        claim=f"{_all(view, eager)} ran without a graph: one graph launch could stand for up to "
        f"{launched - 1:,.0f} of {launched:,.0f} launches per step{waits}",
        where="decode",
        evidence=(evidence("steps", eager, "graph mode NONE", "FULL"),),
        advice="Serve without --enforce-eager (MiniMax M3 on ROCm: also VLLM_USE_BREAKABLE_CUDAGRAPH=0 or "
        f'--compilation-config \'{{"cudagraph_mode": "FULL_DECODE_ONLY"}}\'). {_AMORTISES}',
        bound=bound,
        confidence="medium",  # profiling slows the host, so the idle share of an unprofiled run is smaller
        trusted=view.trusted,
    )


def _all(view: View, steps: Array) -> str:
    number = told(view.rec, steps, "decode steps")
    return f"All {number}" if count(view.rec, steps) > 1 else f"The {number.removeprefix('1 ')}"


def _some_eager(view: View, eager: Array, decode: Array) -> Finding:
    rec, rows = view.rec, view.rec.steps["rows"]
    most = [int(rows[part].max()) for part in (eager, np.setdiff1d(decode, eager))]
    sizes = f" (up to {most[0]} rows without, up to {most[1]} with)" if min(most) >= 0 else ""
    bound, waits = None, ""
    lost = np.intersect1d(eager, view.timed_steps(Phase.DECODE))
    if len(lost) and view.decode is not None:
        idle_ns = idle_of(rec, view.time, lost).inside_ns
        waits = f"; the device was idle {ms(idle_ns)} {WORDS[KERNELS]} in them"
        formula = f"idle time {WORDS[KERNELS]} in these steps / {view.decode.name}"
        bound = part_of(idle_ns, view.decode.window_ns, formula, view.decode.name)
    return Finding(
        id="repeats.eager_decode_steps",
        question="repeats",
        verdict="eager",
        claim=f"{count(rec, eager)} of {count(rec, decode)} decode steps ran without a graph while others ran one"
        f"{sizes}{waits}",
        where="decode",
        evidence=(evidence("steps", eager, "graph mode NONE", "FULL or PIECEWISE"),),
        advice="Compare their rows with the capture sizes (cudagraph_capture_sizes; with draft tokens the sizes count "
        "tokens, not requests) and raise the largest one if it is too small",
        bound=bound,
        trusted=view.trusted,
    )
