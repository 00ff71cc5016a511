"""KV transfer as a queue of its own: by stage where the server tells, by what is deferred where its connector tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._ledger import texts
from m3probe.analyzers._queues_evidence import of_line
from m3probe.analyzers._queues_histogram import during
from m3probe.analyzers._queues_series import Series
from m3probe.analyzers._queues_servers import Server, servers_seen
from m3probe.analyzers._queues_shape import GROWS, Line
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE

STRANDED = 10.0
"""Times the 99th percentile of a transfer: a request that waits longer waits for nothing that is under way."""
WAITING_STAGES = ("waiting_to_start", "in_progress")
_LOAD = frozenset({"load", "finish"})


@dataclass(frozen=True, slots=True)
class Transfers:
    """Transfers as a connector's own metrics or the guest's hooks saw them.

    Args:
        p99_s: upper bound of the 99th percentile of their time; None where no time was taken.
        payload_bytes: of all; None where nobody tells.
        busy_s: sum of their times.
    """

    count: float
    p99_s: float | None
    payload_bytes: float | None
    busy_s: float | None
    said_by: str
    shown: Evidence


def transfer_findings(rec: Recording) -> Iterator[Finding]:
    """Of each server: stages that grow, and requests that wait for a transfer which never comes."""
    for server in servers_seen(rec):
        moved = transfers_of(rec, server)
        stuck = _stranded(server, moved)
        if stuck is not None:
            yield stuck
        elif (part := _waiting(server)) is not None and part.trend == GROWS:
            yield _grows(server, part, moved)


def transfers_of(rec: Recording, server: Server) -> Transfers | None:
    """By the connector's histograms, else by the guest; None where neither saw one."""
    for name in ("nixl", "mooncake"):
        times, sizes = (during(server.metrics, f"{name}_{what}") for what in ("xfer_time_seconds", "bytes_transferred"))
        if times is not None and times.count > 0:
            high = held.high if (held := times.quantile(0.99)) else None
            payload = sizes.sum if sizes is not None and np.isfinite(sizes.sum) else None
            rows = [int(series.rows[-1]) for series in times.series]
            shown = evidence(times.series[0].table, rows, f"{times.count:,.0f} transfers", count=int(times.count))
            return Transfers(times.count, high, payload, times.sum, f"{name} metrics", shown)
    return _by_guest(rec)


def _by_guest(rec: Recording) -> Transfers | None:
    table = rec.tables["kv_moves"]
    rows = np.array([r for r, way in enumerate(texts(rec, table, "direction")) if way in _LOAD], dtype=np.int64)
    if not len(rows):
        return None
    timed, sized = rows[table["dur_ns"][rows] >= 0], rows[table["payload_bytes"][rows] >= 0]
    durations = table["dur_ns"][timed] / 1e9
    return Transfers(
        count=float(table["count"][rows].clip(min=0).sum()),
        p99_s=float(np.percentile(durations, 99)) if len(durations) else None,
        payload_bytes=float(table["payload_bytes"][sized].sum()) if len(sized) else None,
        busy_s=float(durations.sum()) if len(durations) else None,
        said_by="the guest's hooks",
        shown=evidence("kv_moves", rows, f"{len(rows):,} moves"),
    )


def transfer_text(rec: Recording, server: Server) -> str:
    """The queue's line in the report; empty where nothing of a transfer was seen."""
    parts = []
    deferred = server.deferred
    if deferred is not None:
        parts.append(deferred.text("deferred"))
    parts += [part.text(name.replace("_", " ")) for name, part in server.stages.items() if part.most > 0]
    moved = transfers_of(rec, server)
    if moved is not None:
        parts.append(_moved_text(moved, server.seconds))
    external = sum(s.increase for s in server.metrics.named("prompt_tokens_by_source", source="external_kv_transfer"))
    if external > 0:
        parts.append(f"{external:,.0f} prompt tokens came by transfer")
        if moved is None:
            parts.append(
                "the connector exports no time and no bytes (MoRIIO and LMCache export nothing): record live for its bytes"
            )
    return "; ".join(parts)


