"""Profiler windows: the right steps and only those, sizes asked before, the step rate after, nothing left behind."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from guest_kit import environment, files, only, read
from live_kit import mounted, vllm_python
from tree import ROOT

from m3probe.collectors import _kernels_size as size
from m3probe.collectors._kernels_rate import Rate, compared
from m3probe.collectors._kernels_window import annotation, busy
from m3probe.collectors._probe import Probe
from m3probe.collectors.kernels import Kernels
from m3probe.schema import control, records
from m3probe.schema.roles import Level, Role
from m3probe.sources import open_recording

GB = 10**9
Usage = namedtuple("Usage", "total used free")


def scheduled(new: dict[str, int], prefill: dict[str, int], decode: dict[str, int]) -> Any:
    """A SchedulerOutput: tokens by request, the new ones, those still in their prompt, those that generate."""
    tokens = new | prefill | decode
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=name) for name in new],
        scheduled_cached_reqs=SimpleNamespace(is_context_phase=prefill.__contains__),
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
    )


DECODE = scheduled({}, {}, {"a": 1, "b": 1})
EMPTY = scheduled({}, {}, {})


class Torch:
    """Stands for torch: says what was opened, labelled and closed, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.enabled = False
        self.asked: dict[str, Any] = {}
        torch = self

        class Profile:
            def __init__(self, **asked: Any) -> None:
                torch.asked = asked

            def start(self) -> None:
                torch.said.append("start")

            def stop(self) -> None:
                torch.said.append("stop")

            def add_metadata_json(self, _key: str, _value: str) -> None: ...

            def export_chrome_trace(self, path: str) -> None:
                Path(path).write_text('{"traceEvents": []}')

        class Label:
            def __init__(self, name: str) -> None:
                self.name = name

            def __enter__(self) -> None:
                torch.said.append(self.name)

            def __exit__(self, *_error: object) -> None:
                torch.said.append("end")

        activity = SimpleNamespace(CPU="cpu", CUDA="cuda", XPU="xpu")
        self.profiler = SimpleNamespace(ProfilerActivity=activity, profile=Profile, record_function=Label)
        self._C = SimpleNamespace(_autograd=SimpleNamespace(_profiler_enabled=lambda: torch.enabled))


class Worker:
    """Stands for vLLM's worker: counts its steps after them, as the probe does."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.rank = 3
        self.profiler: Any = None
        self.device = SimpleNamespace(type="cpu")
        self.output: Any = None

    def execute_model(self, scheduler_output: Any) -> Any:
        self.probe.step += scheduler_output.total_num_scheduled_tokens > 0
        return self.output

    def sample_tokens(self, grammar_output: Any) -> str:
        return "tokens"


class Guest(Probe):
    """A probe whose records stay in a list."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Level.LEDGER)
        self.folder, self.recording = folder, True
        self.worker = Worker(self)
        self.kept: list[records.AnyRecord] = []
        self.part = Kernels(self)

    def host(self, role: Role) -> Any:
        return self.worker if role is Role.WORKER else None

    def put(self, record: records.AnyRecord) -> None:
        self.kept.append(record)

    def run(self, steps: int, output: Any = DECODE) -> None:
        for _ in range(steps):
            self.worker.execute_model(output)
            self.worker.sample_tokens(None)

    def outcome(self) -> records.Kernels:
        if self.part._written is not None:
            self.part._written.join(5)
        self.part._until = 0.0  # the rate after the window is waited for no longer
        self.part.tick()
        (found,) = [record for record in self.kept if isinstance(record, records.Kernels)]
        return found


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    made, module = Torch(), ModuleType("vllm.v1.worker.gpu_worker")
    module.Worker = Worker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu_worker", module)
    return made


