"""Laws that figures of a server must keep: Little's, and that no prefix cache hits more than an endless one."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._queues_cache import impossible, prefix_hits, theoretical_of
from m3probe.analyzers._queues_evidence import RUNS, of_counters, of_line, of_run, of_took
from m3probe.analyzers._queues_servers import Server, Took, servers_seen
from m3probe.analyzers._queues_shape import Line
from m3probe.analyzers._view import percent
from m3probe.model.bench import LITTLE_TOLERANCE
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording

LEAST_SAMPLES, LEAST_REQUESTS = 20, 50
"""Fewer of either, and sampling alone moves the mean by more than the tolerance."""
LEAST_LENGTH = 2.0
"""Requests below which a tenth is less than a sample can show."""
STEADY = 0.05
"""Share of the requests by which the number inside may change between first and last sample: the law is of a steady state."""


def law_findings(rec: Recording) -> Iterator[Finding]:
    """Queues whose sampled length and whose time in them do not fit, in a steady state; and a hit rate that cannot be."""
    for server in servers_seen(rec):
        took = server.took
        yield from _differs(server, "admission", server.waiting, [took.get("queue")])
        yield from _differs(server, "decode", server.running, [took.get("prefill"), took.get("decode")])
    yield from _beyond_endless(rec)


def _beyond_endless(rec: Recording) -> Iterator[Finding]:
    """A hit rate above what a run says of an endless cache; guests count both over the same lookups."""
    seen, best = servers_seen(rec), theoretical_of(rec)
    hits = prefix_hits(seen[0].metrics) if len(seen) == 1 else None
    if best is None or best.table != RUNS or hits is None or hits.rate is None or not impossible(hits.rate, best.rate):
        return
    since = " since the server's start" if hits.since_start else ""
    yield Finding(
        id="queues.endless_cache",
        question="queues",
        verdict="differs",
        claim=f"The prefix cache hits {percent(hits.rate)}{since}, and an endless one would hit {percent(best.rate)} (by {best.said_by}): "
        "no cache hits more than an endless one, so that the two are not of the same prompts, and no recompute factor holds",
        where=seen[0].name,
        evidence=(
            of_counters(
                hits.series, f"{hits.hits:,.0f} of {hits.queries:,.0f} tokens hit", f"{best.rate:.1%} or fewer"
            ),
            of_run(best.row, f"{best.rate:.1%} in an endless cache"),
        ),
        advice="Count hits over the run alone (a page before it and one after it), at the same block size, and see who else sends "
        "requests",
        confidence="high" if not hits.since_start else "medium",
    )


def _differs(server: Server, queue: str, part: Line | None, times: list[Took | None]) -> Iterator[Finding]:
    known = [took for took in times if took is not None and not took.since_start]
    rate, done = server.rate, server.completed
    if part is None or len(known) < len(times) or rate is None or done is None or done < LEAST_REQUESTS:
        return
    inside = server.inside
    unsteady = inside is None or abs(inside.change) > STEADY * done
    if unsteady or len(part.values) < LEAST_SAMPLES:
        return
    wait_s = sum(took.mean_s for took in known)
    expected, sampled = rate * wait_s, part.mean
    most = max(expected, sampled)
    if most < LEAST_LENGTH or abs(expected - sampled) <= LITTLE_TOLERANCE * most:
        return
    yield Finding(
        id=f"queues.little.{queue}.{server.name}" if server.name else f"queues.little.{queue}",
        question="queues",
        verdict="differs",
        claim=f"{queue}: {sampled:,.1f} requests were sampled in it on average, and {rate:,.2f} requests/s x {wait_s * 1e3:,.1f} ms are "
        f"{expected:,.1f}: {percent(abs(expected - sampled) / most)} apart",
        where=server.name,
        evidence=(
            of_line(part, f"mean {sampled:,.2f}", f"{expected:,.2f}"),
            *(of_took(took, "mean time in it") for took in known),
        ),
        advice="The samples and the finished requests are not of the same load: bursts between scrapes, requests that never finished, "
        "or another server behind the address; scrape more often before believing either",
        confidence="medium",
    )
