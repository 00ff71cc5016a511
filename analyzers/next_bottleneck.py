"""Which finding to act on next: the largest trusted bound, or the level above when the leaves are flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._basis import Basis, basis, removable_share, step_share
from m3probe.analyzers._devices import by_device
from m3probe.analyzers._idle import KERNELS, Idle, idle_of
from m3probe.analyzers._queues_next import next_failure, next_queue
from m3probe.analyzers._ranking import COPIES, FAMILY, in_order, ranking, waiting
from m3probe.analyzers._view import View, percent, view
from m3probe.analyzers._waiting import CAUSES, IDLE, idle_finding, idle_section, level
from m3probe.analyzers._whole import whole
from m3probe.kernels.demangle import demangle
from m3probe.model.device_report import DeviceRow, DevicesSection
from m3probe.model.findings import Bound, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BottleneckSection, NextBottleneck
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, Family, Phase

SHOWN = 5
"""Candidates shown: families, and copies, which are none."""
NAME_SHOWN = 60
FLAT_FAMILY = 0.15
FLAT_BOUND = 0.03
"""Leaves are flat when the largest family or the best bound is below these shares of step time (docs/repeats.md)."""
WAITS = 0.10
"""The device waits when it is idle for more than this share of step time; a profiler alone adds a few per cent."""

_GEMM_ADVICE = {
    Phase.DECODE: "Look at its local shapes and tiles (question shapes): decode GEMMs with few rows read weights, so "
    "their dtype and the programs per compute unit decide",
    Phase.PREFILL: "Look at its local shapes and tiles (question shapes): with many rows GEMMs compute, so the dtype, the "
    "tile and the library's choice decide how near they come to the peak",
    Phase.MIXED: "Look at its local shapes and tiles (question shapes): rows of prefill and decode share these GEMMs, so the "
    "row count of the step decides whether they compute or read weights",
}
_ADVICE = {
    Family.GEMM: "Look at its local shapes and tiles (question shapes)",
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
_LOST = "Record a short window with kernel times in which no kernel is lost (see the trust section)"
_NO_KERNELS = (
    "Give what belongs to the same run: a trace of a short window on a GPU for shares of step time, the client's result and "
    "/metrics pages scraped under load for the queues"
)
_COPIES_ADVICE = (
    "Look at what is copied and which way (question bytes): copies to the host that a step waits for, staging that a "
    "registered buffer would spare, many small ones that one could carry"
)


def judge(rec: Recording, so_far: Answer) -> Answer:
    """Families, copies and the idle gap with the bounds of taking them out, and the one finding to act on."""
    seen = view(rec, so_far)
    base = basis(rec)
    if base is None:
        found = next_queue(so_far.findings) or next_failure(so_far.findings)
        own = [] if found else [_none(seen, _why_not(seen))]
        return _answer(rec, found, "", so_far, own)
    idle = idle_of(rec, seen.time, base.steps) if base.where else None
    waits = Answer((idle_section(base, idle),)) if idle else Answer()
    causes = [f for f in so_far.findings if f.id in CAUSES and f.bound is not None and f.bound.basis == base.name]
    section = so_far.section(DevicesSection)
    devices = section.device_time if section else ()
    own = list(_candidates(seen, base, devices))
    if base.idle > 0:
        own.append(idle_finding(seen, base, idle, causes, devices))
    if not seen.trusted:
        doubts = "; ".join(seen.doubts) or "the evidence is unusable"
        queue = next_queue(so_far.findings)
        own += [] if queue else [_none(seen, f"no bound holds ({doubts})")]
        return waits.plus(_answer(rec, queue, base.name, _doubted(so_far, base), own))
    chosen = _choose(rec, base, idle, so_far, own)
    return waits.plus(_answer(rec, chosen, base.name, so_far, own))


ANALYZER = Analyzer(title="What is the next bottleneck?", order=90, judge=judge)


def _answer(rec: Recording, chosen: NextBottleneck | None, name: str, so_far: Answer, own: Sequence[Finding]) -> Answer:
    """The choice, and everything behind it in order."""
    return Answer((BottleneckSection(chosen, ranking(rec, chosen, name, (*so_far.findings, *own))),), tuple(own))


def _doubted(so_far: Answer, base: Basis) -> Answer:
    """Where step time is not trusted, no share of it is."""
    doubt = (replace(f, trusted=False) if f.bound and f.bound.basis == base.name else f for f in so_far.findings)
    return replace(so_far, findings=tuple(doubt))


def _why_not(view: View) -> str:
    if not len(view.rec.kernels):
        return "no kernel was recorded, and no queue, cache or limit was found short"
    if not whole(view.rec):
        return "kernels are or may be missing from the recording (trust says why), so that no share of step time holds"
    return "no kernel of a step has a known time, so nothing can be bounded"


def _candidates(view: View, base: Basis, devices: Sequence[DeviceRow]) -> Iterator[Finding]:
    """The largest consumers of step time: families, and copies (memcpy and memset), by the time they take."""
    rec, events = view.rec, base.events
    kind = np.where(events.kernel >= 0, rec.kernels["family"][events.kernel] if len(rec.kernels) else 0, len(FAMILIES))
    own = base.chosen(rec, np.ones(len(rec.kernels), dtype=bool), np.ones(len(rec.transfers), dtype=bool))
    time = np.zeros(len(FAMILIES) + 1, dtype=np.int64)
    np.add.at(time, kind[own], (events.end - events.start)[own])
    overall = _everywhere(rec)
    for index in np.argsort(-time, kind="stable")[:SHOWN].tolist():
        if not time[index]:
            return
        if index == len(FAMILIES):
            yield _copies(view, base, events.transfer[own & (kind == index)])
        else:
            share = _family_share(view, base, FAMILIES[index], events.kernel[own & (kind == index)], (time, overall))
            comm = FAMILIES[index] is Family.COMM and not base.where
            yield replace(share, claim=share.claim + _exposed(devices)) if comm else share


def _exposed(devices: Sequence[DeviceRow]) -> str:
    """By device, what of its span passes in collectives that nothing hides, where there are several."""
    each = by_device(devices, lambda row: None if row.exposed_ns is None else row.exposed_ns / max(row.span_ns, 1))
    return f"; of each device's span nothing hides {each}" if each else ""


def _family_share(view: View, base: Basis, family: Family, kernels: Array, times: tuple[Array, Array]) -> Finding:
    bound = removable_share(view.rec, kernels, base)
    of_its, of_all = (int(time[FAMILIES.index(family)]) / max(int(time[: len(FAMILIES)].sum()), 1) for time in times)
    takes, beside = _said(step_share(view.rec, kernels, base), bound, base)
    everywhere = f", {percent(of_all)} of all kernel time" if of_all else ""
    longest = f"; the longest of them is {_longest(view.rec, kernels)}" if family is Family.UNKNOWN else ""
    advice = _ADVICE.get(family, _DEFAULT_ADVICE)
    if family is Family.GEMM and base.where:
        advice = _GEMM_ADVICE.get(Phase(base.where), advice)
    return Finding(
        id=f"{FAMILY}{family}",
        question="next_bottleneck",
        verdict="share",
        claim=f"{family} {takes} ({percent(of_its)} of its kernel time{everywhere}){beside}{longest}",
        where=base.where,
        evidence=(evidence("kernels", np.sort(kernels), f"{len(kernels):,} kernels"),),
        advice=advice,
        bound=bound,
        trusted=view.trusted,
    )


def _said(takes: float, bound: Bound, base: Basis, verb: str = "takes") -> tuple[str, str]:
    """The time taken, and what of it is won where that differs: other work runs at the same time."""
    share, won = percent(takes), percent(bound.high)
    if takes > 1:  # streams or devices side by side: no share of a time is above 100 %
        return f"{verb} {takes:,.3f} x {base.name} in sum, side by side", f"; taking it out wins {won}"
    beside = "" if share == won else f"; other work runs beside it, so that taking it out wins {won}"
    return f"{verb} {share} of {base.name}", beside


def _longest(rec: Recording, kernels: Array) -> str:
    """Name of the kernel, as far as a line shows it, whose launches take most time together."""
    time = np.zeros(len(rec.strings) + 1, dtype=np.int64)  # the last is of those without a name, whose id is -1
    np.add.at(time, rec.kernels["name"][kernels], rec.kernels["dur_ns"][kernels])
    most = int(np.argmax(time))
    name = demangle(rec.strings[most]) if most < len(rec.strings) else "(no name)"
    return name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}..."


def _everywhere(rec: Recording) -> Array:
    """Kernel time by family over the whole recording; zeros where kernels are missing."""
    rows = figures.timed(rec) if whole(rec) else np.empty(0, dtype=np.int64)
    time = np.zeros(len(FAMILIES), dtype=np.int64)
    np.add.at(time, rec.kernels["family"][rows], rec.kernels["dur_ns"][rows])
    return time


def _copies(view: View, base: Basis, transfers: Array) -> Finding:
    none = np.empty(0, dtype=np.int64)
    bound = removable_share(view.rec, none, base, transfers)
    takes, beside = _said(step_share(view.rec, none, base, transfers), bound, base, "take")
    return Finding(
        id=COPIES,
        question="next_bottleneck",
        verdict="share",
        claim=f"Copies and fills (memcpy, memset) {takes}{beside}",
        where=base.where,
        evidence=(evidence("transfers", np.sort(transfers), f"{len(transfers):,} copies and fills"),),
        advice=_COPIES_ADVICE,
        bound=bound,
        trusted=view.trusted,
    )


def _choose(
    rec: Recording, base: Basis, idle: Idle | None, so_far: Answer, own: Sequence[Finding]
) -> NextBottleneck | None:
    """The first of the ranking, or what names the level above when leaves are flat and the device or a request waits."""
    findings = (*so_far.findings, *own)
    placed = in_order(rec, findings, base.name)
    if not placed:
        return None
    best = placed[0].finding
    top = max((p.high for p in placed if p.is_share), default=0.0)
    flat = top < FLAT_FAMILY or max(p.high for p in placed) < FLAT_BOUND
    queue = next_queue(findings, steps=True)
    leaves = f"leaves are flat (the largest of them frees {percent(top)} of {base.name})"
    look = f"the level to look at is the {level(idle)}, above any kernel"
    if flat and queue is not None:
        return NextBottleneck(queue.finding, queue.bound, f"{leaves} and a queue is short: {queue.why}")
    if flat and base.idle > WAITS:
        best = _level_above(best, idle, [p.finding for p in placed])
        return NextBottleneck(best.id, best.bound, f"{leaves} and the device waits: {look}")
    if flat:
        why = (
            f"{leaves} and the device does not wait; {waiting(so_far)}: ask a level up (paths, bytes, state, queue) before "
            "another kernel"
        )
        return NextBottleneck(best.id, best.bound, why)
    first = placed[0].first(base.name)
    return NextBottleneck(best.id, best.bound, f"{first}; {look}" if best.id in {*CAUSES, IDLE} else first)


def _level_above(best: Finding, idle: Idle | None, bounded: Sequence[Finding]) -> Finding:
    """The finding that says why the device waits where it waits most, else the gap itself."""
    by_id = {f.id: f for f in bounded}
    causes = CAUSES if idle is None or idle.largest == KERNELS else ()
    return next((by_id[name] for name in (*causes, IDLE, *CAUSES) if name in by_id), best)


def _none(view: View, why: str) -> Finding:
    known = np.flatnonzero(view.ex.dur_ns > 0)
    return Finding(
        id="next_bottleneck.none",
        question="next_bottleneck",
        verdict="unproven",
        claim=f"No next bottleneck is named: {why}",
        where="",
        evidence=(evidence("kernels", view.ex.kernel[known], f"{len(known):,} kernels with a time"),),
        advice=_LOST if len(view.rec.kernels) else _NO_KERNELS,
        trusted=view.trusted,
    )
