"""Each queue in one line: lengths, use and limits as guests, scrapes or pages sampled them, each with its range and trend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from m3probe.analyzers._bench_joined import believed
from m3probe.analyzers._queues_cache import Hits, kv_usage, prefix_hits, recompute_factor, theoretical_of
from m3probe.analyzers._queues_drafts import acceptance_text
from m3probe.analyzers._queues_process import limits_text
from m3probe.analyzers._queues_rows import only_run, outside_s, queue_rows
from m3probe.analyzers._queues_servers import Server, servers_seen
from m3probe.analyzers._queues_shape import Line
from m3probe.analyzers._queues_transfer import transfer_text
from m3probe.analyzers._view import ms, percent
from m3probe.model.bench import little
from m3probe.model.recording import Recording
from m3probe.model.report import QueueRow

_Say = Callable[[Server], str]
MOST_SERVERS = 4
"""Servers that a line speaks of; --json has all."""


def live_queues(rec: Recording) -> dict[str, str]:
    """Queue -> what was measured; queues that nobody sampled are left out."""
    seen = servers_seen(rec)
    rows = queue_rows(rec)
    found = {
        "admission": _each(seen, lambda s: _length(s.waiting, "waiting")),
        "prefill": _requests(rec, "prefill_ns", "prefill") or _little_text(rows, "prefill") or _of_runs(rec, "waiting"),
        "decode": _each(seen, lambda s: _length(s.running, "running")) or _of_runs(rec, "decoding"),
        "kv_transfer": _each(seen, lambda s: transfer_text(rec, s)),
        "kv_capacity": _each(seen, _usage),
        "prefix_cache": _prefix(rec) or _each(seen, lambda s: _scraped_prefix(rec, s)),
        "front_end": _little_text(rows, "front_end"),
        "outside_vllm": _outside(rec, seen),
        "acceptance": acceptance_text(rec),
        "os_limits": limits_text(rec),
    }
    found["admission"] = _joined(found["admission"], _requests(rec, "queued_ns", "queued"), _rates(rows, "admission"))
    found["decode"] = _joined(found["decode"], _rates(rows, "decode"))
    return {name: text for name, text in found.items() if text}


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _each(seen: list[Server], say: _Say) -> str:
    """One server's words, or those of each behind its name."""
    said = [(server.name, text) for server in seen if (text := say(server))]
    if len(seen) < 2:
        return said[0][1] if said else ""
    more = f" | and {len(said) - MOST_SERVERS} more server(s) in --json" if len(said) > MOST_SERVERS else ""
    return " | ".join(f"{name}: {text}" for name, text in said[:MOST_SERVERS]) + more


def _length(part: Line | None, word: str) -> str:
    return part.text(word) if part is not None else ""


def _rates(rows: tuple[QueueRow, ...], queue: str) -> str:
    """Arrivals and service of the only server."""
    own = [row for row in rows if row.queue == queue]
    if len(own) != 1 or own[0].arrivals_per_s is None or own[0].served_per_s is None:
        return ""
    return f"{own[0].arrivals_per_s:,.2f} requests a second came, {own[0].served_per_s:,.2f} left"


def _little_text(rows: tuple[QueueRow, ...], queue: str) -> str:
    """Throughput times time in it (Little's law), of each server."""
    own = [row for row in rows if row.queue == queue and row.length_mean is not None and row.wait_ns is not None]
    parts = [
        (
            row.server,
            f"{row.length_mean or 0:,.2f} requests in it on average (Little's law: {row.served_per_s or 0:,.2f}/s x {ms(row.wait_ns or 0)})",
        )
        for row in own[:MOST_SERVERS]
    ]
    return " | ".join(f"{server}: {text}" if server else text for server, text in parts)


def _of_runs(rec: Recording, state: str) -> str:
    """What the client's own figures say of a run: throughput times time in that state."""
    word = {"waiting": "wait for their first token", "decoding": "decode"}[state]
    said = []
    for run in rec.meta.bench:
        number, of = getattr(little(run), state), run.max_concurrency
        if number is not None and not believed(run):
            said.append(f"{run.name}: its figures contradict each other, so they tell nothing of a queue")
        elif number is not None:
            out_of = f" of {of:,}" if run.closed_loop and of else ""
            said.append(f"{run.name}: {number:,.1f}{out_of} requests {word} (throughput times latency, Little's law)")
    more = f"; and {len(said) - MOST_SERVERS} more run(s)" if len(said) > MOST_SERVERS else ""
    return "; ".join(said[:MOST_SERVERS]) + more


