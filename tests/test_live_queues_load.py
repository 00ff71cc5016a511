"""A real vLLM under a load that rises and falls: pages of /metrics and the guests' samples both show it, with right counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from live_load import PLACES, TOKENS, WAVES, Loaded
from metrics_kit import lines, rows

from m3probe.analyzers._queues_series import metrics_of
from m3probe.pipeline import analyze, read


def _waiting(pages: Path) -> list[float]:
    """What each page says, read without m3probe; a busy server answers seldom, and not each height of the queue is on one."""
    found = (
        re.search(r"^vllm:num_requests_waiting\{.*\} (\S+)$", p.read_text(), re.MULTILINE) for p in pages.iterdir()
    )
    return [float(one[1]) for one in found if one]


def test_the_queue_of_the_pages_is_what_they_say(loaded: Loaded) -> None:
    """On a host of two busy cores the API server may answer between the waves alone: then there is no rise to be told."""
    found = analyze([loaded.pages])
    waiting, running = rows(found)["admission"], rows(found)["decode"]
    most = max(_waiting(loaded.pages))
    assert most <= max(WAVES) - PLACES
    trend = "rose_and_fell" if most else "empty"
    assert (waiting.trend, waiting.length_low, waiting.length_most, waiting.length_last) == (trend, 0, most, 0)
    assert (f"rose from 0 to {most:.0f}" in lines(found)["admission"]) is bool(most)
    assert running.length_last == 0


def test_pages_count_every_request_and_token(loaded: Loaded) -> None:
    metrics = metrics_of(read([loaded.pages]))
    total = sum(WAVES)
    assert sum(s.increase for s in metrics.named("request_success")) == total
    assert sum(s.increase for s in metrics.named("generation_tokens")) == total * TOKENS
    assert sum(s.increase for s in metrics.named("time_to_first_token_seconds", "count")) == total


def test_what_waited_longest_waited_for_the_others_to_end(loaded: Loaded) -> None:
    """Five pairs one after another: the mean wait is two pairs' time, as a wave of ten in two places must have it."""
    row = rows(analyze([loaded.pages]))
    assert row["admission"].wait_ns is not None and row["decode"].wait_ns is not None
    # of 13 requests: 5 wait for nothing (2 + 2 + 1), 8 for 1, 2, 3 and 4 pairs (two of each): 20 pairs of 13
    assert row["admission"].wait_ns / row["decode"].wait_ns == pytest.approx(20 / 13, rel=0.35)


def test_the_recording_shows_the_queue_rise_to_its_eight_and_fall_to_nothing(loaded: Loaded) -> None:
    found = analyze([loaded.recording])
    waiting, running = rows(found)["admission"], rows(found)["decode"]
    said = (waiting.trend, waiting.length_most, waiting.length_last)
    assert said == ("rose_and_fell", max(WAVES) - PLACES, 0)
    assert (running.length_most, running.length_last) == (PLACES, 0)
    assert len(read([loaded.recording]).tables["requests"]) == sum(WAVES)


def test_pages_and_recording_are_read_together(loaded: Loaded) -> None:
    found = analyze([loaded.pages, loaded.recording])
    assert f"waiting 0 to {max(WAVES) - PLACES} requests" in lines(found)["admission"]
