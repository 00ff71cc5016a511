"""Steps: what each computed, counted exactly, in a worker of either runner and in the engine."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from steps_kit import Execution, Graph, Mode, RunnerV1, RunnerV2, Scheduler, Told, Worker, installed, scheduled

from m3probe.collectors._now import NOW, Now
from m3probe.collectors._steps_plan import plan_of
from m3probe.collectors.steps import Steps
from m3probe.schema import control, records
from m3probe.schema.roles import Role, Stage

PROMPT = {"a": (0, 40), "b": (0, 100)}
LATER = {"a": (40, 1, 1), "b": (100, 1, 1), "c": (7, 1, 3)}

MADE: list[Told] = []


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    installed(monkeypatch)
    MADE.clear()
    yield
    for probe in MADE:
        probe.patches.undo()
    for name in Now.__slots__:
        setattr(NOW, name, getattr(Now(), name))


def part_of(role: Role, host: Any) -> tuple[Told, Steps]:
    probe = Told()
    MADE.append(probe)
    probe._hosts[role] = lambda: host  # type: ignore[assignment]
    part = Steps(probe)
    part.role = role
    probe.parts.append(("steps", role, part))
    return probe, part


def armed(role: Role, host: Any, seconds: float = 0.0) -> tuple[Told, Steps]:
    probe, part = part_of(role, host)
    probe.options = control.Arm(folder="", owner="", windows=seconds)
    part.loaded()
    part.captured()
    part.arm()
    return probe, part


def counted(probe: Told, part: Steps) -> list[records.StepCount]:
    part.tick()
    return [count for record in probe.of(records.StepCounts) for count in record.steps]


def test_a_prompt_is_prefill_and_its_key_lengths_are_what_it_scheduled() -> None:
    plan = plan_of(scheduled(PROMPT))
    assert (plan.phase, plan.rows, plan.requests, plan.ctx_reqs, plan.ctx_rows) == ("prefill", 140, 2, 2, 140)
    assert (plan.gen_reqs, plan.gen_rows, plan.ctx_seq_len_sum, plan.gen_seq_len_sum) == (0, 0, 140, 0)


def test_a_cached_prefix_counts_in_the_key_length_and_not_in_the_rows() -> None:
    plan = plan_of(scheduled({"a": (64, 36)}))
    assert (plan.rows, plan.ctx_seq_len_sum) == (36, 100)


def test_one_token_for_each_running_request_is_decode() -> None:
    plan = plan_of(scheduled(cached=LATER))
    # keys: 40+1, 100+1, 7+1
    assert (plan.phase, plan.rows, plan.gen_reqs, plan.gen_seq_len_sum, plan.ctx_reqs) == ("decode", 3, 3, 150, 0)


def test_a_prompt_that_goes_on_makes_a_step_mixed() -> None:
    plan = plan_of(scheduled(cached={"a": (40, 1, 1), "long": (512, 256, 0)}))
    assert (plan.phase, plan.ctx_reqs, plan.ctx_rows, plan.ctx_seq_len_sum) == ("mixed", 1, 256, 768)
    assert (plan.gen_reqs, plan.gen_rows, plan.gen_seq_len_sum) == (1, 1, 41)


def test_drafted_tokens_are_rows_to_verify() -> None:
    plan = plan_of(scheduled(cached={"a": (40, 4, 9), "b": (10, 2, 9)}, drafts={"a": [1, 2, 3], "b": [4]}))
    assert (plan.phase, plan.rows, plan.gen_rows, plan.spec_rows) == ("decode", 6, 6, 4)


def test_a_step_without_tokens_is_empty_and_has_no_number() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled())
    worker.step(scheduled(cached=LATER))
    kinds = {count.phase: count.count for count in counted(probe, part)}
    assert kinds == {"empty": 1, "decode": 1}
    assert probe.step == 1


def test_v1_counts_a_graph_step_by_its_padded_rows_and_an_eager_one_by_its_own() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(PROMPT))
    for _ in range(3):
        worker.step(scheduled(cached=LATER))
    prefill, decode = counted(probe, part)
    assert (prefill.mode, prefill.descriptor, prefill.padded_rows, prefill.count) == ("NONE", -1, 140, 1)
    assert (decode.mode, decode.padded_rows, decode.count, decode.rows_sum, decode.replays) == ("FULL", 8, 3, 9, 3)
    told = probe.of(records.Descriptor)
    assert [(d.id, d.mode, d.padded_rows, d.requests, d.uniform, d.runner) for d in told] == [
        (0, "FULL", 8, 8, True, "v1")
    ]
    assert decode.descriptor == 0


def test_v2_counts_full_replays_that_have_no_forward_context() -> None:
    runner = RunnerV2([Execution(Mode.FULL, 4, 4, 1), Execution(Mode.FULL, 8, 8, 1)])
    worker = Worker(runner)
    runner.cudagraph_manager.capture(lambda _desc, warmup: lambda _mode: None)
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=LATER))
    worker.step(scheduled(cached=dict.fromkeys("abcde", (9, 1, 1))))
    small, large = counted(probe, part)
    assert (small.mode, small.padded_rows, small.rows_sum, small.replays) == ("FULL", 4, 3, 1)
    assert (large.padded_rows, large.rows_sum, large.replays) == (8, 5, 1)
    assert {(d.padded_rows, d.runner) for d in probe.of(records.Descriptor)} == {(4, "v2"), (8, "v2")}


def test_the_capture_of_v2_says_which_batch_is_captured() -> None:
    runner = RunnerV2([Execution(Mode.FULL, 4, 4, 1), Execution(Mode.FULL, 8, 8, 1)])
    probe, part = part_of(Role.WORKER, Worker(runner))
    part.loaded()
    seen = []

    def create(desc: Execution, warmup: bool) -> Any:
        return lambda _mode: seen.append((desc.num_tokens, warmup, NOW.descriptor, NOW.stage))

    runner.cudagraph_manager.capture(create)
    part.captured()
    assert seen == [
        (4, True, 0, Stage.WARMUP),
        (4, False, 0, Stage.CAPTURE),
        (8, True, 1, Stage.WARMUP),
        (8, False, 1, Stage.CAPTURE),
    ]
    assert (NOW.stage, NOW.descriptor) == (Stage.EAGER, -1)
    assert not probe.patches.standing


def test_an_eager_twin_runs_its_steps_without_replay_and_gives_the_flag_back() -> None:
    runner = RunnerV2([Execution(Mode.FULL, 4, 4, 1)])
    worker = Worker(runner)
    runner.cudagraph_manager.capture(lambda _desc, warmup: lambda _mode: None)
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=LATER))
    answer = part.ask(control.Twin(at=2, steps=2))
    assert isinstance(answer, control.Done)
    for _ in range(4):
        worker.step(scheduled(cached=LATER))
    graph, twin = counted(probe, part)
    assert (graph.mode, graph.stage, graph.count) == ("FULL", "eager", 3)
    assert (twin.mode, twin.stage, twin.count, twin.replays) == ("NONE", "twin", 2, 0)
    assert runner.cudagraph_manager._graphs_captured is True


def test_a_twin_for_a_step_that_is_over_is_refused_with_the_step_it_is_at() -> None:
    worker = Worker(RunnerV1())
    _probe, part = armed(Role.WORKER, worker)
    for _ in range(5):
        worker.step(scheduled(cached=LATER))
    answer = part.ask(control.Twin(at=3, steps=2))
    assert isinstance(answer, control.Refused)
    assert "now 5" in answer.text


def test_a_window_keeps_each_step_with_its_times_in_order() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker, seconds=60)
    before = time.monotonic_ns()
    worker.step(scheduled(cached=LATER))
    part.tick()
    (row,) = probe.of(records.StepRow)
    times = [row.t_start, row.t_launch, row.t_launched, row.t_end, row.t_sample_end]
    assert times == sorted(times)
    assert times[0] >= before
    assert (row.t_schedule, row.step, row.rows, row.padded_rows) == (None, 0, 3, 8)


def test_without_a_window_there_are_counts_alone() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=LATER))
    part.tick()
    assert probe.of(records.StepCounts)
    assert not probe.of(records.StepRow)


def test_the_engine_has_the_time_of_planning_and_of_taking_tokens_in() -> None:
    scheduler = Scheduler()
    probe, part = armed(Role.ENGINE, scheduler, seconds=60)
    first, second = scheduled(PROMPT), scheduled(cached=LATER)
    # two batches in flight, as with async scheduling: results come after the next plan
    scheduler.schedule(first)
    scheduler.schedule(second)
    scheduler.update_from_output(first, None)
    scheduler.update_from_output(second, None)
    prefill, decode = counted(probe, part)
    assert (prefill.rows_sum, decode.rows_sum) == (140, 3)
    assert prefill.schedule_ns >= 0
    assert prefill.output_ns >= 0
    assert (prefill.launch_ns, prefill.prepare_ns, prefill.wait_ns) == (-1, -1, -1)
    rows = probe.of(records.StepRow)
    assert [row.step for row in rows] == [0, 1]
    assert rows[0].t_schedule < rows[1].t_schedule < rows[0].t_output < rows[1].t_output


def test_hooks_come_off_and_the_same_functions_stand_again() -> None:
    held = (Worker.execute_model, Worker.sample_tokens, RunnerV1._model_forward, Graph.replay)
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    assert Worker.execute_model is not held[0]
    assert probe.patches.undo() == ()
    part.disarm()
    assert (Worker.execute_model, Worker.sample_tokens, RunnerV1._model_forward, Graph.replay) == held


def test_many_eager_sizes_in_a_second_are_counted_in_bounded_kinds_with_exact_sums() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    sizes = list(range(1_000, 1_100))
    for size in sizes:
        worker.step(scheduled({"a": (0, size)}))
    kinds = counted(probe, part)
    # 1,000 to 1,024, then to 1,088, then to 1,099 -> 1,152
    assert [(k.padded_rows, k.count) for k in kinds] == [(1024, 25), (1088, 64), (1152, 11)]
    assert sum(k.rows_sum for k in kinds) == sum(sizes)
