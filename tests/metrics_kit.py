"""Pages of /metrics written by hand, so that every figure can be worked out beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import QueueRow, QueuesSection, Report
from m3probe.pipeline import report
from m3probe.sources import open_recording

START = 1_764_000_000
"""Wall time in seconds of the first page."""
KINDS = {"num_": "gauge", "kv_cache_usage_perc": "gauge", "process_open": "gauge", "process_max": "gauge"}


def page(values: Mapping[str, float | str]) -> str:
    """One page: ``{"num_requests_running": 3, 'prompt_tokens_total{engine="1"}': 5}``; engine 0 where none is named."""
    lines = []
    for key, value in values.items():
        name, brace, labels = key.partition("{")
        full = name if name.startswith(("process_", "sglang:", "demo_", "vllm:")) else f"vllm:{name}"
        lines.append(f"# TYPE {full} {kind(name)}")
        if brace:
            lines.append(f"{full}{{{labels} {value}")
        else:
            lines.append(f"{full} {value}" if full.startswith("process_") else f'{full}{{engine="0"}} {value}')
    return "\n".join(lines) + "\n"


def kind(name: str) -> str:
    """As ``# TYPE`` would say it."""
    return next((word for start, word in KINDS.items() if name.startswith(start)), "counter")


def histogram(name: str, buckets: Mapping[str, float], total: float, engine: str = "0") -> dict[str, float]:
    """Lines of a histogram; buckets are cumulative, the last is ``+Inf``."""
    found: dict[str, float] = {f'{name}_bucket{{engine="{engine}",le="{le}"}}': count for le, count in buckets.items()}
    return found | {f'{name}_count{{engine="{engine}"}}': buckets["+Inf"], f'{name}_sum{{engine="{engine}"}}': total}


def series(
    folder: Path, pages: Sequence[Mapping[str, float | str]], every_s: float = 1.0, server: str = "metrics"
) -> Path:
    """A folder of pages, the time in the name of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, values in enumerate(pages):
        (folder / f"{server}_{START + number * every_s:.3f}.prom").write_text(page(values))
    return folder


def read(*paths: Path) -> Recording:
    return open_recording(list(paths))


def judged(*paths: Path) -> Report:
    return report(read(*paths))


def lines(found: Report) -> Mapping[str, str]:
    """Queue -> its line."""
    return section(found).queues


def rows(found: Report) -> dict[str, QueueRow]:
    """Queue -> its row, of a single server."""
    return {row.queue: row for row in section(found).queue_rows}


def section(found: Report) -> QueuesSection:
    held = found.answer.section(QueuesSection)
    assert held is not None
    return held


def findings(found: Report) -> dict[str, Finding]:
    """Findings of the queues question by id."""
    return {f.id: f for f in found.answer.findings if f.id.startswith("queues.")}
