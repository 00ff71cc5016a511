"""Windows open on all ranks at one step or on none, whatever number each rank gives that step."""

from types import SimpleNamespace
from typing import Any

import pytest

from m3probe.attach.align import Start, by_rows, standing
from m3probe.attach.windows import MARGIN_STEPS, Windows
from m3probe.schema.control import Answer, Ask, Done, ProfileWindow, Refused, Twin
from m3probe.schema.records import Kernels, StepRow


def starts(first_step: int, at_ns: list[int], rows: list[int] | None = None) -> list[Start]:
    """Steps in a row from ``first_step`` on."""
    return [Start(first_step + i, t, (rows or [2] * len(at_ns))[i]) for i, t in enumerate(at_ns)]


TIMES = [0, 4_000_000, 8_000_000, 13_000_000, 17_000_000, 21_000_000, 30_000_000]


def test_ranks_that_began_to_count_at_different_steps_are_matched_by_the_time_of_their_steps() -> None:
    late = starts(0, [t + 100_000 for t in TIMES[1:]])
    assert by_rows({7: starts(40, TIMES), 8: late}) == {7: 0, 8: -41}


@pytest.mark.parametrize(
    "other",
    [
        [],
        starts(0, TIMES[:3]),
        starts(0, [t + 2_000_000 for t in TIMES]),
        starts(0, TIMES, [3] * 7),
        [*starts(0, TIMES[:4]), *starts(5, TIMES[4:])],
    ],
    ids=["no rows", "too few", "half a step apart", "other rows", "a step is missing"],
)
def test_rows_that_leave_a_doubt_match_nothing(other: list[Start]) -> None:
    assert by_rows({7: starts(40, TIMES), 8: other}) is None


def test_counters_match_only_while_none_moves() -> None:
    assert standing({7: 40, 8: 3}, {7: 40, 8: 3}) == {7: 0, 8: -37}
    assert standing({7: 40, 8: 3}, {7: 40, 8: 4}) is None
    assert standing({}, {}) is None


class Ranks:
    """Two workers whose counters stand still; ``refuses``: the pid that will not."""

    def __init__(self, refuses: int = -1) -> None:
        self.refuses = refuses
        self.told: list[tuple[int, Ask]] = []
        self.all: list[Any] = [SimpleNamespace(pid=7, status=SimpleNamespace(step=40))]
        self.all.append(SimpleNamespace(pid=8, status=SimpleNamespace(step=3)))

    def workers(self) -> list[Any]:
        return self.all

    def poll(self) -> None:
        """Nothing moves."""

    def tell(self, guest: Any, message: Ask) -> Answer:
        self.told.append((guest.pid, message))
        return Refused(text="no room", next_move="Ask for fewer") if guest.pid == self.refuses else Done()


def opened(ranks: Ranks, kind: str, monkeypatch: pytest.MonkeyPatch) -> Windows:
    monkeypatch.setattr("m3probe.attach.windows.time.sleep", lambda _seconds: None)
    windows = Windows(ranks, lambda _text: None, lambda: 0.0, lambda: None)  # type: ignore[arg-type]
    windows.open(kind, 5)
    return windows


def test_each_rank_is_asked_for_its_own_number_of_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    windows = opened(ranks, "twin", monkeypatch)
    assert ranks.told == [(7, Twin(at=40 + MARGIN_STEPS, steps=5)), (8, Twin(at=3 + MARGIN_STEPS, steps=5))]
    for guest in ranks.all:
        guest.status.step += MARGIN_STEPS + 4
    windows.watch()
    assert (windows.waiting, windows.ended) == (True, [])
    for guest in ranks.all:
        guest.status.step += 1
    windows.watch()
    assert [(w.kind, w.pid, w.state) for w in windows.ended] == [("twin", 7, "done"), ("twin", 8, "done")]
    assert not windows.waiting


def test_where_one_rank_refuses_the_others_take_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(refuses=8)
    windows = opened(ranks, "profile", monkeypatch)
    last_pid, last = ranks.told[-1]
    assert last_pid == 7
    assert isinstance(last, ProfileWindow)
    assert last.steps == 0
    (ended,) = windows.ended
    assert (ended.pid, ended.state, ended.text) == (8, "refused", "no room. Ask for fewer")
    assert not windows.waiting


@pytest.mark.parametrize(("after", "said"), [(96.0, False), (94.0, True)])
def test_a_step_rate_that_does_not_return_within_five_percent_is_reported(
    after: float, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = opened(Ranks(), "profile", monkeypatch)
    windows.seen(7, Kernels(state="done", steps=5, before_steps_per_s=100.0, after_steps_per_s=after))
    assert ("the step rate did not return: 100.0 -> 94.0 steps/s" in windows.ended[0].text) is said
    assert windows.waiting


def test_ranks_that_cannot_be_matched_get_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    monkeypatch.setattr("m3probe.attach.windows.ALIGN_S", 0.01)
    monkeypatch.setattr(ranks, "poll", lambda: setattr(ranks.all[0].status, "step", ranks.all[0].status.step + 1))
    windows = opened(ranks, "twin", monkeypatch)
    assert ranks.told == []
    assert "cannot be matched" in windows.ended[0].text


def test_rows_without_a_start_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = opened(Ranks(), "twin", monkeypatch)
    windows.seen(7, StepRow(step=1, phase="decode", rows=2))
    windows.seen(7, StepRow(step=2, phase="decode", rows=2, t_start=9))
    assert windows.starts == {7: [Start(2, 9, 2)]}
