"""Tokens per second of one server: ledger, armed, and under vLLM's own torch profiler (without stacks), in paired alternating runs.

    python benchmarks/bench_overhead.py VLLM_PYTHON [--rounds N] [--off]

A tiny MoE at TP2 on the CPU, one server for all runs, so that the machine, the model and the caches are the same: each
round serves the same requests in each state, in an order that turns from round to round. ``--off`` starts a second server
with M3PROBE=0 and alternates between the two. Prints medians, spread and the paired ratio to ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

REQUESTS, TOKENS, PROMPT = 48, 48, 32


def tokens_per_s(server) -> float:
    """Output tokens per second of one batch of requests, eight at a time."""
    from live_server import prompt

    load = [(prompt(n % 100, PROMPT), TOKENS) for n in range(REQUESTS)]
    started = time.perf_counter()
    server.load(load)
    return REQUESTS * TOKENS / (time.perf_counter() - started)


def armed(server, folder: Path) -> float:
    from m3probe.schema import control

    answers = server.tell(control.Arm(folder=str(folder), owner="bench_overhead"))
    refused = [a.text for a in answers if isinstance(a, control.Refused)]
    if refused or not answers:
        raise SystemExit(f"not armed: {refused or 'no guest answers'}")
    try:
        return tokens_per_s(server)
    finally:
        server.tell(control.Disarm(owner="bench_overhead"))


def profiled(server) -> float:
    post(server, "start_profile")
    try:
        return tokens_per_s(server)
    finally:
        post(server, "stop_profile")


def post(server, verb: str) -> None:
    request = urllib.request.Request(f"{server.url}/{verb}", b"", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=600):
            pass
    except OSError as error:
        raise SystemExit(f"{verb}: {error}\n{server.log.read_text(errors='replace')[-3000:]}") from error


def measure(rounds: int, python: str, with_off: bool) -> dict[str, list[float]]:
    os.environ["M3PROBE_VLLM_PYTHON"] = python
    from live_kit import mounted
    from live_server import models, serving

    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="m3probe-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        model, site = models(folder / "models") / "qwen3moe", mounted(folder / "site")
        # without stacks: with them (vLLM's default) a stop_profile after 290 steps ran for minutes, or answered 500
        options = {
            "profiler": "torch",
            "torch_profiler_dir": str(folder / "traces"),
            "torch_profiler_with_stack": False,
        }
        profiler = json.dumps(options)
        cores = os.cpu_count() or 1
        env = {"VLLM_CPU_OMP_THREADS_BIND": "0|1" if cores > 1 else "0|0"}
        flags = ["--enforce-eager", "-tp", "2", "--profiler-config", profiler, "--no-enable-prefix-caching"]
        server = stack.enter_context(serving(folder / "on", model, *flags, site=site, **env))
        states = {
            "ledger": lambda _n: tokens_per_s(server),
            "armed": lambda n: armed(server, folder / f"rec-{n}"),
            "profiler": lambda _n: profiled(server),
        }
        if with_off:
            off = stack.enter_context(serving(folder / "off", model, *flags, site=site, M3PROBE="0", **env))
            states["off"] = lambda _n: tokens_per_s(off)
            tokens_per_s(off)
        tokens_per_s(server)  # warm
        names = list(states)
        for turn in range(rounds):
            for state in names[turn % len(names) :] + names[: turn % len(names)]:
                found.setdefault(state, []).append(states[state](turn))
                print(f"round {turn + 1} {state}: {found[state][-1]:.0f} tokens/s", file=sys.stderr)
    return found


def table(found: dict[str, list[float]]) -> str:
    lines = [
        "| state | tokens/s median | spread (min-max) | paired ratio to ledger, median (min-max) |",
        "|---|---|---|---|",
    ]
    for state, values in found.items():
        ratio = [value / base for value, base in zip(values, found["ledger"], strict=True)]
        lines.append(
            f"| {state} | {statistics.median(values):.0f} | {min(values):.0f}-{max(values):.0f} "
            f"| {statistics.median(ratio):.3f} ({min(ratio):.3f}-{max(ratio):.3f}) |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="python of an environment with vLLM (.ci/vllm-cpu makes one)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--off", action="store_true", help="a second server with M3PROBE=0 beside the first")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a stopped benchmark leaves no server behind
    print(table(measure(given.rounds, given.python, given.off)))


if __name__ == "__main__":
    main()
