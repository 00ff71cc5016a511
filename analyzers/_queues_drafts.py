"""Speculative decoding as the server counts it: acceptance by position, and what it is worth saying of."""

from __future__ import annotations

from m3probe.analyzers._queues_credible import SLACK
from m3probe.analyzers._queues_rows import only_run
from m3probe.analyzers._queues_series import Metrics, Series
from m3probe.analyzers._queues_servers import servers_seen
from m3probe.model.recording import Recording

_SYNTHETIC = ("random", "sonnet", "synthetic")


def acceptance_text(rec: Recording) -> str:
    """``2.41 tokens a step: 71 %, 45 %, 25 % by position``; empty where nobody drafts."""
    for server in servers_seen(rec):
        drafts, accepted = (_grown(server.metrics, f"spec_decode_num_{what}") for what in ("drafts", "accepted_tokens"))
        if not drafts or accepted is None:
            continue
        by_position = _positions(server.metrics, drafts)
        if accepted < 0 or any(share > 1 + SLACK for share in by_position):
            return f"not known: more draft tokens were accepted at a position than {drafts:,.0f} drafts hold"
        told = f": {', '.join(f'{share:.0%}' for share in by_position)} by position" if by_position else ""
        return f"{1 + accepted / drafts:,.2f} tokens a verified draft{told} ({drafts:,.0f} drafts){_warning(rec)}"
    return ""


def _positions(metrics: Metrics, drafts: float) -> list[float]:
    held = metrics.named("spec_decode_num_accepted_tokens_per_pos")
    grown: dict[int, float] = {}
    for series in held:
        place = series.labels.get("position", "")
        if place.isascii() and place.isdigit() and len(place) < 6:
            grown[int(place)] = grown.get(int(place), 0.0) + _value(series)
    return [grown[place] / drafts for place in sorted(grown)]


def _grown(metrics: Metrics, word: str) -> float | None:
    held = metrics.named(word)
    return sum(_value(series) for series in held) if held else None


def _value(series: Series) -> float:
    """While it was watched; of one page alone since the server's start."""
    return series.last if len(series.values) == 1 and series.base is None else series.increase


def _warning(rec: Recording) -> str:
    """Acceptance is a property of the prompts as much as of the draft model."""
    run = only_run(rec)
    named = str(run.metadata.get("dataset_name", run.metadata.get("dataset", ""))).lower() if run else ""
    if any(word in named for word in _SYNTHETIC):
        return f"; the prompts are {named}: acceptance on real text is another"
    return "; of these prompts alone: other data sets accept otherwise"
