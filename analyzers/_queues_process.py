"""Limits of the processes on a request's way: the API server's one core, and open file descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._queues_evidence import of_run, of_series
from m3probe.analyzers._queues_rows import front_end_s
from m3probe.analyzers._queues_servers import Server, servers_seen
from m3probe.analyzers._queues_shape import line
from m3probe.analyzers._view import percent
from m3probe.model.findings import Bound, Evidence, Finding, evidence, figure
from m3probe.model.limits import BASE_FDS, PER_REQUEST, descriptors_for
from m3probe.model.recording import Recording
from m3probe.schema.roles import Role

ONE_CORE = 0.85
"""Share of a core from which on Python's one running thread is the limit."""
NEAR = 0.8
"""Share of a limit from which on it counts as reached."""
LATENCY = "request latency"
_FRONT_ROLES = frozenset({str(Role.API), str(Role.HOST)})
"""Processes whose sockets are requests' connections; engines and workers hold none for them."""
_LEAST_S = 5.0
"""Seconds below which CPU time, which the kernel counts in 10 ms, tells no rate."""


@dataclass(frozen=True, slots=True)
class Files:
    """File descriptors of one process: most and fewest seen open, and its soft and hard limit (-1: not told)."""

    who: str
    most: int
    least: int
    soft: int
    hard: int
    shown: Evidence


def process_findings(rec: Recording) -> Iterator[Finding]:
    """Front end and limits."""
    seen = servers_seen(rec)
    for server in seen:
        yield from _front_end(server.name, _by_page(server), server)
    if len(seen) < 2 and not any(_by_page(server) for server in seen):
        yield from _front_end("", _by_guest(rec), seen[0] if seen else None)
    yield from _limits(rec)


def _front_end(name: str, found: tuple[float, Evidence] | None, server: Server | None) -> Iterator[Finding]:
    if found is None or found[0] < ONE_CORE:
        return
    cores, shown = found
    rest, whole = (front_end_s(server), server.took.get("e2e")) if server is not None else (None, None)
    bound = None
    if rest is not None and whole is not None and whole.mean_s > 0:
        formula = "(whole latency - queue - prefill - decode) / whole latency, if the API server took no time"
        worked = f"min({figure(rest, 's')} / {figure(whole.mean_s, 's')}, 1)"
        bound = Bound(0.0, min(rest / whole.mean_s, 1.0), formula, LATENCY, (worked,))
    of = f" of {name}" if name else ""
    beside = f"; a request spends {rest * 1e3:,.1f} ms in it" if rest is not None else ""
    yield Finding(
        id=f"queues.front_end.{name}" if name else "queues.front_end",
        question="queues",
        verdict="front_end",
        claim=f"The API server{of} uses {cores:.2f} cores: one Python thread at a time runs in it, so that it is at its limit{beside}",
        where=name,
        evidence=(shown,),
        advice="--api-server-count N, fewer tokens a stream message, tokenizing at the client; the engine waits for none of it",
        bound=bound,
        confidence="medium",
    )


def _by_page(server: Server) -> tuple[float, Evidence] | None:
    """CPU seconds a second of the process that answers /metrics; None without a time line of some seconds."""
    for series in server.metrics.named("process_cpu_seconds"):
        if series.seconds >= _LEAST_S and not series.resets:
            cores = series.increase / series.seconds
            told = f"{series.increase:,.1f} CPU s in {series.seconds:,.1f} s"
            return cores, of_series(series, told, "below one core")
    return None


def _by_guest(rec: Recording) -> tuple[float, Evidence] | None:
    """The same of the guest in the API server, of the busiest where there are several."""
    table = rec.tables["hosts"]
    rows = np.flatnonzero((table["role"] == rec.strings.find(str(Role.API))) & (table["cpu_ns"] >= 0))
    best: tuple[float, Evidence] | None = None
    for pid in np.unique(table["pid"][rows]).tolist():
        own = rows[table["pid"][rows] == pid]
        span = int(table["mono_ns"][own[-1]] - table["mono_ns"][own[0]])
        if span < _LEAST_S * 1e9:
            continue
        used = int(table["cpu_ns"][own[-1]] - table["cpu_ns"][own[0]])
        if best is None or used / span > best[0]:
            told = f"{used / 1e9:,.1f} CPU s in {span / 1e9:,.1f} s"
            best = (used / span, evidence("hosts", own[[0, -1]], told, "below one core"))
    return best


