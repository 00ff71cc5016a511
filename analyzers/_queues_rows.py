"""The queues in figures: on the way from the client to the last token, each with its length, growth, arrivals and service."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._bench_joined import apart
from m3probe.analyzers._queues_servers import Server, servers_seen
from m3probe.analyzers._queues_shape import Line
from m3probe.model.bench import BenchRun
from m3probe.model.recording import Recording
from m3probe.model.report import QueueRow

SAMPLED, LITTLE = "sampled", "little"
_ROUNDED = 0.02
"""Share by which the parts of a latency may exceed it: they are taken with two clocks."""


def queue_rows(rec: Recording) -> tuple[QueueRow, ...]:
    """Every queue that something was measured of, server by server, in the order of a request's way."""
    seen = servers_seen(rec)
    run = only_run(rec)
    client = [found for server in seen[:1] if len(seen) == 1 and run for found in _client(server, run)]
    return (*client, *(row for server in seen for row in _of(server)))


def only_run(rec: Recording) -> BenchRun | None:
    """The benchmark run that the metrics are of: the only one, made while they were; of a sweep nobody knows which it is."""
    runs = rec.meta.bench
    return runs[0] if len(runs) == 1 and runs[0].file not in apart(rec) else None


def _of(server: Server) -> Iterator[QueueRow]:
    rate, took = server.rate, server.took
    admitted = _plus(rate, server.running, server.seconds)
    if server.waiting is not None:
        yield _row(
            "admission", server, server.waiting, _plus(admitted, server.waiting, server.seconds), admitted, "queue"
        )
    first = server.first_tokens / server.seconds if server.first_tokens is not None and server.seconds > 0 else None
    if first is not None and "prefill" in took:
        yield _little("prefill", server, first, took["prefill"].mean_s)
    if server.deferred is not None and (server.stages or server.deferred.most > 0):
        yield _row("kv_transfer", server, server.deferred)
    for name, stage in server.stages.items():
        yield _row(f"kv_transfer.{name}", server, stage)
    if server.running is not None:
        yield _row("decode", server, server.running, admitted, rate, "decode")
    rest = front_end_s(server)
    if rest is not None and rate is not None:
        yield _little("front_end", server, rate, rest)


def front_end_s(server: Server) -> float | None:
    """Time of a request in the API server: whole latency less what the engine had it. None where parts are unknown."""
    parts = [part for name in ("e2e", "queue", "prefill", "decode") if (part := server.took.get(name)) is not None]
    counts = [part.count for part in parts]
    if len(parts) < 4 or max(counts) > 1.02 * min(counts):
        return None  # means over other requests do not add up
    whole, *engine = (part.mean_s for part in parts)
    rest = whole - sum(engine)
    return None if rest < -_ROUNDED * whole else max(rest, 0.0)


def _client(server: Server, run: BenchRun) -> Iterator[QueueRow]:
    """Between the client and vLLM: what the client waits for a first token beyond what the server says."""
    outside = outside_s(server, run)
    if outside is not None and run.request_throughput:
        yield _little("client", server, run.request_throughput, outside)


def outside_s(server: Server, run: BenchRun) -> float | None:
    """The client's mean TTFT less the server's, in seconds; below 0 is 0. None where either is not known as a mean."""
    seen = server.took.get("ttft")
    if seen is None or run.ttft.mean_ms is None:
        return None
    return max(run.ttft.mean_ms / 1e3 - seen.mean_s, 0.0)


def _plus(rate: float | None, part: Line | None, seconds: float) -> float | None:
    """What came into a queue: what left it, and what is more in it at the end."""
    if rate is None or part is None or seconds <= 0:
        return None
    return max(rate + part.change / seconds, 0.0)


def _row(
    queue: str,
    server: Server,
    part: Line,
    arrivals: float | None = None,
    served: float | None = None,
    waits: str = "",
) -> QueueRow:
    took = server.took.get(waits)
    return QueueRow(
        queue=queue,
        server=server.name,
        samples=len(part.values),
        length_low=float(part.values.min()),
        length_mean=part.mean,
        length_most=part.most,
        length_last=float(part.values[-1]),
        growth_per_s=part.slope,
        arrivals_per_s=arrivals,
        served_per_s=served,
        wait_ns=None if took is None else round(took.mean_s * 1e9),
        trend=part.trend,
        basis=SAMPLED,
    )


def _little(queue: str, server: Server, rate: float, wait_s: float) -> QueueRow:
    return QueueRow(
        queue=queue,
        server=server.name,
        samples=0,
        length_low=None,
        length_mean=rate * wait_s,
        length_most=None,
        length_last=None,
        growth_per_s=None,
        arrivals_per_s=rate,
        served_per_s=rate,
        wait_ns=round(wait_s * 1e9),
        trend="",
        basis=LITTLE,
    )
