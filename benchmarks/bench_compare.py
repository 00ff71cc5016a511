"""What a comparison costs: `m3probe compare` of two large traces, CPU seconds and peak memory of the whole process.

    python benchmarks/bench_compare.py --work DIR [--target-mb 101] [--runs 3]

Needs m3probe in the interpreter's environment and the sample traces (`M3PROBE_SHARED`, else ../shared). The pairs are
shifted copies of real traces: one step with piecewise graphs against itself, and M3 on an H200, eager against graphs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = Path(os.environ.get("M3PROBE_SHARED") or HERE.parents[1] / "shared") / "traces"
PIECEWISE = TRACES / "tracelens/inference/vllm_prefilldecode_piecewise/graph_execution.json.gz"
H200 = TRACES / "h200-m3"
PAIRS = {
    "a piecewise step and its copy": (PIECEWISE, PIECEWISE),
    "MiniMax M3, eager and graphs": tuple(
        H200 / f"h200-m3-tp4rank-{name}.pt.trace.json.gz" for name in ("eager", "graph")
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--target-mb", type=int, default=101)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    print("| pair, each about", given.target_mb, "MB | CPU s | peak RSS MiB |\n| --- | ---: | ---: |")
    for title, bases in PAIRS.items():
        paths = [
            made(given.work / f"{base.name.split('.')[0]}-{place}.json", base, given.target_mb)
            for place, base in enumerate(bases)
        ]
        spent = [measured(paths) for _ in range(given.runs)]
        print(f"| {title} | {told([cpu for cpu, _ in spent])} | {told([mib for _, mib in spent], 0)} |", flush=True)


def made(out: Path, base: Path, size: int) -> Path:
    if not out.exists():
        subprocess.run(
            [sys.executable, str(HERE / "make_large_trace.py"), str(base), str(out), "--target-mb", str(size)],
            check=True,
        )
    return out


def measured(paths: list[Path]) -> tuple[float, float]:
    """CPU seconds and MiB of one comparison."""
    command = [str(Path(sys.executable).with_name("m3probe")), "compare", *map(str, paths)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=paths[0].parent)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"m3probe compare ended with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def told(values: list[float], digits: int = 2) -> str:
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


if __name__ == "__main__":
    main()
