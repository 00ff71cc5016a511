"""Steps: what each computed, counted exactly, in a worker of either runner and in the engine."""

import time

import pytest
from steps_kit import Graph, RunnerV1, Scheduler, Worker, armed, counted, scheduled, stand_ins

from m3probe.collectors import _steps_plan, _steps_worker
from m3probe.collectors._steps_count import Done
from m3probe.collectors._steps_graphs import asked
from m3probe.collectors._steps_plan import plan_of
from m3probe.schema import records
from m3probe.schema.roles import Role, Stage

__all__ = ["stand_ins"]

PROMPT = {"a": (0, 40), "b": (0, 100)}
LATER = {"a": (40, 1, 1), "b": (100, 1, 1), "c": (7, 1, 3)}


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


def test_the_plan_of_one_output_is_made_once_and_nothing_is_held_after_a_recording() -> None:
    output = scheduled(cached=LATER)
    assert plan_of(output) is plan_of(output)
    assert plan_of(scheduled(cached=LATER)) is not plan_of(output)
    _probe, part = armed(Role.WORKER, Worker(RunnerV1()))
    part.disarm()
    assert _steps_plan._LAST == []


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


def test_whether_there_was_a_graph_is_told_with_padded_rows_and_why_not() -> None:
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(PROMPT))
    for _ in range(3):
        worker.step(scheduled(cached=LATER))
    part.tick()
    told = [record for record in probe.of(records.Dispatch) if record.path == "graph_replay"]
    assert [(d.variant, d.eligible, d.phase, d.size, d.descriptor, d.count, d.reason) for d in told] == [
        ("eager", False, "prefill", 140, -1, 1, "140 rows have no captured graph"),
        ("FULL", True, "decode", 8, 0, 3, ""),
    ]


def test_eager_steps_of_several_sizes_are_one_answer_with_the_least_and_the_most() -> None:
    plan = plan_of(scheduled(cached=LATER))
    done = [
        Done(at, plan, "NONE", -1, rows, 0, 0, Stage.EAGER, 0, 0, 0, 0, 0, -1) for at, rows in enumerate((70, 90, 70))
    ]
    (told,) = asked(done)
    assert (told.count, told.size, told.facts) == (3, -1, {"sizes": 2, "least": 70, "most": 90})
    assert told.reason == "90 rows have no captured graph"


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


def test_steps_that_the_writer_is_too_late_for_are_told_and_not_numbered_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_steps_worker, "MOST_WAITING", 4)
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    for _ in range(7):
        worker.step(scheduled(cached=LATER))
    assert sum(count.count for count in counted(probe, part)) == 4
    worker.step(scheduled(cached=LATER))
    part.tick()
    assert [record.first for record in probe.of(records.StepCounts)] == [3, 7]
    assert [(note.word, note.lossy) for note in probe.of(records.Note)] == [("steps_lost", True)]
    assert "3 steps" in probe.of(records.Note)[0].text
