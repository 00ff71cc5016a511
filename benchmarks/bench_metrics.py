#!/usr/bin/env python3
"""Pages of /metrics: makes a folder of them from a real one, and measures how long the report on it takes.

    bench_metrics.py make PAGE OUT [--pages 10000] [--seconds 1]   # a load that rises and falls
    bench_metrics.py run FOLDER                                    # CPU seconds and peak memory of `m3probe analyze`

Counters grow by a fixed step a page, gauges follow a triangle; `make` prints what a right reader must find.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

START_S = 1_764_000_000
PEAK = 96
"""Requests that wait at the top of the triangle."""
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$")
_GROWS = ("_total", "_bucket", "_sum", "_count")


def make(page: Path, out: Path, pages: int, every_s: float) -> dict[str, float]:
    """Write the folder; the truth about it."""
    out.mkdir(parents=True)
    lines = page.read_text().splitlines()
    found = [(line, _SAMPLE.match(line)) for line in lines]
    size = 0
    for number in range(pages):
        text = "\n".join(line if said is None else _moved(said, number, pages) for line, said in found) + "\n"
        (out / f"metrics_{START_S + number * every_s:.3f}.prom").write_text(text)
        size += len(text)
    return {
        "pages": pages,
        "bytes": size,
        "peak_waiting": PEAK,
        "peak_at_s": (pages // 2) * every_s,
        "growth": 7 * (pages - 1),
    }


def _moved(said: re.Match[str], number: int, pages: int) -> str:
    name, labels, value = said[1], said[2] or "", float(said[3])
    if name == "vllm:num_requests_waiting":
        half = pages // 2
        value = round(PEAK * (number / half if number <= half else max(2 - number / half, 0)))
    elif name.endswith(_GROWS):
        value += 7 * number
    return f"{name}{labels} {value}"


def run(folder: Path) -> dict[str, float]:
    """CPU seconds, wall seconds and peak memory of one report."""
    command = [sys.executable, "-P", "-m", "m3probe", "analyze", "--json", str(folder)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    wall = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.loads(done.stdout)["queues"]["admission"], file=sys.stderr)
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "wall_s": round(wall, 2),
        "peak_mib": used.ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("page", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--pages", type=int, default=10_000)
    making.add_argument("--seconds", type=float, default=1.0)
    running = verbs.add_parser("run")
    running.add_argument("folder", type=Path)
    asked = parser.parse_args()
    told = make(asked.page, asked.out, asked.pages, asked.seconds) if asked.verb == "make" else run(asked.folder)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
