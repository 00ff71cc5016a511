"""What must be told of metrics before any of their figures: restarts, times that were never taken, an unknown clock."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._queues_cache import prefix_hits
from m3probe.analyzers._queues_histogram import latest
from m3probe.analyzers._queues_order import servers
from m3probe.analyzers._queues_series import metrics_of
from m3probe.model.recording import Recording
from m3probe.schema.exposition import HISTOGRAM
from m3probe.schema.metric_names import METRICS

SHOWN = 4
_OF_ENGINES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")


def metric_checks(rec: Recording) -> Iterator[tuple[str, str, int]]:
    """(word, text, how often) of each."""
    yield from _contradictions(rec)
    if not rec.meta.metrics:
        return
    yield from _left_out(rec)
    yield from _gone(rec)
    yield from _resets(rec)
    yield from _flat(rec)
    yield from _no_times(rec)


def _of(server: str) -> str:
    return f" of {server}" if server else ""


def _contradictions(rec: Recording) -> Iterator[tuple[str, str, int]]:
    """Figures that cannot be: they are not known, in whatever uses them."""
    held = metrics_of(rec)
    for (word, server), why in held.impossible.items():
        yield "metric_contradicts", f"{word}{_of(server)}: {why} cannot be; not known", 1
    for server in held.servers:
        hits = prefix_hits(held.of(server))
        if hits is not None and hits.contradictory:
            text = f"prefix cache{_of(server)}: more hits than lookups ({hits.hits:,.0f} of {hits.queries:,.0f}); not known"
            yield "metric_contradicts", text, 1


def _left_out(rec: Recording) -> Iterator[tuple[str, str, int]]:
    for (word, server), count in metrics_of(rec).left_out.items():
        yield "no_number", f"{word}{_of(server)}: {count:,} value(s) that are no number or infinite are left out", count


def _gone(rec: Recording) -> Iterator[tuple[str, str, int]]:
    """Engines that later pages no longer have, while they still have others."""
    held = metrics_of(rec)
    for server in held.servers:
        last: dict[str, int] = {}
        for word in _OF_ENGINES:
            for series in held.named(word):
                if series.server == server and len(series.places):
                    last[series.engine] = max(last.get(series.engine, 0), int(series.places[-1]))
        newest = max(last.values(), default=0)
        for engine, place in sorted(last.items()):
            if place < newest:
                text = (
                    f"engine {engine or '?'}{_of(server)} is missing from the last {newest - place:,} page(s): not known there, "
                    "and sums over engines end before them"
                )
                yield "engine_gone", text, 1


def _resets(rec: Recording) -> Iterator[tuple[str, str, int]]:
    held = metrics_of(rec)
    found = {
        (series.server, series.engine): series.resets
        for word in ("generation_tokens", "prompt_tokens", "request_success")
        for series in held.named(word)
        if series.resets and series.table == "metrics"
    }
    if found:
        names = [f"engine {engine or '?'}{f' of {server}' if server else ''}" for server, engine in found]
        shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        text = f"counter reset: engine restarted ({shown}); the delta is a lower bound"
        yield "counter_reset", text, sum(found.values())


def _flat(rec: Recording) -> Iterator[tuple[str, str, int]]:
    held = metrics_of(rec)
    for server in held.servers:
        own = held.of(server)
        for metric in METRICS:
            found = latest(own, metric.word) if metric.kind == HISTOGRAM else None
            if found is not None and not found.credible:
                of = f" of {server}" if server else ""
                text = f"{metric.word}{of}: all observations in the lowest bucket and sum 0; value not credible"
                yield "flat_histogram", text, 1


def _no_times(rec: Recording) -> Iterator[tuple[str, str, int]]:
    for pages in servers(rec):
        if len(pages.rows) > 1 and not pages.timed:
            of = f" of {pages.name}" if pages.name else ""
            text = (
                f"{len(pages.rows):,} pages{of} have an order and no times (none in their names or lines, and the files were "
                "written at once): increases, and no rate"
            )
            yield "pages_without_times", text, 1
