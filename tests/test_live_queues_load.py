"""A real vLLM under a load that rises and falls: pages of /metrics and the guests' samples both show it, with right counts."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from live_kit import mounted
from live_server import Server, prompt, serving
from live_starts import FLUSHED_S
from metrics_kit import lines, rows

from m3probe.analyzers._queues_series import metrics_of
from m3probe.pipeline import analyze, read

EVERY_S = 0.2
PLACES = 2
"""Requests that the server runs at once."""
TOKENS = 800
"""A pair has to run for seconds: a page of a busy server comes late, and the guests' samples are a second apart."""
WAVES = (2, 10, 1)
"""Requests sent at once: the second wave has 8 more than there are places, the others wait for nothing."""


@dataclass
class Loaded:
    """Where its pages and its recording lie."""

    pages: Path
    recording: Path


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("queues")
    found = Loaded(folder / "pages", folder / "rec")
    found.pages.mkdir()
    env = {"M3PROBE": "1", "M3PROBE_DIR": str(found.recording), "VLLM_CPU_OMP_THREADS_BIND": "0"}
    flags = ["--enforce-eager", "--block-size", "32", "--max-num-seqs", str(PLACES), "--max-model-len", "1024"]
    with serving(folder, tiny_models / "llama", *flags, site=mounted(folder / "site"), **env) as server:
        stop = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(server, found.pages, stop))
        scraper.start()
        time.sleep(3 * EVERY_S)
        for wave in WAVES:
            _send(server, [prompt(20 * wave + n, 24) for n in range(wave)])
        time.sleep(FLUSHED_S)
        stop.set()
        scraper.join()
    yield found


def _send(server: Server, prompts: list[list[int]]) -> None:
    """One request of several prompts: they reach the engine together, however busy the host is."""
    body = {"model": "m", "prompt": prompts, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    request = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert len(json.load(answer)["choices"]) == len(prompts)


def _waiting(pages: Path) -> list[float]:
    """What each page says, read without m3probe; a busy server answers seldom, and not each height of the queue is on one."""
    found = (
        re.search(r"^vllm:num_requests_waiting\{.*\} (\S+)$", p.read_text(), re.MULTILINE) for p in pages.iterdir()
    )
    return [float(one[1]) for one in found if one]


def _scrape(server: Server, folder: Path, stop: threading.Event) -> None:
    """As anybody would: a page a file, the time in its name."""
    while not stop.wait(EVERY_S):
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
            (folder / f"metrics_{time.time():.3f}.prom").write_bytes(answer.read())


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
