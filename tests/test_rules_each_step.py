"""``per_step`` of a rule on a path: a mean that fits is not enough where kernels tell each step's own calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace

RULES = """
[[rule]]
path = "sparse_attention"
phase = "decode"
verdict = "executed"
per_step = {calls}
"""


def asserted(tmp_path: Path, calls: int, *per_step: int) -> subprocess.CompletedProcess[str]:
    """Judges a rule of ``calls`` on a trace whose decode steps make ``per_step`` calls each."""
    events, correlation = [], 0
    for at, count in enumerate(per_step, 1):
        events.append(step(1000.0 * at, 900.0, "execute_context_0(0)_generation_8(8)"))
        for call in range(count):
            correlation += 1
            start = 1000.0 * at + 10 * call
            events += [launch(start + 1, correlation), kernel(start + 5, 1.0, correlation, "_gqa_sparse_decode_kernel")]
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.format(calls=calls))
    trace = write_trace(tmp_path / "t.pt.trace.json", events)
    return subprocess.run(
        [sys.executable, "-P", "-m", "m3probe", "assert", rules, trace], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("calls", "per_step", "status"), [(2, (2, 2), 0), (2, (1, 3), 1), (2, (2, 3), 1), (3, (2, 3, 4), 1), (3, (3,), 0)]
)
def test_each_step_has_to_fit(calls: int, per_step: tuple[int, ...], status: int, tmp_path: Path) -> None:
    done = asserted(tmp_path, calls, *per_step)
    assert (done.returncode, done.stderr) == (status, "")
    assert ("observed 1 in 1, 3 in 1 of 2 steps" in done.stdout) is (per_step == (1, 3))
