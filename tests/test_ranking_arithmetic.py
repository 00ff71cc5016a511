"""No formula can lie: the arithmetic of every bound of every input at hand, worked out again."""

from __future__ import annotations

from pathlib import Path

import pytest
from arithmetic import check, check_all, worth
from tree import ROOT

from m3probe import pipeline
from m3probe.errors import M3ProbeError
from m3probe.model.findings import Bound, figure

SAMPLES = sorted(path for path in (ROOT / "samples").iterdir() if path.name not in {"recipes", "rules"})


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_bound_of_a_sample_can_be_worked_out_again(path: Path) -> None:
    assert check_all(pipeline.analyze([path]).answer.findings) > 0


def test_every_bound_of_every_case_can_be_worked_out_again() -> None:
    found = 0
    for path in sorted((ROOT / "tests" / "data" / "cases").iterdir()):
        if path.name.endswith((".expected.json", ".tsv", ".md")):
            continue
        try:
            report = pipeline.analyze([path])
        except M3ProbeError:
            continue  # the case is one that cannot be read
        found += check_all(report.answer.findings)
    assert found > 20


def test_the_evaluator_sees_a_wrong_sum() -> None:
    assert worth("(52,000 ns - 40,000 ns) / 65,000 ns") == pytest.approx(12 / 65)
    assert worth("min(3.5 s / 2 s, 1) * 4 / 5") == pytest.approx(0.8)
    assert worth(f"{figure(1.5e-7, 's')} / {figure(3e-7, 's')}") == pytest.approx(0.5)
    with pytest.raises(AssertionError):
        check(Bound(0.0, 0.3, "", "decode step time", ("12,000 ns / 65,000 ns",)))
    with pytest.raises(ValueError, match="no arithmetic"):
        worth("exit")
