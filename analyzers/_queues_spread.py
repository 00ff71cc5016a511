"""What differs between engines and workers: skewed ranks, cache lookups that nobody restores, prefill beside decode, drafts."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._queues_cache import prefix_hits
from m3probe.analyzers._queues_evidence import of_counters, of_line, of_run
from m3probe.analyzers._queues_rows import only_run
from m3probe.analyzers._queues_series import Series
from m3probe.analyzers._queues_servers import DECODE, PREFILL, Server, servers_seen
from m3probe.analyzers._queues_shape import line
from m3probe.analyzers._view import percent
from m3probe.model.findings import Evidence, Finding
from m3probe.model.recording import Recording

SKEW_HITS = 0.10
"""Hit rates of two engines may differ by so much."""
SKEW_LOAD = 1.5
"""The busiest engine's running requests over their mean."""
_LEAST_TOKENS, _LEAST_RUNNING = 1_000, 4.0


def spread_findings(rec: Recording) -> Iterator[Finding]:
    """Engines of one server against each other; the two sides of a disaggregated deployment; acceptance."""
    for server in servers_seen(rec):
        yield from _rank_hits(server)
        yield from _rank_load(server)
        yield from _lookups(server)
    yield from _sides(rec)
    yield from _gpus(rec)


def _id(word: str, server: Server) -> str:
    return f"queues.{word}.{server.name}" if server.name else f"queues.{word}"


def _rank_hits(server: Server) -> Iterator[Finding]:
    hits = prefix_hits(server.metrics)
    rates = (
        {e: h / q for e, (h, q) in hits.by_engine.items() if q >= _LEAST_TOKENS}
        if hits and hits.rate is not None
        else {}
    )
    if hits is None or len(rates) < 2 or max(rates.values()) - min(rates.values()) <= SKEW_HITS:
        return
    low, high = min(rates, key=lambda e: rates[e]), max(rates, key=lambda e: rates[e])
    yield Finding(
        id=_id("rank_skew.hits", server),
        question="queues",
        verdict="skewed",
        claim=f"Engine {high or '?'} hits {percent(rates[high])} of its prompt tokens, engine {low or '?'} {percent(rates[low])}: sessions are not "
        "routed to the rank that holds their prefix",
        where=server.name,
        evidence=(of_counters(hits.series, ", ".join(f"{e}: {r:.1%}" for e, r in sorted(rates.items()))),),
        advice="Route by session or prefix; a lookup over all ranks raised a prompt hit rate from 82.9 % to 95.5 % elsewhere (ATOM 2184)",
        confidence="medium",
    )


def _rank_load(server: Server) -> Iterator[Finding]:
    by_engine: dict[str, list[Series]] = {}
    for series in server.metrics.named("num_requests_running"):
        by_engine.setdefault(series.engine, []).append(series)
    held = {engine: line(own) for engine, own in by_engine.items()}
    lines = {engine: part for engine, part in held.items() if part is not None}
    means = {engine: part.mean for engine, part in lines.items()}
    mean = sum(means.values()) / len(means) if means else 0.0
    if len(means) < 2 or mean < _LEAST_RUNNING or max(means.values()) <= SKEW_LOAD * mean:
        return
    top = max(means, key=lambda e: means[e])
    yield Finding(
        id=_id("rank_skew.load", server),
        question="queues",
        verdict="skewed",
        claim=f"Engine {top or '?'} runs {means[top]:,.1f} requests where the mean of {len(means)} engines is {mean:,.1f}: with expert "
        "parallelism all ranks wait for it in every step",
        where=server.name,
        evidence=tuple(
            of_line(part, f"engine {e}: {means[e]:,.1f} on average") for e, part in sorted(lines.items())[:8]
        ),
        advice="Balance requests over data-parallel ranks by tokens, not by count",
        confidence="medium",
    )


def _lookups(server: Server) -> Iterator[Finding]:
    """A connector that says it has tokens which then never come: one rank's cache was asked, another's had evicted them."""
    hits = server.metrics.named("external_prefix_cache_hits")
    came = server.metrics.named("prompt_tokens_by_source", source="external_kv_transfer")
    if not hits or not came or server.completed is None:
        return
    promised, arrived = (sum(series.increase for series in held) for held in (hits, came))
    if promised < _LEAST_TOKENS or arrived >= 0.5 * promised:
        return
    yield Finding(
        id=_id("lookup_skew", server),
        question="queues",
        verdict="skewed",
        claim=f"The KV connector promised {promised:,.0f} tokens and {arrived:,.0f} came: a lookup on one rank was answered that "
        "others could not keep",
        where=server.name,
        evidence=(of_counters([*hits, *came], f"{promised:,.0f} hits, {arrived:,.0f} tokens by transfer"),),
        advice="Ask all ranks before a prefix counts as found (ATOM 2175): until then these tokens are computed again",
        confidence="medium",
    )


def _sides(rec: Recording) -> Iterator[Finding]:
    """Both sides' queues in one sentence: which of the two waits."""
    by_role: dict[str, list[Server]] = {PREFILL: [], DECODE: []}
    for server in servers_seen(rec):
        by_role.get(server.role, []).append(server)
    if not by_role[PREFILL] or not by_role[DECODE]:
        return
    lengths = [part.most for held in by_role.values() for s in held for part in (s.waiting, s.running) if part]
    if max(lengths, default=0.0) <= 0:
        return  # pages of two idle servers
    said, rows = [], list[Evidence]()
    for role, held in by_role.items():
        parts = [(word, part) for s in held for word, part in (("waiting", s.waiting), ("running", s.running)) if part]
        said.append(f"{len(held)} {role} server(s): " + "; ".join(part.text(word) for word, part in parts[:4]))
        rows += [of_line(part, f"{role}: {part.text(word)}") for word, part in parts[:4]]
    run = only_run(rec)
    latency = ""
    if run is not None and run.ttft.typical and run.tpot.typical:
        latency = f"; TTFT {run.ttft.typical[0]:,.0f} ms and TPOT {run.tpot.typical[0]:,.2f} ms belong together"
        rows.append(of_run(0, "both latencies"))
    yield Finding(
        id="queues.pd",
        question="queues",
        verdict="measured",
        claim=f"Disaggregated: {' | '.join(said)}{latency}",
        where="",
        evidence=tuple(rows),
        advice="Requests that wait at the prefill side ask for prefill workers; a decode side that is full asks for decode GPUs or a "
        "shorter step. Publish TTFT and TPOT together",
        confidence="high",
    )


def _gpus(rec: Recording) -> Iterator[Finding]:
    """A per-GPU figure is divided by all GPUs of both sides."""
    for place, run in enumerate(rec.meta.bench):
        if run.num_gpus is None or run.prefill_gpus is None or run.decode_gpus is None:
            continue
        total = run.prefill_gpus + run.decode_gpus
        if total == run.num_gpus:
            continue
        yield Finding(
            id=f"queues.gpus.{place}",
            question="queues",
            verdict="differs",
            claim=f"{run.name}: {run.prefill_gpus} prefill + {run.decode_gpus} decode GPUs are {total}, and the run counts {run.num_gpus}: its "
            f"figures per GPU are off by {total / run.num_gpus:.2f}x"
            if run.num_gpus
            else f"{run.name}: it counts no GPU",
            where=run.name,
            evidence=(of_run(place, f"{run.num_gpus} GPUs", f"{total}"),),
            advice="Divide total tokens by all GPUs, output tokens by all GPUs too, or name the side",
        )
