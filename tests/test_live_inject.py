"""A compiled model on a server that was started without m3probe: attach puts it in, records, and takes it out."""

import json
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from guest_kit import files, only, read
from live_kit import not_here
from live_server import Server, prompt
from tree import ROOT

from m3probe.schema import records

REQUESTS = [(prompt(n, 20 + n), 6) for n in range(12)]


@pytest.fixture(scope="module")
def attached(injected: tuple[Server, Path]) -> tuple[dict[str, Any], Path, dict[str, float], dict[str, float]]:
    """What ``attach --inject --json`` said, its folder, and vLLM's counters before and after."""
    if find_spec("hypno") is None:
        not_here("hypno is not installed: pip install '.[inject]'")
    server, folder = injected
    before, out = server.metrics(), folder / "rec"
    command = ["attach", str(server.process.pid), "--inject", "--seconds", "12", "--out", str(out), "--json"]
    env = server.env | {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "m3probe", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT.parent,
        env=env,
    )
    loading = threading.Thread(target=_when_recording, args=(server, out))
    loading.start()
    said, narrated = process.communicate(timeout=180)
    loading.join()
    assert process.returncode == 0, narrated
    return json.loads(said), out, before, server.metrics()


def _when_recording(server: Server, out: Path) -> None:
    """Requests from the moment at which every process of the server has a file."""
    import time

    deadline = time.monotonic() + 120
    while len(list(out.glob("[!h]*.m3p"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    server.load(REQUESTS, at_once=4)


def test_every_process_got_it_and_gave_every_attribute_back(attached: tuple[Any, ...]) -> None:
    said = attached[0]
    found = {p["role"]: p for p in said["processes"] if p["state"] == "recorded"}
    assert sorted(found) == ["api", "engine", "worker"]
    for process in found.values():
        assert process["injected"]
        assert process["late"]
        assert process["hooks_armed"] > process["hooks_before"]
        assert process["hooks_after"] == process["hooks_before"]
        assert process.get("left_behind", []) == []
        assert process.get("failed_hooks", {}) == {}


def test_steps_and_rows_of_a_late_recording_are_vllm_s_own(attached: tuple[Any, ...]) -> None:
    _said, folder, before, after = attached
    (path,) = [p for p in files(folder) if p.name.startswith("worker")]
    steps = [s for record in only(records.StepCounts, read(path)[0]) for s in record.steps]  # type: ignore[union-attr]
    run = [s for s in steps if s.phase != "empty"]
    iterations = "vllm:iteration_tokens_total_count"
    assert sum(s.count for s in run) == after[iterations] - before[iterations]
    assert sum(s.rows_sum for s in run) == sum(len(p) + tokens - 1 for p, tokens in REQUESTS)


def test_shapes_of_a_late_recording_are_those_of_the_config(attached: tuple[Any, ...]) -> None:
    (path,) = [p for p in files(attached[1]) if p.name.startswith("worker")]
    shapes = {m.name.rpartition(".")[2]: (m.N, m.K) for m in only(records.Module, read(path)[0])}  # type: ignore[union-attr]
    # 4 heads, 2 KV heads, 64 each, hidden 256; intermediate 512, gate and up in one
    expected = {"qkv_proj": (512, 256), "o_proj": (256, 256), "gate_up_proj": (1024, 256), "down_proj": (256, 512)}
    assert {name: shapes.get(name) for name in expected} == expected


def test_what_compiled_code_hides_is_unproven(attached: tuple[Any, ...]) -> None:
    """Nothing was seen at load and capture, and hooks inside compiled code are silent: no path may be called executed."""
    command = [sys.executable, "-P", "-m", "m3probe", "analyze", "--json", str(attached[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    verdicts = {path["id"]: path["verdict"] for path in report["paths"]}
    assert verdicts
    assert {name for name, verdict in verdicts.items() if verdict in {"executed", "missed"}} == set()
    assert "unproven" in verdicts.values()
    (path,) = [p for p in files(attached[1]) if p.name.startswith("worker")]
    assert only(records.Process, read(path)[0])[-1].late  # type: ignore[union-attr]


def test_serving_goes_on_afterwards(attached: tuple[Any, ...], injected: tuple[Server, Path]) -> None:
    answer = injected[0].complete(prompt(99, 30), 5)
    assert answer["usage"]["completion_tokens"] == 5