def _moved_text(moved: Transfers, seconds: float) -> str:
    said = f"{moved.count:,.0f} transfer(s) by {moved.said_by}"
    if moved.payload_bytes is not None:
        said += f", {moved.payload_bytes / 1e9:,.3f} GB"
        if seconds > 0:
            said += f" ({moved.payload_bytes / seconds / 1e9:,.3f} GB/s over the time seen"
            busy = moved.payload_bytes / moved.busy_s / 1e9 if moved.busy_s else None
            said += f", {busy:,.3f} GB/s while one ran; hold it against the link's peak)" if busy else ")"
    if moved.p99_s is not None:
        said += f", 99 % within {moved.p99_s * 1e3:,.1f} ms"
    return said


def _waiting(server: Server) -> Line | None:
    """Requests that wait for a transfer, the stage with the most; else all that are deferred."""
    stages = [server.stages[name] for name in WAITING_STAGES if name in server.stages and server.stages[name].most > 0]
    if stages:
        return max(stages, key=lambda part: part.most)
    return server.deferred if server.deferred is not None and server.deferred.most > 0 else None


def _grows(server: Server, part: Line, moved: Transfers | None) -> Finding:
    rows = [of_line(part, part.text("waiting for KV")), *([moved.shown] if moved else [])]
    beside = f"; {_moved_text(moved, server.seconds)}" if moved else "; its connector exports nothing of its transfers"
    of = f" of {server.name}" if server.name else ""
    return Finding(
        id=f"queues.kv_transfer.{server.name}" if server.name else "queues.kv_transfer",
        question="queues",
        verdict="grows",
        claim=f"Requests that wait for their KV{of} grow: {part.text('waiting')}{beside}",
        where=server.name,
        evidence=tuple(rows),
        advice="Look at the transfer: queue pairs and send-queue depth in the workers' environment ('SQ full' in the log), links in use, "
        "bytes a request (KV dtype, layers), and whether producer and consumer ratios fit",
        confidence="medium",
    )


def _stranded(server: Server, moved: Transfers | None) -> Finding | None:
    """A wait without an arrival, longer than ten times what 99 % of transfers take."""
    part = _waiting(server)
    if part is None or not part.timed:
        return None
    age_s, floor = _standing(part, server.metrics.named("prompt_tokens_by_source", source="external_kv_transfer"))
    limit = STRANDED * moved.p99_s if moved is not None and moved.p99_s is not None else None
    if limit is None or age_s <= limit or floor < 1 or moved is None:
        return None
    of = f" of {server.name}" if server.name else ""
    return Finding(
        id=f"queues.kv_transfer.stranded.{server.name}" if server.name else "queues.kv_transfer.stranded",
        question="queues",
        verdict="stranded",
        claim=f"{floor:,.0f} or more requests{of} waited {age_s:,.1f} s for their KV and none arrived, {age_s / (limit / STRANDED):,.0f} x "
        f"what 99 % of transfers take ({limit / STRANDED * 1e3:,.1f} ms)",
        where=server.name,
        evidence=(of_line(part, part.text("waiting for KV"), f"below {limit:,.1f} s"), moved.shown),
        advice="They are stranded in the connector: look for lost acknowledgements, failed or expired transfers, and a producer that "
        "freed its blocks; a decode worker's speed does not matter to them",
        confidence="medium",
    )


def _standing(part: Line, arrived: list[Series]) -> tuple[float, float]:
    """(seconds, requests): the longest span in which some waited all the time and no token arrived."""
    came = sorted(int(series.at_ns[i]) for series in arrived for i in np.flatnonzero(np.diff(series.values) != 0) + 1)
    best, start, least, seen = (0.0, 0.0), NONE, 0.0, 0
    for at, value in zip(part.at_ns.tolist(), part.values.tolist(), strict=True):
        arrivals = int(np.searchsorted(came, at, side="right"))
        if value < 1:
            start = NONE
        elif start == NONE or arrivals != seen:
            start, least = at, value
        else:
            least = min(least, value)
            best = max(best, ((at - start) / 1e9, least))
        seen = arrivals
    return best
