"""Stand-ins for the runners of vLLM, with the names and signatures that steps are hooked by (0.24.0 to 0.33.0)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from m3probe.collectors._now import NOW, Now
from m3probe.collectors._probe import Probe
from m3probe.collectors.steps import Steps
from m3probe.schema import control, records
from m3probe.schema.roles import Level, Role


class Mode(Enum):
    """``CUDAGraphMode``."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2


@dataclass(frozen=True)
class Batch:
    """``BatchDescriptor`` of V1."""

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False


@dataclass(frozen=True)
class Execution:
    """``BatchExecutionDescriptor`` of V2."""

    cg_mode: Mode
    num_tokens: int
    num_reqs: int | None = None
    uniform_token_count: int | None = None


@dataclass
class Cached:
    """``CachedRequestData``."""

    req_ids: list[str] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)
    num_output_tokens: list[int] = field(default_factory=list)


def scheduled(
    new: dict[str, tuple[int, int]] | None = None,
    cached: dict[str, tuple[int, int, int]] | None = None,
    drafts: dict[str, list[int]] | None = None,
) -> SimpleNamespace:
    """A ``SchedulerOutput``.

    Args:
        new: id -> (computed, scheduled tokens).
        cached: id -> (computed, scheduled, output tokens so far).
        drafts: id -> drafted tokens.
    """
    new, cached = new or {}, cached or {}
    tokens = {k: v[1] for k, v in {**new, **cached}.items()}
    return SimpleNamespace(
        total_num_scheduled_tokens=sum(tokens.values()),
        num_scheduled_tokens=tokens,
        scheduled_new_reqs=[SimpleNamespace(req_id=k, num_computed_tokens=v[0]) for k, v in new.items()],
        scheduled_cached_reqs=Cached(list(cached), [v[0] for v in cached.values()], [v[2] for v in cached.values()]),
        scheduled_spec_decode_tokens=drafts or {},
    )


class Graph:
    """``torch.cuda.CUDAGraph``."""

    def replay(self) -> None:
        """Nothing runs."""


class Manager:
    """``CudaGraphManager``; ``graphs`` are captured by ``capture``."""

    def __init__(self, keys: list[Execution]) -> None:
        self._capture_descs: dict[Mode, list[Execution]] = {}
        for key in keys:
            self._capture_descs.setdefault(key.cg_mode, []).append(key)
        self.graphs: dict[Execution, Graph] = {}
        self._graphs_captured = False
        self.breakable_cg_runner = None

    def capture(self, create_forward_fn: Any, progress_bar_desc: str = "") -> None:
        """The real one's order: per descriptor a warm-up, then the capture."""
        for keys in self._capture_descs.values():
            for key in keys:
                create_forward_fn(key, warmup=True)(Mode.NONE)
                create_forward_fn(key, warmup=False)(Mode.NONE)
                self.graphs[key] = Graph()
        self._graphs_captured = True

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = 1) -> Execution:
        """The smallest captured FULL batch that fits, else eager."""
        fits = [k for k in self.graphs if k.num_tokens >= num_tokens] if self._graphs_captured else []
        return min(fits, key=lambda k: k.num_tokens) if fits else Execution(Mode.NONE, num_tokens, num_reqs)

    def run_fullgraph(self, desc: Execution) -> str:
        """One replay."""
        self.graphs[desc].replay()
        return "hidden"

    def run_pw_graph(self, model: Any, model_inputs: Any) -> str:
        """One piecewise step."""
        return "hidden"


class ModelManager(Manager):
    """``ModelCudaGraphManager``: overrides the replay, as in vLLM."""

    def run_fullgraph(self, desc: Execution) -> str:
        """One replay, then the hidden states."""
        return super().run_fullgraph(desc)


class Dispatcher:
    """``CudagraphDispatcher`` of V1."""

    keys_initialized = True

    def dispatch(self, num_tokens: int, uniform_decode: bool = False) -> tuple[Mode, Batch]:
        """FULL of 8 rows for up to 8, else eager."""
        if self.keys_initialized and num_tokens <= 8:
            return Mode.FULL, Batch(8, 8, uniform=True)
        return Mode.NONE, Batch(num_tokens)


