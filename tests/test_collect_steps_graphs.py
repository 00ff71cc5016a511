"""Graphs in steps: which batch is captured, which one ran, and how often something was replayed."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import steps_kit
from steps_kit import (
    Batch,
    Builder,
    Drafter,
    Execution,
    Graph,
    Mode,
    RunnerV1,
    RunnerV2,
    Worker,
    armed,
    counted,
    part_of,
    scheduled,
    stand_ins,
)

from m3probe.collectors._now import NOW
from m3probe.schema import records
from m3probe.schema.roles import Role, Stage

__all__ = ["stand_ins"]

DECODE = {"a": (40, 1, 1), "b": (100, 1, 1), "c": (7, 1, 3)}
FULL_4, FULL_8, PIECES_64 = Execution(Mode.FULL, 4, 4, 1), Execution(Mode.FULL, 8, 8, 1), Execution(Mode.PIECEWISE, 64)


def test_v2_counts_full_replays_that_have_no_forward_context() -> None:
    runner = RunnerV2([FULL_4, FULL_8])
    worker = Worker(runner)
    runner.cudagraph_manager.capture(runner.create)
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=DECODE))
    worker.step(scheduled(cached=dict.fromkeys("abcde", (9, 1, 1))))
    small, large = counted(probe, part)
    assert (small.mode, small.padded_rows, small.rows_sum, small.replays) == ("FULL", 4, 3, 1)
    assert (large.padded_rows, large.rows_sum, large.replays) == (8, 5, 1)
    assert {(d.id, d.padded_rows, d.runner) for d in probe.of(records.Descriptor)} == {(0, 4, "v2"), (1, 8, "v2")}
    assert (small.descriptor, large.descriptor) == (0, 1)
    assert min(small.prepare_ns, small.launch_ns, small.wait_ns) >= 0


def test_v2_s_capture_says_which_batch_is_warmed_up_and_which_is_captured() -> None:
    runner = RunnerV2([FULL_4, FULL_8])
    probe, part = part_of(Role.WORKER, Worker(runner))
    part.loaded()
    runner.cudagraph_manager.capture(runner.create)
    part.captured()
    assert runner.profiled == [
        (4, True, 0, Stage.WARMUP, False),
        (4, False, 0, Stage.CAPTURE, False),
        (8, True, 1, Stage.WARMUP, False),
        (8, False, 1, Stage.CAPTURE, False),
    ]
    assert (NOW.stage, NOW.descriptor) == (Stage.EAGER, -1)
    assert not probe.patches.standing


def test_graphs_that_only_measure_memory_are_warm_up_and_no_descriptors() -> None:
    runner = RunnerV2([FULL_4])
    probe, part = part_of(Role.WORKER, Worker(runner))
    part.loaded()
    runner.profile_cudagraph_memory()
    assert runner.profiled == [(4, True, -1, Stage.WARMUP, False), (4, False, -1, Stage.WARMUP, False)]
    assert not probe.of(records.Descriptor)
    runner.cudagraph_manager.capture(runner.create)
    part.captured()
    assert [d.id for d in probe.of(records.Descriptor)] == [0]
    assert "profile_cudagraph_memory" not in vars(runner)


def test_a_draft_model_s_graphs_have_descriptors_and_replays_of_their_own() -> None:
    runner = RunnerV2([FULL_4], drafts=[FULL_4])
    assert isinstance(runner.speculator, Drafter)
    worker = Worker(runner)
    probe, part = part_of(Role.WORKER, worker)
    part.loaded()
    runner.cudagraph_manager.capture(runner.create)
    runner.speculator.capture()
    part.captured()
    part.arm()
    for _ in range(3):
        worker.step(scheduled(cached=DECODE))
    (steps,) = counted(probe, part)
    assert [(d.id, d.draft) for d in probe.of(records.Descriptor)] == [(0, False), (1, True)]
    assert (steps.descriptor, steps.count, steps.replays) == (0, 3, 6)
    assert [dict(r.draft_replays) for r in probe.of(records.StepCounts)] == [{1: 3}]
    assert runner.speculator.saw_draft == [True, True, True]
    assert NOW.is_draft is False


def test_a_step_is_eager_where_another_data_parallel_rank_decides_so() -> None:
    runner = RunnerV2([FULL_4])
    worker = Worker(runner)
    runner.cudagraph_manager.capture(runner.create)
    probe, part = armed(Role.WORKER, worker)
    steps_kit.ALL_EAGER[0] = True
    worker.step(scheduled(cached=DECODE))
    (step,) = counted(probe, part)
    assert (step.mode, step.descriptor, step.padded_rows, step.replays) == ("NONE", -1, 3, 0)
    assert min(step.prepare_ns, step.launch_ns, step.wait_ns) >= 0  # from the forward context that it opens


def test_a_dummy_batch_of_an_idle_rank_is_no_step_and_leaves_nothing() -> None:
    runner = RunnerV2([FULL_4])
    worker = Worker(runner)
    runner.cudagraph_manager.capture(runner.create)
    probe, part = armed(Role.WORKER, worker)
    runner.execute(scheduled(cached=DECODE))  # execute_dummy_batch does not go through execute_model
    assert counted(probe, part) == []
    assert (NOW.descriptor, probe.step) == (-1, 0)


class Entry:
    """``CUDAGraphEntry`` and ``_BreakableEntry``."""

    def __init__(self, key: Batch) -> None:
        self.batch_descriptor, self.cudagraph, self.capture = key, None, None


class Wrapper:
    """``CUDAGraphWrapper``: captures a batch at first sight in its mode, replays it after."""

    _all_instances: ClassVar[list[Any]] = []

    def __init__(self, mode: Mode, seen: list[Any]) -> None:
        self.runtime_mode, self.seen, self.concrete_cudagraph_entries = mode, seen, {}
        self._all_instances.append(self)

    def __call__(self) -> None:
        """The model in it runs: ``seen`` keeps what hooks of others would see."""
        context = sys.modules["vllm.forward_context"]._forward_context
        if context.cudagraph_runtime_mode is self.runtime_mode:
            entry = self.concrete_cudagraph_entries.setdefault(context.batch_descriptor, Entry(Batch(0)))
            if entry.cudagraph is not None:
                entry.cudagraph.replay()
                return
            self.seen.append((NOW.descriptor, NOW.stage))
            entry.cudagraph = Graph()
        else:
            self.seen.append((NOW.descriptor, NOW.stage))


class Breakable:
    """``BreakableCUDAGraphWrapper``: keeps bound replays, which a hook on the class does not see."""

    _all_instances: ClassVar[list[Any]] = []

    def __init__(self, seen: list[Any]) -> None:
        self.seen, self.entries = seen, {}
        self._all_instances.append(self)

    def run(self, key: Batch) -> None:
        """Capture or replay."""
        entry = self.entries.setdefault(key, Entry(key))
        self._replay(entry) if entry.capture else self._capture(entry)

    def _capture(self, entry: Entry) -> None:
        self.seen.append((NOW.descriptor, NOW.stage))
        entry.capture = SimpleNamespace(num_graphs=3, segments=[Graph().replay for _ in range(3)])

    def _replay(self, entry: Entry) -> None:
        for segment in entry.capture.segments:
            segment()


@pytest.fixture
def wrappers(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    context = SimpleNamespace(cudagraph_runtime_mode=Mode.NONE, batch_descriptor=None)
    for name, held in {
        "vllm.compilation.cuda_graph": {"CUDAGraphWrapper": Wrapper},
        "vllm.compilation.breakable_cudagraph": {"BreakableCUDAGraphWrapper": Breakable},
        "vllm.forward_context": {"_forward_context": context},
    }.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Wrapper, "_all_instances", [])
    monkeypatch.setattr(Breakable, "_all_instances", [])
    return context


def test_v1_s_wrapper_says_what_it_captures_and_only_then(wrappers: SimpleNamespace) -> None:
    seen: list[Any] = []
    wrapper = Wrapper(Mode.FULL, seen)
    probe, part = part_of(Role.WORKER, Worker(RunnerV1()))
    part.loaded()
    wrappers.batch_descriptor = Batch(8, 8, uniform=True)
    wrapper()  # the warm-up before it, in mode NONE
    wrappers.cudagraph_runtime_mode = Mode.FULL
    wrapper()
    wrapper()  # a replay
    wrappers.cudagraph_runtime_mode = Mode.PIECEWISE
    wrapper()  # another wrapper's mode
    assert seen == [(-1, Stage.WARMUP), (0, Stage.CAPTURE), (-1, Stage.WARMUP)]
    part.captured()
    assert [(d.mode, d.padded_rows, d.runner) for d in probe.of(records.Descriptor)] == [("FULL", 8, "v1")]


def test_pieces_within_v2_s_loop_keep_the_number_that_v2_dispatches_by(wrappers: SimpleNamespace) -> None:
    seen: list[Any] = []
    wrapper, runner = Wrapper(Mode.PIECEWISE, seen), RunnerV2([PIECES_64])
    probe, part = part_of(Role.WORKER, Worker(runner))
    part.loaded()

    def create(_desc: Execution, warmup: bool) -> Any:
        def forward(_mode: Mode) -> None:
            wrappers.batch_descriptor, wrappers.cudagraph_runtime_mode = Batch(64), Mode.PIECEWISE
            wrapper()

        return (lambda _mode: None) if warmup else forward

    runner.cudagraph_manager.capture(create)
    part.captured()
    assert seen == [(0, Stage.CAPTURE)]
    assert [(d.id, d.mode, d.runner) for d in probe.of(records.Descriptor)] == [(0, "PIECEWISE", "v2")]


def test_a_breakable_step_counts_the_graphs_between_its_breaks(wrappers: SimpleNamespace) -> None:
    seen: list[Any] = []
    breakable, key = Breakable(seen), Batch(8, 8, uniform=True)
    worker = Worker(RunnerV1())
    probe, part = part_of(Role.WORKER, worker)
    part.loaded()
    wrappers.cudagraph_runtime_mode = Mode.PIECEWISE
    breakable.run(key)
    part.captured()
    part.arm()
    worker.model_runner.graph = SimpleNamespace(replay=lambda: breakable.run(key))
    worker.step(scheduled(cached=DECODE))
    worker.step(scheduled(cached=DECODE))
    (step,) = counted(probe, part)
    assert seen == [(0, Stage.CAPTURE)]
    assert step.replays == 6
    assert [(d.mode, d.runner) for d in probe.of(records.Descriptor)] == [
        ("PIECEWISE", "breakable"),
        ("FULL", "v1"),
    ]


# Three requests with 3 drafts each: 4 rows a request; "b" had one draft fewer, so lengths are not equal.
DRAFTED = {"a": (40, 4, 9), "b": (10, 3, 9), "c": (30, 4, 9)}
DRAFTS = {"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3]}


@pytest.mark.parametrize(
    ("threshold", "on_prefill"),
    [
        (4, 0),  # all 11 rows are decode
        (0, 8),  # all three are prefill: 11 rows, of which 3 are no drafts
        (3, 6),  # "a" and "c" are prefill: 8 rows, 2 of them no drafts
    ],
)
def test_drafts_that_are_verified_on_the_prefill_side_are_counted(
    monkeypatch: pytest.MonkeyPatch, threshold: int, on_prefill: int
) -> None:
    builder = Builder([4, 3, 4], threshold)
    monkeypatch.setattr(RunnerV1, "vllm_config", SimpleNamespace(speculative_config=SimpleNamespace()))
    runner = RunnerV1()
    vars(runner)["attn_groups"] = [[SimpleNamespace(metadata_builders=[builder])]]
    worker = Worker(runner)
    probe, part = armed(Role.WORKER, worker)
    monkeypatch.setattr(runner, "graph", SimpleNamespace(replay=lambda: builder.build(0)))
    monkeypatch.setattr(steps_kit.Dispatcher, "dispatch", lambda _self, rows: (Mode.FULL, Batch(rows)))
    worker.step(scheduled(cached=DRAFTED, drafts=DRAFTS))
    (step,) = counted(probe, part)
    assert (step.spec_rows_sum, step.spec_rows_on_prefill_sum) == (8, on_prefill)
    probe.patches.undo()
    assert "build" not in vars(builder)


def test_without_metadata_that_tells_the_side_of_drafts_is_not_known() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=DRAFTED, drafts=DRAFTS))
    (step,) = counted(probe, part)
    assert (step.spec_rows_sum, step.spec_rows_on_prefill_sum) == (8, -1)