@pytest.fixture
def guest(torch: Torch, tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_a_label_counts_prefill_and_decode_requests_and_their_tokens_as_vllm_does() -> None:
    assert annotation(scheduled({"a": 32}, {}, {})) == "execute_context_1(32)_generation_0(0)"
    mixed = scheduled({"a": 30}, {"b": 12}, {"c": 1, "d": 3})
    assert annotation(mixed) == "execute_context_2(42)_generation_2(4)"


def test_a_window_opens_at_its_step_labels_each_and_closes_after_the_last_one_is_sampled(
    guest: Guest, torch: Torch
) -> None:
    before = dict(vars(Worker))
    assert isinstance(guest.part.ask(control.ProfileWindow(at=5, steps=2, most_bytes=GB)), control.Done)
    guest.run(5)
    assert torch.said == []
    guest.run(1, EMPTY)  # nothing to compute: no step, no label
    assert torch.said == []
    guest.worker.execute_model(DECODE)
    guest.worker.execute_model(DECODE)
    label = "execute_context_0(0)_generation_2(2)"
    assert torch.said == ["start", label, "end", label, "end"]
    guest.worker.sample_tokens(None)
    guest.run(3)
    assert torch.said == ["start", label, "end", label, "end", "stop"]
    found = guest.outcome()
    assert (found.state, found.first_step, found.steps) == ("done", 5, 2)
    assert found.path.startswith("rank3.") and found.path.endswith(".pt.trace.json.gz")
    assert guest.folder is not None
    assert json.loads(gzip.decompress((guest.folder / found.path).read_bytes())) == {"traceEvents": []}
    assert found.bytes == len('{"traceEvents": []}')
    assert [p.name for p in guest.folder.iterdir()] == [found.path]
    assert dict(vars(Worker)) == before
    assert guest.patches.standing == []
    assert not guest.patches.failed
    assert (torch.asked["record_shapes"], torch.asked["with_stack"]) == (True, False)


def test_a_step_with_its_result_at_once_is_the_last_without_sampling(guest: Guest, torch: Torch) -> None:
    guest.worker.output = "pooled"
    guest.part.ask(control.ProfileWindow(at=1, steps=1, most_bytes=GB))
    for _ in range(2):
        guest.worker.execute_model(DECODE)
    assert torch.said[-1] == "stop"


def test_the_gpu_is_profiled_where_there_is_one(guest: Guest, torch: Torch) -> None:
    guest.worker.device.type = "cuda"
    guest.part.ask(control.ProfileWindow(at=1, steps=1, most_bytes=GB))
    guest.run(2)
    assert torch.asked["activities"] == ["cpu", "cuda"]


def refusal(guest: Guest, **asked: int) -> str:
    answer = guest.part.ask(control.ProfileWindow(**({"at": 5, "steps": 2, "most_bytes": GB} | asked)))
    assert isinstance(answer, control.Refused)
    return answer.text


def test_a_window_that_cannot_be_is_refused_with_its_reason(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "1 to 1,000" in refusal(guest, steps=1001)
    guest.step = 7
    assert refusal(guest, at=7) == "step 7 is over, this is 7"
    # 100 layers are assumed where the configuration says none: 2 x 100 x 180,000 B
    assert refusal(guest, at=9, most_bytes=35 * 10**6).startswith("the trace would take about 36 MB")
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage(0, 0, 300 * 10**6))
    assert "300 MB free" in refusal(guest, at=9)
    monkeypatch.undo()
    guest.recording = False
    assert refusal(guest, at=9) == "nothing is recorded"
    assert guest.patches.standing == []


def test_a_second_window_and_one_beside_vllms_own_profiler_are_refused(guest: Guest) -> None:
    guest.worker.profiler = SimpleNamespace(_running=True)
    assert "vLLM's own profiler" in refusal(guest)
    guest.worker.profiler._running = False
    assert isinstance(guest.part.ask(control.ProfileWindow(at=5, steps=2, most_bytes=GB)), control.Done)
    assert "from step 5 on" in refusal(guest, at=50)


def test_a_profiler_that_runs_when_the_step_comes_fails_the_window_and_not_the_step(guest: Guest, torch: Torch) -> None:
    guest.part.ask(control.ProfileWindow(at=1, steps=1, most_bytes=GB))
    torch.enabled = True
    assert busy(guest.worker)
    guest.run(3)
    assert torch.said == []
    found = guest.outcome()
    assert (found.state, found.text) == ("failed", "another torch profiler runs in this thread")
    assert guest.patches.standing == []


def test_a_waiting_window_is_taken_back_and_leaves_its_reason(guest: Guest, torch: Torch) -> None:
    guest.part.ask(control.ProfileWindow(at=5, steps=2, most_bytes=GB))
    assert isinstance(guest.part.ask(control.ProfileWindow(at=0, steps=0, most_bytes=0)), control.Done)
    guest.run(8)
    assert torch.said == []
    assert guest.patches.standing == []
    assert isinstance(guest.part.ask(control.ProfileWindow(at=0, steps=0, most_bytes=0)), control.Refused)


def test_when_the_recording_ends_inside_a_window_the_next_step_closes_the_profiler(guest: Guest, torch: Torch) -> None:
    guest.part.ask(control.ProfileWindow(at=1, steps=9, most_bytes=GB))
    guest.run(3)
    assert torch.said[-1] == "end"
    guest.patches.undo()  # what the probe does first
    guest.part.disarm()
    assert [r.state for r in guest.kept if isinstance(r, records.Kernels)] == ["failed"]
    assert len(guest.patches.standing) == 1
    guest.run(2)
    assert torch.said[-1] == "stop"
    assert guest.patches.standing == []


def test_other_messages_are_not_for_this_part(guest: Guest) -> None:
    assert guest.part.ask(control.Verify(module="lm_head")) is None


def test_the_rate_is_of_steps_that_follow_each_other() -> None:
    rate = Rate()
    for at in [*range(0, 70, 10), 10_070, *range(10_080, 10_120, 10)]:  # a wait for a request in the middle
        rate.step(at * 1_000_000)
    assert rate.steps_per_s() == pytest.approx(100.0)
    rate.restart()
    for at in range(8):
        rate.step(at)
    assert rate.steps_per_s() is None  # seven gaps


def test_a_rate_below_95_percent_is_reported() -> None:
    assert compared(100.0, 95.0).startswith("the step rate has returned: 100.0 steps/s before, 95.0 after (-5.0 %)")
    assert compared(100.0, 94.9).startswith("the step rate has NOT returned")
    assert "too few steps before" in compared(None, 94.9)
    assert "too few steps after" in compared(94.9, None)


def test_a_size_is_steps_times_layers_or_what_the_window_before_took() -> None:
    assert size.expected(10, 60, graphs=False) == 10 * 60 * 180_000
    assert size.expected(10, 60, graphs=True) == 10 * 60 * 60_000
    assert size.expected(10, 60, graphs=True, seen=1234.5) == 12_345
    config = SimpleNamespace(model_config=SimpleNamespace(hf_text_config=SimpleNamespace(num_hidden_layers=60)))
    assert size.layers(SimpleNamespace(vllm_config=config)) == 60
    assert size.layers(None) == -1


def test_graphs_are_expected_on_a_gpu_without_enforce_eager() -> None:
    def worker(device: str, mode: str, *, eager: bool = False) -> Any:
        compilation = SimpleNamespace(cudagraph_mode=SimpleNamespace(name=mode))
        model = SimpleNamespace(enforce_eager=eager)
        config = SimpleNamespace(compilation_config=compilation, model_config=model)
        return SimpleNamespace(device=SimpleNamespace(type=device), vllm_config=config)

    assert size.captures(worker("cuda", "FULL_AND_PIECEWISE"))
    assert not size.captures(worker("cuda", "FULL_AND_PIECEWISE", eager=True))
    assert not size.captures(worker("cuda", "NONE"))
    assert not size.captures(worker("cpu", "FULL"))


def test_a_real_vllm_is_profiled_for_the_steps_asked_for_and_gets_its_attributes_back(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python, folder = vllm_python(), tmp_path / "rec"
    model = request.getfixturevalue("tiny_models") / "llama"
    env = environment(tmp_path) | {"PYTHONPATH": str(mounted(tmp_path / "mounted"))}
    script = [str(python), str(ROOT / "tests/live_scripts/profile_window.py"), str(model), str(folder)]
    ran = subprocess.run(script, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("OUTCOME ")]
    outcome = json.loads(line.removeprefix("OUTCOME "))
    assert outcome == {"at": 40, "answers": ["Done", "Refused"], "same": True, "failed": {}}
    (path,) = files(folder)
    (found,) = only(records.Kernels, read(path)[0])
    assert isinstance(found, records.Kernels)
    assert (found.state, found.first_step, found.steps) == ("done", 40, 4)
    recording = open_recording([folder / found.path])
    text = recording.strings
    assert [text[i] for i in recording.steps["name"].tolist()] == ["execute_context_0(0)_generation_3(3)"] * 4
    # Two layers of qkv, o, gate_up and down, and the lm_head, in each of four steps.
    names = [text[i] for i in recording.ops["name"].tolist()]
    assert names.count("_C::onednn_mm") == (2 * 4 + 1) * 4
    assert names.count("vllm::unified_attention_with_output") == 2 * 4
