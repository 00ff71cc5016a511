"""The eager twin: the steps that were asked for run without replay, on every rank the same, and nothing stays behind."""

import sys
from types import SimpleNamespace

import pytest
from steps_kit import Drafter, Execution, Mode, RunnerV1, RunnerV2, Told, Worker, armed, counted, scheduled, stand_ins

from m3probe.collectors._now import NOW
from m3probe.collectors.steps import Steps
from m3probe.schema import control
from m3probe.schema.roles import Role, Stage

__all__ = ["stand_ins"]

DECODE = {"a": (40, 1, 1), "b": (100, 1, 1), "c": (7, 1, 3)}
FULL_4 = Execution(Mode.FULL, 4, 4, 1)


def captured_v2(drafts: list[Execution] | None = None) -> RunnerV2:
    runner = RunnerV2([FULL_4], drafts)
    runner.cudagraph_manager.capture(runner.create)
    return runner


def stages(probe: Told, part: Steps) -> list[tuple[str, str, int, int]]:
    return [(str(c.stage), c.mode, c.count, c.replays) for c in counted(probe, part)]


def test_v2_runs_the_steps_without_replay_and_gets_its_flag_back() -> None:
    runner = captured_v2()
    worker = Worker(runner)
    probe, part = armed(Role.WORKER, worker)
    worker.step(scheduled(cached=DECODE))
    answer = part.ask(control.Twin(at=2, steps=2))
    assert answer == control.Done(text="steps 2 to 3 run without replay")
    for _ in range(4):
        worker.step(scheduled(cached=DECODE))
    assert stages(probe, part) == [("eager", "FULL", 3, 3), ("twin", "NONE", 2, 0)]
    assert runner.cudagraph_manager._graphs_captured is True


def test_v1_runs_the_steps_without_replay_and_gets_its_flag_back() -> None:
    runner = RunnerV1()
    worker = Worker(runner)
    probe, part = armed(Role.WORKER, worker)
    part.ask(control.Twin(at=1, steps=3))
    for _ in range(6):
        worker.step(scheduled(cached=DECODE))
    assert stages(probe, part) == [("eager", "FULL", 3, 3), ("twin", "NONE", 3, 0)]
    assert vars(runner.cudagraph_dispatcher).get("keys_initialized", True) is True


def test_a_draft_model_s_graphs_are_not_replayed_either() -> None:
    runner = captured_v2(drafts=[FULL_4])
    assert isinstance(runner.speculator, Drafter)
    runner.speculator.capture()
    worker = Worker(runner)
    probe, part = armed(Role.WORKER, worker)
    part.ask(control.Twin(at=1, steps=2))
    for _ in range(4):
        worker.step(scheduled(cached=DECODE))
    # one replay of the target and one of the draft in each of the two other steps
    assert stages(probe, part) == [("eager", "FULL", 2, 4), ("twin", "NONE", 2, 0)]


def test_an_empty_step_between_them_is_not_counted_as_one() -> None:
    worker = Worker(captured_v2())
    probe, part = armed(Role.WORKER, worker)
    part.ask(control.Twin(at=1, steps=2))
    for output in (scheduled(cached=DECODE), scheduled(cached=DECODE), scheduled(), scheduled(cached=DECODE)):
        worker.step(output)
    found = {(c.phase, str(c.stage)): c.count for c in counted(probe, part)}
    assert found[("decode", "twin")] == 2


def test_the_stage_is_over_with_the_last_of_its_steps() -> None:
    worker = Worker(captured_v2())
    _probe, part = armed(Role.WORKER, worker)
    part.ask(control.Twin(at=1, steps=1))
    seen = []
    for _ in range(3):
        worker.step(scheduled(cached=DECODE))
        seen.append(NOW.stage)
    assert seen == [Stage.EAGER, Stage.TWIN, Stage.EAGER]


@pytest.mark.parametrize(
    ("at", "steps", "why"), [(3, 2, "now 5"), (5, 2, "now 5"), (9, -1, "1 to"), (9, 1_001, "1 to")]
)
def test_what_cannot_be_done_is_refused_with_its_number(at: int, steps: int, why: str) -> None:
    worker = Worker(RunnerV1())
    _probe, part = armed(Role.WORKER, worker)
    for _ in range(5):
        worker.step(scheduled(cached=DECODE))
    answer = part.ask(control.Twin(at=at, steps=steps))
    assert isinstance(answer, control.Refused)
    assert why in answer.text


def test_one_that_has_not_begun_can_be_taken_back_and_asked_for_again() -> None:
    worker = Worker(captured_v2())
    probe, part = armed(Role.WORKER, worker)
    part.ask(control.Twin(at=1, steps=3))
    assert part.ask(control.Twin(at=0, steps=0)) == control.Done(text="taken back")
    for _ in range(3):
        worker.step(scheduled(cached=DECODE))
    assert stages(probe, part) == [("eager", "FULL", 3, 3)]
    assert isinstance(part.ask(control.Twin(at=4, steps=1)), control.Done)
    assert [patch.seam for patch in probe.patches.standing].count("twin_dispatch_v2") == 1


def test_where_nothing_is_recorded_it_is_refused() -> None:
    _probe, part = armed(Role.WORKER, Worker(RunnerV1()))
    part.disarm()
    assert isinstance(part.ask(control.Twin(at=9, steps=1)), control.Refused)


def test_a_build_without_the_dispatcher_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm.v1.cudagraph_dispatcher")
    worker = Worker(RunnerV1())
    probe, part = armed(Role.WORKER, worker)
    answer = part.ask(control.Twin(at=1, steps=1))
    assert isinstance(answer, control.Refused)
    assert "twin_dispatch" in answer.text
    worker.step(scheduled(cached=DECODE))
    worker.step(scheduled(cached=DECODE))
    assert [stage for stage, *_ in stages(probe, part)] == ["eager"]


def test_compiled_code_stays_compiled_and_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(compilation_config=SimpleNamespace(mode=SimpleNamespace(value=3)), speculative_config=None)
    monkeypatch.setattr(RunnerV1, "vllm_config", config)
    _probe, part = armed(Role.WORKER, Worker(RunnerV1()))
    answer = part.ask(control.Twin(at=1, steps=1))
    assert isinstance(answer, control.Done)
    assert "stays compiled" in answer.text


def test_all_ranks_run_the_same_steps_because_they_count_the_same_ones() -> None:
    """What each rank is sent differs in nothing: an empty batch has no number on any."""
    outputs = [scheduled(cached=DECODE), scheduled(), scheduled({"n": (0, 9)}), *[scheduled(cached=DECODE)] * 3]
    found = []
    for _rank in range(2):
        worker = Worker(captured_v2())
        probe, part = armed(Role.WORKER, worker, seconds=60)
        part.ask(control.Twin(at=2, steps=2))
        for output in outputs:
            worker.step(output)
        part.tick()
        found.append((probe.step, stages(probe, part)))
        probe.patches.undo()
    assert found[0] == found[1]
    assert found[0][0] == 5
