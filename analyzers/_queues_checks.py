"""What must be told of metrics before any of their figures: restarts, times that were never taken, an unknown clock."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._queues_histogram import latest
from m3probe.analyzers._queues_order import servers
from m3probe.analyzers._queues_series import metrics_of
from m3probe.model.recording import Recording
from m3probe.schema.exposition import HISTOGRAM
from m3probe.schema.metric_names import METRICS

SHOWN = 4


def metric_checks(rec: Recording) -> Iterator[tuple[str, str, int]]:
    """(word, text, how often) of each."""
    if not rec.meta.metrics:
        return
    yield from _resets(rec)
    yield from _flat(rec)
    yield from _no_times(rec)


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
