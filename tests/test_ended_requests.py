"""What lies between one client's last token and the next one's prompt is no step time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import recording
from steps import DECODE, MODEL, one_step

from m3probe.analyzers._steptime import step_times

PREFILL = "execute_context_1(500)_generation_0(0)"
MIXED = "execute_context_1(500)_generation_1(1)"


def trace(*said: str, last_us: float) -> list[dict[str, Any]]:
    """One step each 1,000 us, the last at ``last_us``; 32 kernels of 8 us, one each 10 us: 318 us from first to end."""
    at = [1000.0 * (i + 1) for i in range(len(said) - 1)] + [last_us]
    return [e for i, word in enumerate(said) for e in one_step(at[i], 100 * (i + 1), MODEL, dur_us=8.0, said=word)]


@pytest.mark.parametrize("after", [MIXED, DECODE])
def test_where_a_request_goes_on_the_wait_is_the_step_s(tmp_path: Path, after: str) -> None:
    rec = recording(tmp_path, trace(DECODE, DECODE, after, last_us=5000.0))
    assert step_times(rec).window_ns.tolist() == [1_000_000, 3_000_000, 318_000]


def test_a_prefill_before_a_prefill_may_go_on(tmp_path: Path) -> None:
    """A prompt in several chunks is one step of prefill after the other."""
    rec = recording(tmp_path, trace(PREFILL, PREFILL, last_us=5000.0))
    assert step_times(rec).window_ns.tolist() == [4_000_000, 318_000]
