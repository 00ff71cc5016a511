"""A few examples of every fuzzer (tests/fuzz; longer runs: ``python benchmarks/fuzz.py``), and that faults are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import running
from fuzz.running import formats, run

from m3probe.present import escape
from m3probe.readers import kineto
from m3probe.readers._process import Process

EXAMPLES = 4


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where failing examples go: a planted fault's must not lie among real ones."""
    monkeypatch.setattr(running, "KEPT", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize("name", formats())
def test_a_few_examples_of_each_format(name: str) -> None:
    outcome = run(name, 20.0, 11, EXAMPLES)
    assert not outcome.failure, outcome.failure


def planted(monkeypatch: pytest.MonkeyPatch, seconds: float = 60.0) -> str:
    monkeypatch.setattr(running, "SHRINKING_S", 0.5)
    return run("kineto", seconds, 1, 400).failure


def test_a_failing_example_is_kept(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    whole = kineto.Gather.column

    def longer(self: Any, *where: str) -> Any:
        column = whole(self, *where)
        return column + 1 if where == ("kernels", "dur_ns") else column

    monkeypatch.setattr(kineto.Gather, "column", longer)
    assert "kernel_time_ns" in planted(monkeypatch)
    (folder,) = kept.iterdir()
    assert {path.name for path in folder.iterdir()} > {"WHY.txt"}


@pytest.mark.parametrize("name", ["rocprof_csv", "rocprof_json", "rocpd", "rpd", "nsys", "perfetto_trace"])
def test_a_nanosecond_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = Process.put

    def shorter(self: Process, part: str, **columns: Any) -> None:
        if part == "kernels":
            columns["dur_ns"] = np.maximum(columns["dur_ns"] - 1, 0)
        whole(self, part, **columns)

    monkeypatch.setattr(Process, "put", shorter)
    monkeypatch.setattr(running, "SHRINKING_S", 0.1)
    assert "kernel_time_ns" in run(name, 60.0, 1, 100).failure


def test_an_error_of_no_known_kind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(kineto, "notes_of", falls)
    assert "ZeroDivisionError: planted" in planted(monkeypatch)


def test_text_that_acts_on_a_terminal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape, "_spelt", lambda char: char)
    assert "raw in the" in planted(monkeypatch)
