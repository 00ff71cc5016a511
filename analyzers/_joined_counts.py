"""Counters of the server beside what a trace, its guests and its clients counted in the same stretch of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

import numpy as np

from m3probe.analyzers._engine import once
from m3probe.analyzers._ledger import of_role
from m3probe.analyzers._wall_counters import FINISHED, STEPS, Counted, counters
from m3probe.model.bench import BenchRun
from m3probe.model.clock import FileClock, Tie
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import PHASES, Phase

QUESTION = "joining"
SLACK_STEPS = 2
"""A step that runs at either scrape may be counted on one side only."""
SLACK_SHARE = 0.02
OTHERS_SHARE = 0.05
WARM_UP = 2
"""Requests that a client sends beside its run: to see whether the server is ready, and to warm it up."""


def missing_steps(rec: Recording, clocks: Sequence[FileClock]) -> Iterator[Finding]:
    """Steps that vLLM counted between two scrapes and a trace, or the guests, do not hold."""
    for counted in counters(rec, clocks, STEPS):
        if counted.engines > 1:
            continue  # a trace holds one engine's steps, and nothing tells which engine's label is its
        yield from _in_traces(rec, clocks, counted)
        yield from _in_guests(rec, clocks, counted)


def _in_traces(rec: Recording, clocks: Sequence[FileClock], counted: Counted) -> Iterator[Finding]:
    table = rec.steps
    working = ~np.isin(
        table["phase"], [PHASES.index(p) for p in (Phase.EMPTY, Phase.WARMUP, Phase.CAPTURE, Phase.DUMMY)]
    )
    chosen = working & once(rec)
    for clock in clocks:
        if clock.offset_ns is None or rec.files[clock.file].role != "rank":
            continue
        rows = np.flatnonzero(chosen & (table["file"] == clock.file))
        if not len(rows):
            continue
        start = table["start_ns"][rows] + clock.offset_ns
        stretch = counted.within(int(start.min()), int(start.max()))
        if stretch is None:
            continue
        first, last, wanted = stretch
        inside = rows[(start > first) & (start <= last)]
        if wanted - len(inside) > _slack(wanted):
            yield _lacks(
                clock, counted, int(wanted), len(inside), last - first, evidence("steps", inside, "in the trace")
            )


def _in_guests(rec: Recording, clocks: Sequence[FileClock], counted: Counted) -> Iterator[Finding]:
    """Guests count by second: steps of a row ran since the row before, so that the bound is the next row's end."""
    table, workers = rec.tables["step_counts"], of_role(rec, "step_counts", "worker")
    working = np.array(
        [rec.strings.find(str(phase)) for phase in (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN)]
    )
    for clock in clocks:
        mine = workers[table["file"][workers] == clock.file]
        mine = mine[np.isin(table["phase"][mine], working)]
        if clock.offset_ns is None or not len(mine):
            continue
        at = table["mono_ns"][mine] + clock.offset_ns
        stretch = counted.within(int(at.min()), int(at.max()))
        if stretch is None:
            continue
        first, last, wanted = stretch
        inside = mine[(at > first) & (at <= _next(at, last))]
        held = int(table["count"][inside].sum())
        if wanted - held > _slack(wanted):
            shown = evidence("step_counts", inside, "counted by the guest", count=held)
            yield _lacks(clock, counted, int(wanted), held, last - first, shown)


def _next(times: Array, at: int) -> int:
    later = times[times >= at]
    return int(later.min()) if len(later) else at


def _slack(wanted: float) -> float:
    return max(SLACK_STEPS, SLACK_SHARE * wanted)


def _lacks(clock: FileClock, counted: Counted, wanted: int, held: int, dur_ns: int, shown: Evidence) -> Finding:
    return Finding(
        id=f"{QUESTION}.steps.{clock.file}",
        question=QUESTION,
        verdict="differs",
        claim=f"/metrics counted {wanted:,} engine steps in {dur_ns / 1e9:,.1f} s that {PurePath(clock.path).name} covers, and it holds {held:,}",
        where=counted.clock.path,
        evidence=(shown,),
        advice="Figures per step hold for the steps that are there. Either steps were lost while it was recorded, or the "
        "scrapes are of another server.",
        confidence=_confidence(clock, counted.clock),
    )


def missing_requests(rec: Recording, clocks: Sequence[FileClock]) -> Iterator[Finding]:
    """Requests that a client got answers to, beside those that the server finished meanwhile."""
    finished = counters(rec, clocks, FINISHED, succeeded=True)
    if len(finished) != 1:
        return  # with several servers each has its part, and a client does not say which
    served = finished[0]
    for run in rec.meta.bench:
        clock = next((c for c in clocks if c.file == run.file), None)
        if run.completed and clock is not None:
            found = _requests(run, clock, served, alone=_alone(rec, run))
            yield from [found] if found else []


def _alone(rec: Recording, run: BenchRun) -> bool:
    """Whether the run's own stretch is known: one run a file, as the file's stretch is that of all its runs."""
    return sum(other.file == run.file for other in rec.meta.bench) == 1


def _requests(run: BenchRun, clock: FileClock, served: Counted, *, alone: bool) -> Finding | None:
    completed = run.completed or 0
    meanwhile = served.between(*clock.span) if clock.span is not None and alone else None
    if meanwhile is None:
        if served.last >= completed:
            return None
        claim = (
            f"{run.name} completed {completed:,} requests, and the server had finished {served.last:,.0f} since its start "
            "when it was last scraped: it was scraped before the run's end, or it is another server"
        )
        return _differs(run, clock, served, claim, "unproven")
    if meanwhile < completed:
        claim = f"{run.name} completed {completed:,} requests, and the server finished {meanwhile:,.0f} in that time"
        return _differs(run, clock, served, claim, "differs")
    if meanwhile > completed + max(WARM_UP, OTHERS_SHARE * completed):
        claim = f"{run.name} completed {completed:,} requests, and the server finished {meanwhile:,.0f} in that time: others sent requests too"
        return _differs(run, clock, served, claim, "differs")
    return None


def _differs(run: BenchRun, clock: FileClock, served: Counted, claim: str, verdict: str) -> Finding:
    return Finding(
        id=f"{QUESTION}.requests.{run.file}.{run.index}",
        question=QUESTION,
        verdict=verdict,
        claim=claim,
        where=served.clock.path,
        evidence=(),
        advice="Scrape the server that the client speaks to (behind a proxy each of its servers), before the run begins and "
        "after it has ended, and let nobody else send requests.",
        confidence=_confidence(clock, served.clock) if verdict == "differs" else "low",
    )


def _confidence(*these: FileClock) -> str:
    return "high" if all(clock.state is Tie.ALIGNED for clock in these) else "medium"
