"""``attach --serve`` beside a real vLLM: gauges that a real client reads while the server works, held against its own counters."""

import itertools
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest
from live_kit import not_here
from live_server import Server, prompt
from test_serve import Samples, parsed, value
from tree import ROOT

ITERATIONS = "vllm:iteration_tokens_total_count"
SECONDS = 40
REQUESTS = [(prompt(n, 20 + n), 8) for n in range(16)]


@dataclass
class Watched:
    """Pages as a scraper saw them, one a second, and what ``attach`` and vLLM said."""

    pages: list[Samples] = field(default_factory=list)
    slowest_s: float = 0.0
    steps: float = 0.0
    returned: int = -1
    said: str = ""


@pytest.fixture(scope="module")
def watched(injected: tuple[Server, Path]) -> Watched:
    """One recording with requests in its middle; it is scraped until it ends."""
    if find_spec("hypno") is None:
        not_here("hypno is not installed: pip install '.[inject]'")
    server, folder = injected
    out, found = folder / "served", Watched()
    words = [
        "attach",
        str(server.process.pid),
        "--inject",
        "--seconds",
        str(SECONDS),
        "--out",
        str(out),
        "--serve",
        ":0",
    ]
    env = os.environ | server.env | {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "m3probe", *words, "--json"],
        cwd=ROOT.parent, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            address = address or next(iter(re.findall(r"findings as gauges: (\S+)", line)), "")
            found.said += line
            if "recording into" in line:
                break
        drained = threading.Thread(target=process.stderr.read)
        drained.start()
        _wait_for_files(out)
        before = server.metrics()
        server.load(REQUESTS, at_once=4)
        found.steps = server.metrics()[ITERATIONS] - before[ITERATIONS]
        while process.poll() is None:
            _scrape(address, found)
            time.sleep(1.0)
        assert process.stdout is not None
        process.stdout.read()
        drained.join()
        found.returned = process.returncode
    return found


def _wait_for_files(out: Path) -> None:
    until = time.monotonic() + 60
    while len(list(out.glob("[!h]*.m3p"))) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)


def _scrape(address: str, found: Watched) -> None:
    began = time.monotonic()
    try:
        with urllib.request.urlopen(address, timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return  # the last one may meet the end
    found.slowest_s = max(found.slowest_s, time.monotonic() - began)
    found.pages.append(parsed(text))


def test_the_recording_went_on_and_ended_well(watched: Watched) -> None:
    assert watched.returned == 0, watched.said
    assert len(watched.pages) >= 5
    elapsed = [value(page, "m3probe_recording_seconds") for page in watched.pages]
    assert elapsed == sorted(elapsed)
    # its second comes once a second, also while reports are made; 5.8 s were seen beside five other busy processes
    assert max(b - a for a, b in itertools.pairwise(elapsed)) < 12
    assert watched.slowest_s < 12


def test_steps_are_those_that_vllm_counted(watched: Watched) -> None:
    assert watched.steps >= 8  # 16 requests of 8 tokens, at most 4 at once
    assert value(watched.pages[-1], "m3probe_recording_steps") == watched.steps


def test_every_process_is_recorded(watched: Watched) -> None:
    last = watched.pages[-1]
    assert value(last, "m3probe_processes", state="recorded") == 3
    workers = [
        labels for name, labels in last if name == "m3probe_process_records" and "worker" in dict(labels)["process"]
    ]
    assert len(workers) == 1
    assert last["m3probe_process_records", workers[0]] > 0


def test_findings_come_from_reports_on_what_is_there_so_far(watched: Watched) -> None:
    made = [page.get(("m3probe_reports_made", ()), 0) for page in watched.pages]
    assert made[-1] >= 1, watched.pages[-1]
    last = watched.pages[-1]
    assert value(last, "m3probe_reports_failed") == 0
    assert value(last, "m3probe_report_age_seconds") < SECONDS
    verdicts = {
        dict(labels)["path"]: dict(labels)["verdict"] for name, labels in last if name == "m3probe_path_verdict_info"
    }
    # compiled code hides what ran in it, and nobody watched its capture: nothing may be called executed
    assert verdicts
    assert set(verdicts.values()) & {"executed", "missed"} == set()
    assert sum(n for (name, _), n in last.items() if name == "m3probe_findings") >= 1
