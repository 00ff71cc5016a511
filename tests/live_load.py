"""A real vLLM under a load that rises and falls, scraped, recorded and looked at meanwhile; stopped, and started again."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from live_kit import mounted
from live_server import Server, begin, prompt, serving, wait_until_up
from live_starts import FLUSHED_S
from viewing_kit import never, nobody

from m3probe.model.view import View
from m3probe.viewing.live import UrlFeed

EVERY_S = 0.2
PLACES = 2
"""Requests that the server runs at once."""
TOKENS = 800
"""A pair has to run for seconds: a page of a busy server comes late, and the guests' samples are a second apart."""
WAVES = (2, 10, 1)
"""Requests sent at once: the second wave has 8 more than there are places, the others wait for nothing."""
FLAGS = ["--enforce-eager", "--block-size", "32", "--max-num-seqs", str(PLACES), "--max-model-len", "1024"]
BEHIND = 15
"""Niceness: nine tenths and more of a core are for others where they want them."""
DOWN_S, AGAIN_S = 4.0, 5.0
IDLE, BUSY, AFTER, DOWN, AGAIN = "idle", "busy", "after", "down", "again"


@dataclass
class Loaded:
    """Where its pages and its recording lie, and what a viewer was shown while each of five things went on."""

    pages: Path
    recording: Path
    views: dict[str, list[View]] = field(
        default_factory=lambda: {name: [] for name in (IDLE, BUSY, AFTER, DOWN, AGAIN)}
    )


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Loaded:
    """Three waves of requests; then the server ends, and another one comes up on its address."""
    folder = tmp_path_factory.mktemp("queues")
    found = Loaded(folder / "pages", folder / "rec")
    found.pages.mkdir()
    threads = {"VLLM_CPU_OMP_THREADS_BIND": "0"}
    env = {"M3PROBE": "1", "M3PROBE_DIR": str(found.recording)} | threads
    with serving(folder, tiny_models / "llama", *FLAGS, site=mounted(folder / "site"), **env) as server:
        _give_way(server)
        feed = UrlFeed(server.url)
        _watch(found, feed, IDLE, 2.5)
        with _scraped(server, found.pages), _watched(found, feed):
            time.sleep(3 * EVERY_S)
            for wave in WAVES:
                _send(server, [prompt(20 * wave + n, 24) for n in range(wave)])
            time.sleep(FLUSHED_S)
        _watch(found, feed, AFTER, 2.5)
    _watch(found, feed, DOWN, DOWN_S)
    port = str(server.port)
    again = replace(begin(folder / "again", tiny_models / "llama", *FLAGS, "--port", port, **threads), port=server.port)
    try:
        wait_until_up(again)
        feed.retry()
        again.complete(prompt(1, 24), 30)
        _watch(found, feed, AGAIN, AGAIN_S)
    finally:
        again.stop()
        feed.close()
    return found


def _give_way(server: Server) -> None:
    """Engine and worker after the API server: on two busy cores nobody was answered, nor ran, while they computed."""
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with suppress(OSError):
            pid = int(task.parts[2])
            if pid != server.process.pid and os.getpgid(pid) == server.process.pid:
                os.setpriority(os.PRIO_PROCESS, int(task.name), BEHIND)


def _send(server: Server, prompts: list[list[int]]) -> None:
    """One request of several prompts: they reach the engine together, however busy the host is."""
    body = {"model": "m", "prompt": prompts, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    request = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert len(json.load(answer)["choices"]) == len(prompts)


@contextmanager
def _scraped(server: Server, folder: Path) -> Iterator[None]:
    """As anybody would: a page a file, the time in its name."""
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(EVERY_S):
            with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
                (folder / f"metrics_{time.time():.3f}.prom").write_bytes(answer.read())

    with _beside(scrape, stop):
        yield


@contextmanager
def _watched(found: Loaded, feed: UrlFeed) -> Iterator[None]:
    """A viewer's polls while the load runs."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            _watch(found, feed, BUSY, 0.1)

    with _beside(watch, stop):
        yield


@contextmanager
def _beside(work: object, stop: threading.Event) -> Iterator[None]:
    assert callable(work)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch(found: Loaded, feed: UrlFeed, name: str, for_s: float) -> None:
    """Poll as the app does."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        found.views[name].append(feed.poll(nobody, never))
        time.sleep(found.views[name][-1].next_poll_s or 0.0)
