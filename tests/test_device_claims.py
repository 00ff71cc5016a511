"""What the probe claimed on an H200 against what the device did: the bundled recordings, compared by benchmarks/device.

MiniMax M3's AMD file in vLLM 0.25.1, 3 dense and 6 sparse layers with the shapes of one TP4 rank. ``graph``: a window of one
decode step of one row, 8 prompts of 3,000 tokens in chunks of 8,192 (3 steps with prompts) and the 9 steps that follow.
``eager``: one decode step of one row, 8 prompts of 250 tokens in one step, and 9 decode steps.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tree import ROOT

GRAPH, EAGER = ROOT / "samples/live-h200-m3-graph", ROOT / "samples/live-h200-m3-eager"
CLAIMS = ROOT / "benchmarks/device/claims.py"
BY_HAND = {
    GRAPH: {
        "sparse decode: 6 layers x 12 steps": 72,
        "sparse prefill: 6 layers x 3 steps": 18,
        "MoE GEMMs: 6 layers x 2 x 13 steps": 156,
        "dense attention: 3 layers x 13 steps": 39,
        "QK-norm, RoPE and KV insert: 9 layers x 13 steps": 117,
        "census x replays: kernels": 10 * 183,
        "moe_backend, Triton fused_moe: captured calls x replays": 6 * 2 * 10,
    },
    EAGER: {
        "sparse decode: 6 layers x 10 steps": 60,
        "sparse prefill: 6 layers x 1 steps": 6,
        "MoE GEMMs: 6 layers x 2 x 11 steps": 132,
        "router_gemm, FP32 kernel (CUDA): calls x 10 decode steps": 60,
    },
}
KV_BYTES = 3_000 * 128 * (9 * 2 * 128 * 2 + 6 * 128 * 2)
"""Blocks x tokens x (K and V of nine layers, index keys of six; one head of 128, BF16)."""


def table(folder: Path) -> tuple[int, dict[str, list[str]]]:
    """Exit status, and the cells of each row by its claim."""
    done = subprocess.run([sys.executable, CLAIMS, folder], capture_output=True, text=True, check=False)
    assert not done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return done.returncode, {row[0]: row[1:] for row in rows[2:]}


@pytest.mark.parametrize("folder", BY_HAND, ids=lambda folder: folder.name)
def test_every_claim_is_what_the_device_did(folder: Path) -> None:
    status, rows = table(folder)
    assert (status, {row[-1] for row in rows.values()}) == (0, {"yes"})
    figures = {what: int(rows[what][1].replace(",", "")) for what in BY_HAND[folder]}
    assert figures == BY_HAND[folder]
    assert int(rows["bytes of caches (device: torch's allocations)"][0].replace(",", "")) == KV_BYTES


def altered(tmp_path: Path, drop: str) -> Path:
    """The graph recording without one of the device's kernels."""
    folder = tmp_path / "altered"
    shutil.copytree(GRAPH, folder)
    (trace,) = folder.glob("*.json.gz")
    events: dict[str, Any] = json.loads(gzip.decompress(trace.read_bytes()))
    at = next(i for i, e in enumerate(events["traceEvents"]) if e.get("cat") == "kernel" and e["name"] == drop)
    del events["traceEvents"][at]
    trace.write_bytes(gzip.compress(json.dumps(events).encode()))
    return folder


def test_one_kernel_less_is_seen(tmp_path: Path) -> None:
    status, rows = table(altered(tmp_path, "_gqa_sparse_decode_kernel"))
    assert status == 1
    assert rows["sparse decode: 6 layers x 12 steps"] == ["72", "71", "NO"]


def test_contexts_shows_that_the_sparse_layers_stop_reading_and_the_index_does_not() -> None:
    script = ROOT / "benchmarks/device/contexts.py"
    done = subprocess.run([sys.executable, script, EAGER, GRAPH], capture_output=True, text=True, check=True)
    short, long = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert (short[:2], long[:2]) == (["255", "9"], ["3,005", "7"])  # 250 or 3,000 tokens and those of the steps before
