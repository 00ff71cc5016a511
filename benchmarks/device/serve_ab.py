"""Serves one model in several configurations, loads each alike, and keeps what ``m3probe compare`` asks for.

    python benchmarks/device/serve_ab.py --model FOLDER --out DIR [--variant NAME ...]

For each variant: ``vllm bench serve`` (random tokens) at each concurrency with repeats, then a recording by
``m3probe attach`` under load with a short profiler window. A variant's folder holds ``server.log``, ``serve.sh`` (the
command, for ``--recipe``), ``bench_*.json`` and ``recording/``. Needs vLLM and m3probe in one environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

REUSE = {"use_index_cache": True, "index_topk_freq": 3}
VARIANTS: dict[str, list[str]] = {
    "graphs": [],
    "flat": ["--hf-overrides", json.dumps(REUSE)],
    "nested": ["--hf-overrides", json.dumps({"text_config": REUSE})],
    "eager": ["--enforce-eager"],
}
"""Index reuse in the form that reaches nothing, and in the one that does (vLLM recipes PR 621)."""
GRAPHS = ["--compilation-config", json.dumps({"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]})]
PORT = 8766


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variant", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=4000)
    parser.add_argument("--answer", type=int, default=128)
    parser.add_argument("--prompts", type=int, default=4, help="requests of a run, times its concurrency")
    given = parser.parse_args()
    for name in given.variant:
        measured(given, name)


def measured(given: argparse.Namespace, name: str) -> None:
    folder = given.out / name
    folder.mkdir(parents=True, exist_ok=True)
    command = served(VARIANTS[name])
    (folder / "serve.sh").write_text(f"#!/bin/sh\n{shlex.join(['vllm', 'serve', str(given.model), *command])}\n")
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(given.model), *command]
    started = time.perf_counter()
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    try:
        ready(server, 420)
        print(json.dumps({"variant": name, "ready_s": round(time.perf_counter() - started, 1)}), flush=True)
        loaded(given, folder, warm=True)
        loaded(given, folder)
        recorded(given, folder)
    finally:
        server.terminate()
        try:
            server.wait(40)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def served(more: list[str]) -> list[str]:
    """The same for every variant, but for ``more``; no prefix cache: repeats would hit what the run before has left."""
    same = ["--load-format", "dummy", "--port", str(PORT), "--block-size", "128", "--max-model-len", "8192"]
    same += ["--max-num-batched-tokens", "8192", "--num-gpu-blocks-override", "3000", "--gpu-memory-utilization", "0.6"]
    same += ["--no-enable-prefix-caching"]
    return [*same, *([] if "--enforce-eager" in more else GRAPHS), *more]


def ready(server: subprocess.Popen, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}: see server.log")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise SystemExit(f"the server was not ready after {seconds:.0f} s: see server.log")


CLIENT = """
import json, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
for words in json.load(sys.stdin):
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    main(parser.parse_args(words))
"""
"""``vllm bench serve`` several times in one process: its imports take longer than a run."""


def points(given: argparse.Namespace, folder: Path, *, warm: bool) -> list[list[str]]:
    found = []
    for repeat in range(1 if warm else given.repeats):
        for concurrency in given.concurrency:
            words = ["--backend", "openai", "--base-url", f"http://127.0.0.1:{PORT}", "--model", str(given.model)]
            words += ["--dataset-name", "random", "--random-input-len", str(given.prompt), "--ignore-eos"]
            words += ["--random-output-len", str(8 if warm else given.answer), "--max-concurrency", str(concurrency)]
            words += [
                "--num-prompts",
                str(concurrency * (1 if warm else max(given.prompts, 12 // concurrency))),
                "--disable-tqdm",
            ]
            words += ["--seed", str(1000 * repeat + concurrency), "--percentile-metrics", "ttft,tpot,itl,e2el"]
            name = f"bench_c{concurrency}_r{repeat}.json"
            words += (
                []
                if warm
                else ["--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename", name]
            )
            found.append(words)
    return found


def loaded(given: argparse.Namespace, folder: Path, *, warm: bool = False) -> None:
    runs = json.dumps(points(given, folder, warm=warm))
    with (folder / ("warm.txt" if warm else "bench.txt")).open("wb") as said:
        subprocess.run(
            [sys.executable, "-c", CLIENT], input=runs.encode(), stdout=said, stderr=said, check=True, timeout=400
        )


def recorded(given: argparse.Namespace, folder: Path) -> None:
    """A recording while eight requests decode."""
    words = points(given, folder, warm=False)[1 if len(given.concurrency) > 1 else 0]
    words = [*words[: words.index("--save-result")], "--num-prompts", "256"]
    with (folder / "load.txt").open("wb") as said:
        load = subprocess.Popen([sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=said, stderr=said)
    load.stdin.write(json.dumps([words]).encode())
    load.stdin.close()
    try:
        time.sleep(20)
        command = [sys.executable, "-m", "m3probe", "attach", "auto", "--steps", "150", "--profile-steps", "12"]
        done = subprocess.run(
            [*command, "--no-progress", "--out", str(folder / "recording")],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        (folder / "attach.txt").write_text(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        print(json.dumps({"variant": folder.name, "attach": done.returncode}), flush=True)
    finally:
        load.terminate()
        load.wait()


if __name__ == "__main__":
    main()
