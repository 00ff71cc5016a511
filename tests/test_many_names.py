"""A file with more kernel names than any trace has is read in bounded time, and what was not looked at is told."""

from pathlib import Path

import numpy as np
import pytest

from m3probe import pipeline
from m3probe.model.recording import RecordingBuilder
from m3probe.readers import _families
from m3probe.schema.verdicts import FAMILIES, Family


def test_the_most_frequent_names_are_classified_and_the_others_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_families, "MOST_NAMES", 2)
    builder = RecordingBuilder()
    ids = [
        builder.strings.intern(name) for name in ("ncclDevKernel_AllReduce", "rms_norm_kernel", "Cijk_Ailk_Bljk_MT64")
    ]
    rows = np.array([ids[0], ids[1], ids[1], ids[2], ids[2]])
    found = _families.families(rows, np.full(5, -1), builder)
    assert [FAMILIES[i] for i in found] == [Family.UNKNOWN, Family.NORM, Family.NORM, Family.GEMM, Family.GEMM]
    assert [(note.word, note.count) for note in builder.notes] == [("names_unclassified", 1)]


def test_as_many_names_as_are_looked_at_are_all_classified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_families, "MOST_NAMES", 2)
    builder = RecordingBuilder()
    rows = np.array([builder.strings.intern("ncclDevKernel_AllReduce"), builder.strings.intern("rms_norm_kernel")])
    assert [FAMILIES[i] for i in _families.families(rows, rows, builder)] == [Family.COMM, Family.NORM]
    assert builder.notes == []


def test_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_families, "MOST_NAMES", 1)
    event = '{{"ph": "X", "cat": "kernel", "name": "k{0}", "pid": 0, "tid": 1, "ts": {0}, "dur": 1, "args": {{"device": 0}}}}'
    (tmp_path / "t.json").write_text('{"traceEvents": [' + ", ".join(event.format(i + 1) for i in range(3)) + "]}")
    report = pipeline.analyze([tmp_path / "t.json"])
    assert [note.text for note in report.notes if note.word == "names_unclassified"] == [
        "3 distinct kernel names: the 2 least frequent are not classified (family unknown)"
    ]
