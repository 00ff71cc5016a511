"""Paths to one recording: what belongs together, and what does not."""

from __future__ import annotations

from pathlib import Path

from builders import kernel, launch, step, write_trace

from m3probe import pipeline
from m3probe.model.report import BottleneckSection, TrustSection

DECODE = "execute_context_0(0)_generation_1(1)"


def run_of(path: Path, us: float) -> Path:
    """Two decode steps of one kernel each."""
    events = []
    for at in (100.0, 200.0):
        correlation = int(at)
        events += [step(at, 50.0, DECODE), launch(at + 1, correlation), kernel(at + 10, us, correlation, "gemm")]
    return write_trace(path, events)


def test_two_recordings_of_one_rank_name_no_bottleneck(tmp_path: Path) -> None:
    paths = [run_of(tmp_path / "a.json", 20.0), run_of(tmp_path / "b.json", 40.0)]
    answer = pipeline.analyze(paths).answer
    trust, bottleneck = answer.section(TrustSection), answer.section(BottleneckSection)
    assert trust is not None
    assert bottleneck is not None
    assert (trust.trust.verdict, [r.word for r in trust.trust.reasons]) == ("degraded", ["same_rank"])
    assert bottleneck.next_bottleneck is None
    alone = pipeline.analyze(paths[:1]).answer.section(BottleneckSection)
    assert alone is not None
    assert alone.next_bottleneck is not None


def test_a_folder_is_searched_below_and_foreign_files_are_left_out(tmp_path: Path) -> None:
    below = tmp_path / "profile" / "run1"
    below.mkdir(parents=True)
    run_of(below / "dp0_pp0_tp0_dcp0_ep0_rank0.1.pt.trace.json", 5.0)
    (below / "execution_details.json").write_text('[{"file": "x", "batch_size": 32, "mode": "FULL"}]')
    (below / "profiler_out_0.txt").write_text("Name  Self CPU %")
    rec = pipeline.read([tmp_path])
    assert [f.rank for f in rec.files] == [0]
    assert len(rec.kernels) == 2
    assert [n.text for n in rec.notes] == ["1 file(s) that are no trace left out"]