class Builder:
    """An attention metadata builder: requests longer than ``threshold`` rows are its prefill side."""

    def __init__(self, lengths: list[int], threshold: int) -> None:
        self.prefill = [n for n in lengths if n > threshold]

    def build(self, common_prefix_len: int) -> SimpleNamespace:
        """The metadata."""
        return SimpleNamespace(num_prefills=len(self.prefill), num_prefill_tokens=sum(self.prefill))


class RunnerV1:
    """``gpu_model_runner.GPUModelRunner``."""

    vllm_config: Any = None

    def __init__(self) -> None:
        self.cudagraph_dispatcher, self.graph = Dispatcher(), Graph()

    def execute(self, output: Any) -> None:
        """A step: dispatch, forward."""
        if output.total_num_scheduled_tokens:
            mode, *_ = self._determine_batch_execution_and_padding(num_tokens=output.total_num_scheduled_tokens)
            self._model_forward(mode)

    def _determine_batch_execution_and_padding(self, num_tokens: int) -> tuple[Mode, Batch, bool, None, None]:
        mode, batch = self.cudagraph_dispatcher.dispatch(num_tokens)
        return mode, batch, False, None, None

    def _model_forward(self, mode: Mode) -> None:
        if mode is Mode.FULL:
            self.graph.replay()


class Drafter:
    """``speculator``: its own manager, and one FULL replay a proposal."""

    def __init__(self, keys: list[Execution]) -> None:
        self.cudagraph_manager, self.saw_draft = Manager(keys), []

    def capture(self) -> None:
        """Its graphs."""
        self.cudagraph_manager.capture(lambda _desc, warmup: lambda _mode: None)

    def propose(self, rows: int) -> None:
        """Draft tokens."""
        self.saw_draft.append(NOW.is_draft)
        desc = self.cudagraph_manager.dispatch(rows, rows)
        if desc.cg_mode is Mode.FULL:
            self.cudagraph_manager.run_fullgraph(desc)


class RunnerV2:
    """``gpu.model_runner.GPUModelRunner``."""

    vllm_config: Any = None

    def __init__(self, keys: list[Execution], drafts: list[Execution] | None = None) -> None:
        self.cudagraph_manager = ModelManager(keys)
        self.speculator = Drafter(drafts) if drafts else None
        self.profiled: list[Any] = []

    def execute(self, output: Any) -> None:
        """A step: dispatch, replay or eager; drafts after it."""
        requests, rows = len(output.num_scheduled_tokens), output.total_num_scheduled_tokens
        module = sys.modules["vllm.v1.worker.gpu.model_runner"]
        desc, _sync = module.dispatch_cg_and_sync_dp(self.cudagraph_manager, requests, rows)
        if desc.cg_mode is Mode.FULL:
            self.cudagraph_manager.run_fullgraph(desc)
        else:
            with module.set_forward_context(None, self.vllm_config):
                if desc.cg_mode is Mode.PIECEWISE:
                    self.cudagraph_manager.run_pw_graph(None, {})
        if self.speculator is not None:
            self.speculator.propose(rows)

    def profile_cudagraph_memory(self) -> int:
        """The rehearsal: some graphs are captured and thrown away."""
        manager, self.cudagraph_manager = self.cudagraph_manager, ModelManager(list(self.keys()))
        self.cudagraph_manager.capture(self.create)
        self.cudagraph_manager = manager
        return 1

    def keys(self) -> list[Execution]:
        """All that are to be captured."""
        return [key for keys in self.cudagraph_manager._capture_descs.values() for key in keys]

    def create(self, desc: Execution, warmup: bool) -> Any:
        """``create_forward_fn``: what the hooks of others would see while the model runs."""
        return lambda _mode: self.profiled.append((desc.num_tokens, warmup, NOW.descriptor, NOW.stage, NOW.is_draft))


