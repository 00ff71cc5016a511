"""KV capacity and the prefix cache as findings: what admission waits for, and what prompts are computed again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._queues_cache import (
    Hits,
    Theoretical,
    Usage,
    block_size,
    kv_capacity_tokens,
    kv_usage,
    prefix_hits,
    recompute_factor,
    theoretical_of,
)
from m3probe.analyzers._queues_evidence import RUNS, of_counters, of_line, of_series
from m3probe.analyzers._queues_servers import Server, servers_seen
from m3probe.analyzers._queues_shape import GROWS, line
from m3probe.analyzers._view import percent
from m3probe.model.findings import Bound, Evidence, Finding, evidence, figure
from m3probe.model.recording import Recording

GAP = 0.02
"""Hit rate below an endless cache's from which on the gap is told."""
FULL, ROOMY = 0.85, 0.70
"""Cache use above which a gap is eviction's, and below which it cannot be."""
KV_BOUND = 0.95
PROMPT_WORK = "prompt tokens computed"
_LOST = ("rounding", "eviction", "not_computed")


def capacity_findings(rec: Recording) -> Iterator[Finding]:
    """Of each server whether admission grows and why; preemptions; the prefix cache's gap."""
    seen = servers_seen(rec)
    for server in seen:
        usage = kv_usage(server.metrics)
        yield from _admission(server, usage)
        yield from _preempted(server, usage)
    best = theoretical_of(rec)
    if len(seen) == 1 and best is not None:
        yield from _prefix(rec, seen[0], best)


def _name(word: str, server: Server) -> str:
    return f"queues.{word}.{server.name}" if server.name else f"queues.{word}"


def _admission(server: Server, usage: Usage | None) -> Iterator[Finding]:
    part = server.waiting
    if part is None or part.trend != GROWS:
        return
    capacity = line(server.metrics.named("num_requests_waiting_by_reason", reason="capacity"))
    deferred = server.deferred
    for_kv = usage is not None and usage.most >= KV_BOUND
    if deferred is not None and capacity is not None and deferred.change > capacity.change:
        why, advice = (
            "requests deferred (KV transfer or another blocked state)",
            "Look at the KV transfer's stages, not at kernels",
        )
    elif for_kv and usage is not None:
        why = f"the KV cache is full ({percent(usage.most)} at most)"
        advice = "Capacity: more GPUs or replicas, a smaller KV dtype, offload, or fewer requests admitted; not a GEMM"
    elif usage is not None:
        why = f"the KV cache is not full ({percent(usage.most)} at most): the token budget or --max-num-seqs"
        advice = "Raise --max-num-batched-tokens or --max-num-seqs while TTFT and TPOT hold, or add replicas"
    else:
        why, advice = "use of the KV cache is not known", "Take a page with kv_cache_usage_perc beside it"
    rows = [of_line(part, part.text("waiting"))]
    rows += [of_series(usage.series, f"{percent(usage.most)} of the KV cache in use at most")] if usage else []
    yield Finding(
        id=_name("admission", server),
        question="queues",
        verdict="grows",
        claim=f"The admission queue{_of(server)} grows: {part.text('waiting')}; it waits for: {why}",
        where=server.name,
        evidence=tuple(rows),
        advice=advice,
        confidence="high" if len(part.values) >= 10 else "medium",
    )


def _of(server: Server) -> str:
    return f" of {server.name}" if server.name else ""


def _preempted(server: Server, usage: Usage | None) -> Iterator[Finding]:
    held = server.metrics.named("num_preemptions")
    if not held or server.completed is None:
        return
    count = sum(series.increase for series in held)
    if count <= 0:
        return
    full = f" with at most {percent(usage.most)} of the KV cache in use" if usage else ""
    yield Finding(
        id=_name("preemptions", server),
        question="queues",
        verdict="kv_capacity",
        claim=f"{count:,.0f} preemption(s){_of(server)} while {server.completed:,.0f} requests finished{full}: their tokens are computed again",
        where=server.name,
        evidence=(of_counters(held, f"{count:,.0f} preemptions", "0"),),
        advice="KV capacity: admit fewer requests at once (--max-num-seqs), a smaller KV dtype, offload, or more GPUs",
    )