def _usage(server: Server) -> str:
    usage = kv_usage(server.metrics)
    if usage is None:
        return ""
    text = f"at most {usage.most:.1%} of the cache in use"
    preempted = server.metrics.named("num_preemptions")
    if preempted:
        alone = all(len(series.values) == 1 and series.base is None for series in preempted)
        count = sum(series.last if alone else series.increase for series in preempted)
        text += f", {count:,.0f} preemption(s)" + (" since the server's start" if alone else "")
    return text


def _requests(rec: Recording, column: str, word: str) -> str:
    """Median and 95th percentile over finished requests whose time vLLM kept."""
    values = rec.tables["requests"][column]
    values = values[values >= 0] / 1e6
    if not len(values):
        return ""
    low, high = np.percentile(values, (50, 95))
    return f"{word} {low:,.1f} ms (median), {high:,.1f} ms (95 %) over {len(values):,} finished request(s)"


def _prefix(rec: Recording) -> str:
    """The last totals of each engine: achieved, what an infinite cache would have hit, and the gap by cause."""
    table = rec.tables["prefix_caches"]
    if not len(table):
        return ""
    last = [int(np.flatnonzero(table["file"] == file)[-1]) for file in np.unique(table["file"])]
    total = {name: int(table[name][last].clip(min=0).sum()) for name in ("queries", "hits", "infinite_hits")}
    if not total["queries"]:
        return "no prompt token was looked up"
    text = (
        f"hit {total['hits'] / total['queries']:.1%} of {total['queries']:,} prompt tokens; an infinite cache would have hit "
        f"{total['infinite_hits'] / total['queries']:.1%}"
    )
    lost = {
        word: int(table[f"lost_{word}"][last].clip(min=0).sum()) for word in ("rounding", "eviction", "not_computed")
    }
    gap = ", ".join(f"{word.replace('_', ' ')} {tokens:,}" for word, tokens in lost.items() if tokens)
    return f"{text} (lost to {gap} tokens)" if gap else text


def _scraped_prefix(rec: Recording, server: Server) -> str:
    """Hits over queries by counters; what was lost to which cause they do not tell."""
    hits = prefix_hits(server.metrics)
    if hits is None:
        return ""
    if hits.contradictory:
        return f"not known: {hits.hits:,.0f} hits of {hits.queries:,.0f} lookups contradict each other"
    if hits.rate is None:
        return "no prompt token was looked up"
    since = " since the server's start" if hits.since_start else ""
    return f"hit {hits.rate:.1%} of {hits.queries:,.0f} prompt tokens{since}{_endless(rec, hits)}"


def _endless(rec: Recording, hits: Hits) -> str:
    best = theoretical_of(rec)
    factor = recompute_factor(hits.rate, best.rate) if best is not None and hits.rate is not None else None
    if best is None or factor is None:
        return ""
    return f"; an endless cache would have hit {best.rate:.1%} ({factor:,.2f} x the uncached prompt work is done)"


def _outside(rec: Recording, seen: list[Server]) -> str:
    run = only_run(rec)
    if run is None or not run.closed_loop or not believed(run):
        return ""
    law, parts = little(run), [server.inside for server in seen]
    known = [part for part in parts if part is not None]
    said = []
    if known and len(known) == len(parts) and run.max_concurrency:
        most = sum(part.most for part in known)
        said.append(f"the client keeps {run.max_concurrency:,} in flight, vLLM held at most {most:,.0f}")
    elif law.in_flight is not None and run.max_concurrency:
        said.append(f"{law.in_flight:,.1f} of the client's {run.max_concurrency:,} by throughput times latency")
        if law.gap is not None:
            said[0] += f" ({percent(abs(law.gap))} {'fewer' if law.gap < 0 else 'more'})"
    waits = outside_s(seen[0], run) if len(seen) == 1 else None
    if waits is not None:
        said.append(f"client TTFT is {waits * 1e3:,.1f} ms above the server's (means)")
    return "; ".join(said)