def _limits(rec: Recording) -> Iterator[Finding]:
    load = _concurrency(rec)
    for files in (*_of_hosts(rec), *_of_pages(rec)):
        base = files.least if files.least >= 0 else BASE_FDS
        needed = descriptors_for(load[0], base) if load else None
        near = files.most > NEAR * files.soft
        if not near and (needed is None or needed <= files.soft):
            continue
        rows = [files.shown, *([load[1]] if load else [])]
        why = (
            f"{load[0]:,} requests at once need about {PER_REQUEST} x {load[0]:,} + {base:,} = {needed:,} file descriptors"
            if load and needed is not None and needed > files.soft
            else f"{files.most:,} file descriptors were open"
        )
        hard = f" (hard limit {files.hard:,})" if files.hard > 0 else ""
        yield Finding(
            id=f"queues.os_limit.nofile.{files.who}",
            question="queues",
            verdict="os_limit",
            claim=f"OS limit: {why}, and {files.who} may open {files.soft:,}{hard}{_errors(rec)}",
            where=files.who,
            evidence=tuple(rows),
            advice="Raise nofile where the container is started (docker --ulimit nofile=1048576:1048576, LimitNOFILE= in systemd), for "
            "server, proxy and client alike: vLLM raises its soft limit up to 65,535 and never above the hard one. Take connection "
            "errors and a flat, idle GPU as this before any kernel",
            confidence="high",
        )
        return  # the tightest process is enough: all are raised alike


def _concurrency(rec: Recording) -> tuple[int, Evidence] | None:
    """What the client kept in flight, else what vLLM held at most."""
    runs = [(run.max_concurrency or 0, place) for place, run in enumerate(rec.meta.bench)]
    most, place = max(runs, default=(0, 0))
    if most:
        return most, of_run(place, f"concurrency {most:,}")
    held = [s for server in servers_seen(rec) for part in (server.running, server.waiting) if part for s in part.series]
    inside = line(held)
    if inside is None or inside.values.max() < 1:
        return None
    top = int(inside.values.max())
    return top, of_series(inside.series[0], f"{top:,} requests inside vLLM at most")


def _of_hosts(rec: Recording) -> Iterator[Files]:
    """The guests' own words, process by process, the tightest first."""
    table = rec.tables["hosts"]
    known = np.flatnonzero((table["fds"] >= 0) & (table["fd_soft"] > 0))
    found = []
    for pid in np.unique(table["pid"][known]).tolist():
        rows = known[table["pid"][known] == pid]
        role = rec.strings[int(table["role"][rows[0]])]
        if role not in _FRONT_ROLES:
            continue
        fds = table["fds"][rows]
        soft, hard = int(table["fd_soft"][rows[-1]]), int(table["fd_hard"][rows[-1]])
        top = int(rows[int(np.argmax(fds))])
        shown = evidence("hosts", [top], f"{int(fds.max()):,} of {soft:,} open")
        found.append(Files(f"{role} (pid {pid})", int(fds.max()), int(fds.min()), soft, hard, shown))
    yield from sorted(found, key=lambda files: files.soft)


def _of_pages(rec: Recording) -> Iterator[Files]:
    for server in servers_seen(rec):
        for limit in server.metrics.named("process_max_fds"):
            opened = [
                part for series in server.metrics.named("process_open_fds") if (part := line([series])) is not None
            ]
            most, least = (int(f(opened[0].values)) if opened else -1 for f in (np.max, np.min))
            soft = int(limit.last) if 0 < limit.last < 2**63 else 0
            if soft:
                shown = of_series(limit, f"{most:,} of {soft:,} open" if opened else f"limit {soft:,}")
                who = f"the API server{f' of {server.name}' if server.name else ''}"
                yield Files(who, most, least, soft, -1, shown)


def _errors(rec: Recording) -> str:
    """What the client was told, where it says so."""
    count = sum(n for run in rec.meta.bench for text, n in run.errors.items() if "too many open files" in text.lower())
    return f"; {count:,} request(s) failed with 'Too many open files'" if count else ""


def limits_text(rec: Recording) -> str:
    """One line: the process nearest to its limit; empty where nobody tells."""
    table = rec.tables["hosts"]
    known = np.flatnonzero((table["fds"] >= 0) & (table["fd_soft"] > 0))
    if len(known):
        share = table["fds"][known] / table["fd_soft"][known]
        row = int(known[int(np.argmax(share))])
        who = f"{rec.strings[int(table['role'][row])]} (pid {table['pid'][row]})"
        most, soft = int(table["fds"][row]), int(table["fd_soft"][row])
        return f"{who} had {most:,} of {soft:,} file descriptors open, the nearest to its limit"
    pages = [files for files in _of_pages(rec) if files.most >= 0]
    if not pages:
        return ""
    files = max(pages, key=lambda each: each.most / each.soft)
    return f"{files.who} had {files.most:,} of {files.soft:,} file descriptors open" + (
        ", the nearest to its limit" if len(pages) > 1 else f" ({percent(files.most / files.soft)})"
    )
