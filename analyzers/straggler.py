"""Which rank do the others wait for? Collectives of one step, aligned by their order on each rank; without steps all.

A collective ends on all ranks at about one time, so that the rank that enters last spends the least time in it: what
another rank spends beyond that is waiting. Durations alone are compared, which needs no common clock: kineto gives each
rank its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from m3probe.analyzers._basis import Basis, basis, part_of
from m3probe.analyzers._engine import engine_steps
from m3probe.analyzers._in_order import Aligned, in_order
from m3probe.analyzers._view import ms, percent
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, Family

LEAST = 0.01
"""Share of step time below which waiting in collectives is not told: launches of equal ranks differ by as much."""
SAME = 0.6
"""Share of the collectives that one rank enters last from which on it is the straggler; else ranks take turns."""
TOLD = 8
"""Ranks whose waiting a claim tells one by one."""
_COMM = FAMILIES.index(Family.COMM)
_ADVICE = (
    "Compare this rank with the others before any kernel: its clock and power (question device_health), its experts' rows "
    "(question expert_skew), its host (CPU binding, NUMA), and what else runs on its GPU. Time in a collective of the others "
    "is no cost of communication"
)


def judge(rec: Recording, so_far: Answer) -> Answer:
    """One finding where ranks wait in collectives, or where nothing tells whether they do; none for one rank."""
    files = _rank_files(rec)
    comm = np.unique(rec.kernels["file"][rec.kernels["family"] == _COMM]).tolist()
    if not any(rec.files[file].role == "rank" for file in comm):
        return Answer()
    base = basis(rec)
    if len(files) < 2 or base is None:
        return Answer(findings=tuple(_unproven(rec, files)))
    found = aligned(rec, files, base) if base.where else in_order(rec, files)
    if isinstance(found, str):
        return Answer(findings=(_none(rec, found),))
    if found is None:
        why = "no step has the same collectives on every rank"
        return Answer(findings=(_none(rec, why),))
    return Answer(findings=tuple(_finding(base, found, files, trusted=not so_far.hiding)))


ANALYZER = Analyzer(title="Which rank do the others wait for?", order=66, judge=judge)


def _rank_files(rec: Recording) -> dict[int, int]:
    """Rank -> file; a rank of two files is left out: neither is the whole."""
    files = [
        (file.rank, index) for index, file in enumerate(rec.files) if file.role == "rank" and file.rank is not None
    ]
    known = [rank for rank, _ in files]
    return {rank: index for rank, index in files if known.count(rank) == 1}


def aligned(rec: Recording, files: dict[int, int], base: Basis) -> Aligned | None:
    """The n-th collective of each step of the basis on every rank; None where there is none."""
    engine, kernels = engine_steps(rec), rec.kernels
    comm = np.flatnonzero((kernels["family"] == _COMM) & kernels["timed"] & np.isin(kernels["step"], base.steps))
    comm = comm[np.lexsort((kernels["start_ns"][comm], kernels["step"][comm]))]
    of_step = kernels["step"][comm]
    step = {(int(rec.steps["file"][row]), int(engine[row])): int(row) for row in base.steps}
    ones = np.unique(engine[base.steps]).tolist()
    shared = Counter(tuple(rank for rank in sorted(files) if (files[rank], one) in step) for one in ones)
    # data-parallel engines make steps of their own: the ranks that share most steps are looked at
    ranks = max(shared, key=lambda group: (len(group) > 1, shared[group]))
    if len(ranks) < 2:
        return None
    rows, steps, skipped = [], [], 0
    for one in ones:
        here = [step[files[rank], one] for rank in ranks if (files[rank], one) in step]
        if len(here) < len(ranks):
            continue
        calls = [comm[slice(*np.searchsorted(of_step, [row, row + 1]))] for row in here]
        names = [kernels["name"][each].tolist() for each in calls]
        if not names[0] or any(each != names[0] for each in names):
            skipped += 1
            continue
        rows.append(np.array(calls))
        steps.append(here)
    if not rows:
        return None
    every = np.concatenate(rows, axis=1)
    return Aligned(ranks, every, kernels["dur_ns"][every], np.array(steps).T, skipped)


def _told(ranks: Sequence[int], waits_ns: Array) -> str:
    """What each rank waits; of more than a sentence holds, those that wait least and most."""
    each = [f"rank {rank} {ms(float(ns))}" for rank, ns in zip(ranks, waits_ns, strict=True)]
    if len(each) <= TOLD:
        return ", ".join(each)
    order = [each[at] for at in np.argsort(waits_ns, kind="stable")]
    half = TOLD // 2
    between = len(each) - 2 * half
    return f"{', '.join(order[:half])}, {between} rank{'s' if between > 1 else ''} between, {', '.join(order[-half:])}"


def _finding(base: Basis, found: Aligned, files: dict[int, int], *, trusted: bool) -> Iterator[Finding]:
    waits, last = found.waits_ns, found.last
    most, late = int(np.argmax(waits)), int(np.argmax(last))
    if not waits[most]:
        return
    windows = base.windows.high - base.windows.low
    window = windows[_own(base, found, files[found.ranks[most]], most)]
    formula = f"time in collectives beyond the shortest rank's of each / {base.name} of rank {found.ranks[most]}"
    bound = part_of(int(waits[most]), int(window.sum()), f"{formula}, if all ranks entered together", base.name)
    if bound.high < LEAST:
        return
    one = bool(last[late] >= SAME)
    order = np.argsort(-(found.dur_ns[most] - found.dur_ns.min(axis=0)), kind="stable")
    who = (
        f"Rank {found.ranks[late]} enters {percent(float(last[late]))} of the collectives last"
        if one
        else "No rank is late alone: they take turns in entering last"
    )
    yield Finding(
        id=f"straggler.rank.{found.ranks[late]}" if one else "straggler.turns",
        question="straggler",
        verdict="late" if one else "uneven",
        claim=f"{who}, and rank {found.ranks[most]} waits in them for {percent(bound.high)} of {base.name} ({_each(found)})",
        where=base.where,
        evidence=(
            evidence(
                "kernels",
                found.rows[most][order],
                f"{found.rows.shape[1]:,} collectives {_of(found, found.ranks[most])}",
            ),
        ),
        advice=_ADVICE
        if one
        else "Look at what differs from step to step: host scheduling, uneven batches, routed experts",
        bound=bound,
        # a profiler delays the hosts of the ranks by unlike times; without steps order alone says which belong together
        confidence="medium" if base.where else "low",
        trusted=trusted,
    )


def _own(base: Basis, found: Aligned, file: int, rank: int) -> Array:
    """Mask over the windows of the basis: those of one rank."""
    mine: Array = np.isin(base.steps, found.steps[rank]) if base.where else base.windows.file == file
    return mine


def _each(found: Aligned) -> str:
    """Waiting of each rank, in a step or in all."""
    steps = found.steps.shape[1]
    waits = found.waits_ns / (steps or 1)
    return f"{'a step' if steps else 'in sum'}: {_told(found.ranks, waits)}"


def _of(found: Aligned, rank: int) -> str:
    steps = found.steps.shape[1]
    if not steps:
        return f"of rank {rank}, aligned by their order alone (no steps)"
    return f"in {steps:,} step(s) of rank {rank}{_skipped(found)}"


def _skipped(found: Aligned) -> str:
    return f"; {found.skipped:,} step(s) left out, whose collectives differ between ranks" if found.skipped else ""


def _unproven(rec: Recording, files: dict[int, int]) -> Iterator[Finding]:
    ranks = [file for file in rec.files if file.role == "rank"]
    worlds = [file.world_size for file in ranks if file.world_size]
    if len(files) >= 2:
        yield _none(rec, "no step of the ranks has a known time")
    elif len(ranks) > 1 and not files:
        yield _none(rec, f"nothing says which rank each of {len(ranks):,} files is of")
    elif not worlds or max(worlds) > 1:
        of = f"1 of {max(worlds):,} ranks" if worlds else "one rank alone"
        yield _none(rec, f"{of} was recorded: whom it waits for the others' traces would show")


def _none(rec: Recording, why: str) -> Finding:
    rows = np.flatnonzero(rec.kernels["family"] == _COMM)
    return Finding(
        id="straggler.unproven",
        question="straggler",
        verdict="unproven",
        claim=f"Whether ranks wait for each other is unproven: {why}",
        where="",
        evidence=(evidence("kernels", rows, f"{len(rows):,} collectives"),),
        advice="Record the same steps on every rank of the node (vLLM's profiler writes one file a rank, rocprofv3 one a "
        "process), and give the folder",
    )
