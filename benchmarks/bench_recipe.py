"""What judging a configuration costs: CPU seconds and peak memory of whole processes, and how many rules were read.

    python benchmarks/bench_recipe.py [--trees DIR] [--runs N]

``DIR`` holds source trees by release (``DIR/0.33.0/vllm``), as unpacked wheels do; without it only bundled tables are
measured. Prints Markdown; benchmarks/RESULTS.md holds it with date and machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "samples" / "recipes" / "m3-mxfp8-gated.sh"
TRACE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
RELEASES = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
MAIN = "import sys; from m3probe.cli import main; sys.exit(main())"


def measured(words: Sequence[str]) -> tuple[float, float, bytes]:
    """(CPU s, peak RSS in MiB, stdout) of one m3probe process."""
    child = subprocess.Popen([sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, cwd=ROOT.anchor)
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"m3probe {' '.join(words)} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said


def row(name: str, words: Sequence[str], runs: int, said: str = "") -> str:
    """A table row: median with smallest and largest."""
    found = [measured(words)[:2] for _ in range(runs)]
    cpu, peak = ([each[i] for each in found] for i in (0, 1))
    seconds = f"{statistics.median(cpu):.2f} ({min(cpu):.2f}-{max(cpu):.2f})"
    return f"| {name} | {seconds} | {statistics.median(peak):.0f} | {said} |"


def rules(words: Sequence[str]) -> str:
    """``39 of 39 rules: 25 confirmed, 14 absent``."""
    build = json.loads(measured([*words, "--json"])[2])["build"]
    lost = f"; lost: {', '.join(build['lost'])}" if build["lost"] else ""
    counts = build["counts"]
    return f"{sum(counts.values())} rules: {', '.join(f'{n} {word}' for word, n in sorted(counts.items()))}{lost}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print("| what | CPU s | peak RSS MiB | rules |")
    print("| --- | ---: | ---: | --- |")
    recipe = ["recipe", "--concurrency", "128", str(RECIPE)]
    for release in RELEASES:
        table = [*recipe, "--vllm", release]
        print(row(f"recipe, bundled rules of {release}", table, args.runs, rules(table)))
        if args.trees:
            tree = [*recipe, "--vllm-path", str(args.trees / release)]
            print(row(f"recipe, rules read from the tree of {release}", tree, args.runs, rules(tree)))
    analyze = ["analyze", "--json", str(TRACE)]
    print(row("analyze, bundled sample", analyze, args.runs))
    told = ["--recipe", str(RECIPE), "--vllm", "0.33.0", "--gpu", "mi355x"]
    print(row("analyze --recipe, bundled sample", [*analyze, *told], args.runs))


if __name__ == "__main__":
    main()
