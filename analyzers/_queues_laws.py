"""Little's law inside the server: requests that were sampled in a queue, against throughput times time in it."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._queues_evidence import of_line, of_took
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
    """Queues whose sampled length and whose time in them do not fit, in a steady state."""
    for server in servers_seen(rec):
        took = server.took
        yield from _differs(server, "admission", server.waiting, [took.get("queue")])
        yield from _differs(server, "decode", server.running, [took.get("prefill"), took.get("decode")])


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