def _prefix(rec: Recording, server: Server, best: Theoretical) -> Iterator[Finding]:
    hits, usage = prefix_hits(server.metrics), kv_usage(server.metrics)
    live = _live_hits(rec)
    rate = live[0] if live else hits.rate if hits else None
    factor = recompute_factor(rate, best.rate) if rate is not None else None
    if rate is None or factor is None or best.rate - rate <= GAP:
        return
    verdict, why, advice = _cause(live[1] if live else {}, usage, block_size(server.metrics))
    yield Finding(
        id=_name("prefix_cache", server),
        question="queues",
        verdict=verdict,
        claim=f"The prefix cache hits {percent(rate)} where an endless one would hit {percent(best.rate)}: {factor:,.2f} x the uncached "
        f"prompt work{_used(server, usage)}; {why}",
        where=server.name,
        evidence=tuple(_rows(hits, usage, best, rate)),
        advice=advice,
        bound=Bound(
            0.0,
            1 - 1 / factor,
            "1 - (1 - endless cache's hit rate) / (1 - achieved hit rate), if no prefix were computed again",
            PROMPT_WORK,
            (f"1 - (1 - {figure(best.rate)}) / (1 - {figure(rate)})",),
        ),
        confidence="medium",
    )


def _used(server: Server, usage: Usage | None) -> str:
    if usage is None:
        return ""
    tokens = kv_capacity_tokens(server.metrics)
    of = f", {tokens * usage.most:,.0f} of {tokens:,} tokens" if tokens else ""
    return f" at {percent(usage.most)} cache use{of}"


def _live_hits(rec: Recording) -> tuple[float, dict[str, int]] | None:
    """Achieved rate over the same lookups as the endless cache's, and the tokens that were lost to each cause."""
    table = rec.tables["prefix_caches"]
    last = [int(np.flatnonzero(table["file"] == file)[-1]) for file in np.unique(table["file"])]
    queries = int(table["queries"][last].clip(min=0).sum()) if last else 0
    if not queries:
        return None
    lost = {cause: int(table[f"lost_{cause}"][last].clip(min=0).sum()) for cause in _LOST}
    return int(table["hits"][last].clip(min=0).sum()) / queries, lost


def _cause(lost: dict[str, int], usage: Usage | None, block: int | None) -> tuple[str, str, str]:
    """(verdict, why, advice): by what the guest counted, else by how full the cache was."""
    most = max(lost, key=lambda cause: lost[cause], default="")
    size = f" of {block} tokens" if block else ""
    evicted = (
        "capacity, eviction and admission come before any GEMM: more KV capacity (dtype, offload, GPUs), fewer sessions at once, "
        "or an eviction that keeps shared prefixes"
    )
    aligned = (
        f"Look at block rounding{size}, at what else is hashed (salt, LoRA), and at which rank a session is routed to"
    )
    if lost.get(most):
        told = ", ".join(f"{cause.replace('_', ' ')} {tokens:,}" for cause, tokens in lost.items() if tokens)
        verdict, advice = ("eviction", evicted) if most == "eviction" else ("alignment", aligned)
        if most == "not_computed":
            verdict, advice = (
                "concurrency",
                "Equal prefixes arrive while the first is still computed: stagger them, or send one ahead",
            )
        return verdict, f"lost tokens by cause: {told}", advice[0].upper() + advice[1:]
    if usage is not None and usage.most > FULL:
        return "eviction", "the cache is that full, so eviction takes prefixes away", evicted[0].upper() + evicted[1:]
    if usage is not None and usage.most < ROOMY:
        return "alignment", "the cache has room, so that it is alignment or routing, not eviction", aligned
    return (
        "unproven",
        "cache use does not tell whether eviction or alignment does it",
        ("Record live: the guest counts what was lost to rounding, to eviction, and to prefixes not computed yet"),
    )


def _rows(hits: Hits | None, usage: Usage | None, best: Theoretical, rate: float) -> Iterator[Evidence]:
    if hits is not None:
        yield of_counters(hits.series, f"{hits.hits:,.0f} of {hits.queries:,.0f} tokens hit", f"{best.rate:.1%}")
    told = f"{best.rate:.1%} in an endless cache, by {best.said_by}; {rate:.1%} achieved"
    yield Evidence(best.table, (best.row,), 1, told) if best.table == RUNS else evidence(best.table, [best.row], told)
    if usage is not None:
        yield of_series(usage.series, f"{percent(usage.most)} of the KV cache in use at most")
