"""Which finding to act on next: the largest trusted bound, or the level above when the leaves are flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from m3probe.analyzers._basis import Basis, basis
from m3probe.analyzers._view import View, percent, view
from m3probe.model.findings import Bound, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BottleneckSection, NextBottleneck
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, Family

FAMILIES_SHOWN = 5
FLAT_FAMILY = 0.15
FLAT_BOUND = 0.03
"""Leaves are flat when the largest family or the best bound is below these shares of step time (design: Finding)."""
WAITS = 0.10
"""The device waits when it is idle for more than this share of step time; a profiler alone adds a few per cent."""

_ADVICE = {
    Family.GEMM: "Look at its local shapes and tiles (question shapes): decode GEMMs with few rows read weights, so "
    "their dtype and the programs per compute unit decide",
    Family.MOE_GEMM: "Look at the MoE backend that ran (question paths) and its grouped shapes (question shapes)",
    Family.ATTENTION: "Look at which attention backend ran, and at the KV dtype (questions paths and bytes)",
    Family.SPARSE_ATTENTION: "Look at which sparse attention path ran (question paths)",
    Family.INDEXER: "Look at how often blocks are chosen (question repeats)",
    Family.COMM: "Look at the collectives and their payloads (question bytes): time in one may be waiting for a late rank",
    Family.UNKNOWN: "These kernels have no family yet: nothing can be said about them but their time",
}
_DEFAULT_ADVICE = (
    "Many small kernels: fuse them into their neighbours, or look at how often they run (question repeats)"
)
_FAMILY, _IDLE = "next_bottleneck.family.", "next_bottleneck.idle"
# Findings of others that say why the device waits inside a step; the first that is there explains it.
_WHY_IT_WAITS = ("repeats.decode_eager", "repeats.launch_bound", "repeats.eager_decode_steps")


def judge(rec: Recording, so_far: Answer) -> Answer:
    """Families and the idle gap with Amdahl bounds, and the one finding to act on."""
    seen = view(rec, so_far)
    base = basis(seen)
    if base is None:
        why = "no kernel of a step has a known time, so nothing can be bounded"
        return Answer((BottleneckSection(None),), (_none(seen, why),))
    own = (*_families(seen, base), *_idle(seen, base))
    if not seen.trusted:
        doubts = "; ".join(seen.doubts) or "the evidence is unusable"
        return Answer(
            (BottleneckSection(None),), (*own, _none(seen, f"kernels may be missing ({doubts}): no bound holds"))
        )
    chosen = _choose(base, (*so_far.findings, *own))
    return Answer((BottleneckSection(chosen),), own)


ANALYZER = Analyzer(title="What is the next bottleneck?", order=90, judge=judge)


def _families(view: View, base: Basis) -> Iterator[Finding]:
    time = base.family_ns(view)
    total = int(time.sum())
    overall = np.zeros(len(FAMILIES), dtype=np.int64)
    known = view.ex.dur_ns > 0
    np.add.at(overall, view.ex.family[known], view.ex.dur_ns[known])
    for index in np.argsort(-time, kind="stable")[:FAMILIES_SHOWN].tolist():
        if time[index]:
            everywhere = int(overall[index]) / int(overall.sum())
            yield _family(view, base, index, int(time[index]) / total, everywhere)


def _family(view: View, base: Basis, index: int, kernel_share: float, everywhere: float) -> Finding:
    family = FAMILIES[index]
    share = kernel_share * (1.0 - base.idle)
    kernels = view.ex.kernel[base.rows & (view.ex.family == index)]
    return Finding(
        id=f"{_FAMILY}{family}",
        question="next_bottleneck",
        verdict="share",
        claim=f"{family} takes {percent(share)} of {base.name} ({percent(kernel_share)} of its kernel time, "
        f"{percent(everywhere)} of all kernel time)",
        where=base.where,
        evidence=(evidence("kernels", kernels[kernels >= 0], f"{len(kernels):,} kernels"),),
        advice=_ADVICE.get(family, _DEFAULT_ADVICE),
        bound=Bound(
            0.0,
            share,
            "Amdahl, if the family cost nothing: share of kernel time (plain sum; streams that overlap count in full) "
            "x (1 - idle share)",
        ),
        trusted=view.trusted,
    )


def _idle(view: View, base: Basis) -> Iterator[Finding]:
    if base.idle <= 0:
        return
    where = ""
    if base.tail is not None:
        inside = max(base.idle - base.tail, 0.0)
        where = f": {percent(inside)} between kernels of a step, {percent(base.tail)} between steps"
    yield Finding(
        id=_IDLE,
        question="next_bottleneck",
        verdict="idle",
        claim=f"The device is idle for {percent(base.idle)} of {base.name}{where}",
        where=base.where,
        evidence=(evidence("steps", base.steps, f"{base.window_ns:,} ns of {base.name}", "no gap"),),
        advice="Between kernels: graphs or fewer launches. Between steps: the scheduler, sampling and the front end (question "
        "queues). A profiler slows the host: measure the step time without it before crediting all of it",
        bound=Bound(0.0, base.idle, f"idle share of {base.name}, if the next kernel were always ready"),
        confidence="medium",  # recorded under a profiler, which slows the host
        trusted=view.trusted,
    )


def _choose(base: Basis, findings: Sequence[Finding]) -> NextBottleneck | None:
    """The largest trusted bound, or what names the level above when leaves are flat and the device waits.

    Of equal bounds the first wins, so that a finding with a cause beats the plain gap.
    """
    bounded = [(f, f.bound) for f in findings if f.bound is not None and f.trusted and f.bound.high > 0]
    if not bounded:
        return None
    best, bound = max(bounded, key=lambda pair: pair[1].high)
    top = max((b.high for f, b in bounded if f.id.startswith(_FAMILY)), default=0.0)
    flat = top < FLAT_FAMILY or bound.high < FLAT_BOUND
    leaves = f"leaves are flat (largest family {percent(top)} of {base.name})"
    if flat and base.idle > WAITS:
        best = _level_above(base, [f for f, _ in bounded])
        return NextBottleneck(best.id, best.bound, f"{leaves} and {_waiting(base)}")
    largest = f"the largest trusted bound: up to {percent(bound.high)} of {base.name}"
    if flat:
        why = (
            f"{leaves} and the device does not wait: ask a level up (paths, bytes, state, queue) before another kernel"
        )
    else:
        why = f"{largest}; {_waiting(base)}" if best.id in (*_WHY_IT_WAITS, _IDLE) else largest
    return NextBottleneck(best.id, best.bound, why)


def _waiting(base: Basis) -> str:
    level = "queue" if _between_steps(base) else "launch"
    return (
        f"the device waits {percent(base.idle)} of {base.name}: the level to look at is the {level}, above any kernel"
    )


def _between_steps(base: Basis) -> bool:
    """Most of the waiting lies between steps, where no launch of a step can be at fault."""
    return base.tail is not None and base.tail > base.idle / 2


def _level_above(base: Basis, bounded: Sequence[Finding]) -> Finding:
    """The finding that says why the device waits inside a step, else the gap itself."""
    by_id = {f.id: f for f in bounded}
    causes = () if _between_steps(base) else _WHY_IT_WAITS
    return by_id[next((cause for cause in causes if cause in by_id), _IDLE)]


def _none(view: View, why: str) -> Finding:
    known = np.flatnonzero(view.ex.dur_ns > 0)
    return Finding(
        id="next_bottleneck.none",
        question="next_bottleneck",
        verdict="unproven",
        claim=f"No next bottleneck is named: {why}",
        where="",
        evidence=(evidence("kernels", view.ex.kernel[known], f"{len(known):,} kernels with a time"),),
        advice="Record a short window with kernel times in which no kernel is lost (see the trust section)",
        trusted=view.trusted,
    )
