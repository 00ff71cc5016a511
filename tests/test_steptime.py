"""Step time on the GPU: where a step's window ends, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import recording
from steps import FLASH, GEMM, one_step
from tree import ROOT

from m3probe.analyzers import next_bottleneck
from m3probe.analyzers._steptime import step_times
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.sources import open_recording

US = 1000


def said(prefills: int, decodes: int) -> str:
    return f"execute_context_{prefills}({prefills * 100})_generation_{decodes}({decodes})"


def steps_of(tmp_path: Path, *batches: tuple[int, int], gap_us: float = 10_000.0) -> Recording:
    """One step of two kernels (1 to 3 and 11 to 13 us) for each batch of (prefills, decodes), ``gap_us`` apart."""
    events = []
    for i, batch in enumerate(batches):
        events += one_step(1.0 + i * gap_us, 100 * (i + 1), [GEMM, FLASH], said=said(*batch))
    return recording(tmp_path, events)


@pytest.mark.parametrize(
    ("batches", "emptied"),
    [
        # one request ends, two others come and are the only ones that decode then: nobody waited for 10 ms
        (((0, 1), (2, 0), (0, 2)), [True, False, False]),
        (((0, 4), (1, 0), (2, 1), (0, 3)), [True, False, False, False]),
        # three decode where one was prefilled: two of them waited for its prefill
        (((0, 2), (1, 0), (0, 3)), [False, False, False]),
        # the requests go on
        (((0, 2), (0, 2), (0, 1)), [False, False, False]),
        # whether the two went on is not seen
        (((0, 2), (1, 0)), [False, False]),
        # chunks of one prompt follow one another, and a step that prefills too leaves a request behind
        (((1, 0), (1, 0), (0, 1)), [False, False, False]),
        (((1, 1), (1, 0), (0, 1)), [False, False, False]),
    ],
)
def test_the_time_until_somebody_asks_again_is_no_step_time(
    tmp_path: Path, batches: tuple[tuple[int, int], ...], emptied: list[bool]
) -> None:
    times = step_times(steps_of(tmp_path, *batches))
    assert times.emptied.tolist() == emptied
    last = len(batches) - 1
    # first kernel's start to the next step's, or 12 us to the own last end
    assert times.window_ns.tolist() == [12 * US if e or i == last else 10_000 * US for i, e in enumerate(emptied)]
    assert times.followed.tolist() == [not e and i != last for i, e in enumerate(emptied)]
    assert times.tail_ns.tolist() == [0 if e or i == last else 9_988 * US for i, e in enumerate(emptied)]


def test_steps_that_do_not_tell_their_requests_are_followed(tmp_path: Path) -> None:
    events = [e for i in range(3) for e in one_step(1.0 + i * 100.0, 100 * (i + 1), [GEMM], said=f"ProfilerStep#{i}")]
    times = step_times(recording(tmp_path, events))
    assert not times.emptied.any()
    assert times.followed.tolist() == [True, True, False]


def test_an_empty_server_between_two_loads_is_not_sold_as_idle_time() -> None:
    # seven decode steps, of which one waits 838 ms until the next load begins: 98 % idle would be the client's
    rec = open_recording([ROOT / "samples" / "compare-h200" / "nested"])
    findings = {f.id: f for f in next_bottleneck.ANALYZER.judge(rec, Answer()).findings}
    idle = findings["next_bottleneck.idle"]
    assert idle.bound is not None
    assert 0.3 < idle.bound.high < 0.6  # the same server's busy windows: 0.53 and 0.61
    assert "after 1 step(s) no request was left, which is not counted" in idle.claim
