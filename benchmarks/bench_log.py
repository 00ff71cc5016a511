"""A server's log of any size: how long it takes to read, and how much memory.

    python benchmarks/bench_log.py [MB] [--kind access|requests|mixed]

Needs m3probe installed. The log is made of the lines of a server at work: access lines, logged requests, statistics.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

from m3probe.sources import open_recording

START = (
    "(APIServer pid=1) INFO 11-30 09:07:58 [utils.py:261] non-default args: {'model': 'm'}\n"
    "(EngineCore_DP0 pid=2) INFO 11-30 09:08:40 [core.py:344] init engine (profile, create kv cache, warmup model) took 6.50 s\n"
    "(APIServer pid=1) INFO:     Application startup complete.\n"
)
ACCESS = '(APIServer pid=1) INFO:     127.0.0.1:38274 - "POST /v1/completions HTTP/1.1" 200 OK\n'
REQUEST = (
    "(APIServer pid=1) INFO 11-30 09:{m:02d}:{s:02d} [logger.py:49] Received request cmpl-{n:016x}-0: params: "
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, temperature=1.0, top_p=1.0)\n"
)
STATS = (
    "(APIServer pid=1) INFO 11-30 09:{m:02d}:{s:02d} [loggers.py:273] Engine 000: Avg prompt throughput: 34763.2 tokens/s, "
    "Avg generation throughput: 1545.0 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, "
    "Prefix cache hit rate: 0.0%\n"
)
OTHER = (
    "(EngineCore_DP0 pid=2) INFO 11-30 09:{m:02d}:{s:02d} [some_file.py:12] a line that states nothing at all, {n}\n"
)


def block(kind: str, number: int) -> str:
    """About 100 kB of lines."""
    minute, second = number // 60 % 60, number % 60
    lines = []
    for n in range(400):
        if kind != "requests":
            lines.append(ACCESS)
        if kind != "access":
            lines.append(REQUEST.format(m=minute, s=second, n=n))
        if kind == "mixed" and n % 4 == 0:
            lines.append(OTHER.format(m=minute, s=second, n=n))
    lines.append(STATS.format(m=minute, s=second))
    return "".join(lines)


def write(path: Path, size: int, kind: str) -> None:
    """A log of at least this many bytes."""
    with path.open("w") as out:
        out.write(START)
        number = written = 0
        while written < size:
            written += out.write(block(kind, number))
            number += 1


def main() -> None:
    """Make one, read it, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", nargs="?", type=int, default=1000)
    parser.add_argument("--kind", choices=("access", "requests", "mixed"), default="mixed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        write(path, args.megabytes * 1_000_000, args.kind)
        begun, cpu = time.perf_counter(), time.process_time()
        rec = open_recording([path])
        spent, cpu = time.perf_counter() - begun, time.process_time() - cpu
    (log,) = rec.meta.logs
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{args.megabytes:,} MB, {log.counts.lines:,} lines, {log.run.stats:,} of statistics: {spent:.1f} s ({cpu:.1f} s CPU)"
    )
    print(f"{most:.0f} MiB at most")


if __name__ == "__main__":
    main()