ALL_EAGER: list[bool] = [False]
"""Whether another data-parallel rank runs eager, which decides for all."""


def dispatch_cg_and_sync_dp(manager: Any, num_reqs: int, num_tokens: int, need_eager: bool = False) -> tuple[Any, None]:
    """``dp_utils.dispatch_cg_and_sync_dp``."""
    desc = manager.dispatch(num_reqs, num_tokens)
    return (Execution(Mode.NONE, num_tokens, num_reqs) if ALL_EAGER[0] or need_eager else desc), None


@contextmanager
def set_forward_context(attn_metadata: Any, vllm_config: Any) -> Iterator[None]:
    """``forward_context.set_forward_context``."""
    yield


class Worker:
    """``gpu_worker.Worker``."""

    rank = 0

    def __init__(self, runner: Any) -> None:
        self.model_runner = runner

    def execute_model(self, scheduler_output: Any) -> None:
        """None: the caller samples next."""
        self.model_runner.execute(scheduler_output)

    def sample_tokens(self, grammar_output: Any) -> str:
        """Tokens."""
        return "tokens"

    def step(self, output: Any) -> None:
        """What the executor calls."""
        self.execute_model(output)
        if output.total_num_scheduled_tokens:
            self.sample_tokens(None)


class Scheduler:
    """``Scheduler`` of the engine."""

    def schedule(self, output: Any) -> Any:
        """The plan."""
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> None:
        """Tokens come in."""


MODULES = {
    "vllm.v1.worker.gpu_worker": {"Worker": Worker},
    "vllm.v1.worker.gpu_model_runner": {"GPUModelRunner": RunnerV1},
    "vllm.v1.cudagraph_dispatcher": {"CudagraphDispatcher": Dispatcher},
    "vllm.v1.worker.gpu.model_runner": {
        "dispatch_cg_and_sync_dp": dispatch_cg_and_sync_dp,
        "set_forward_context": set_forward_context,
    },
    "vllm.v1.worker.gpu.cudagraph_utils": {"CudaGraphManager": Manager, "ModelCudaGraphManager": ModelManager},
    "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
    "torch.cuda.graphs": {"CUDAGraph": Graph},
}


def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins where the seams look for vLLM."""
    for name, held in MODULES.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)


class Told(Probe):
    """A probe that keeps what it is told instead of writing it."""

    def __init__(self) -> None:
        super().__init__(Level.LEDGER)
        self.told: list[records.AnyRecord] = []

    def put(self, record: records.AnyRecord) -> None:
        """Keep it."""
        self.told.append(record)

    def of(self, kind: type) -> list[Any]:
        """The records of one type."""
        return [record for record in self.told if isinstance(record, kind)]


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-ins are there, and hooks and ``NOW`` are as before afterwards."""
    installed(monkeypatch)
    MADE.clear()
    monkeypatch.setattr(sys.modules[__name__], "ALL_EAGER", [False])
    yield
    for probe in MADE:
        probe.patches.undo()
    for name in Now.__slots__:
        setattr(NOW, name, getattr(Now(), name))


MADE: list[Told] = []


def part_of(role: Role, host: Any) -> tuple[Told, Steps]:
    """The collector of one process, before its model is loaded."""
    probe = Told()
    MADE.append(probe)
    probe._hosts[role] = lambda: host  # type: ignore[assignment]
    part = Steps(probe)
    part.role = role
    probe.parts.append(("steps", role, part))
    return probe, part


def armed(role: Role, host: Any, seconds: float = 0.0) -> tuple[Told, Steps]:
    """The same, recording."""
    probe, part = part_of(role, host)
    probe.options = control.Arm(folder="", owner="", windows=seconds)
    part.loaded()
    part.captured()
    part.arm()
    return probe, part


def counted(probe: Told, part: Steps) -> list[records.StepCount]:
    """What was counted until now."""
    part.tick()
    return [count for record in probe.of(records.StepCounts) for count in record.steps]
