"""A few examples of every fuzzer (tests/fuzz; longer runs: ``python benchmarks/fuzz.py``), and that faults are seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzz import running
from fuzz.running import formats, run

from m3probe.present import escape
from m3probe.readers import kineto

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


def test_a_kernel_that_is_lost_without_a_word_is_seen(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    whole = kineto.Gather.column

    def shorter(self: Any, *where: str) -> Any:
        column = whole(self, *where)
        return column[: max(1, len(column) - 1)] if where[0] == "kernels" else column

    monkeypatch.setattr(kineto.Gather, "column", shorter)
    assert "AssertionError" in planted(monkeypatch)
    (folder,) = kept.iterdir()
    assert {path.name for path in folder.iterdir()} > {"WHY.txt"}


def test_an_error_of_no_known_kind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(kineto, "notes_of", falls)
    assert "ZeroDivisionError: planted" in planted(monkeypatch)


def test_text_that_acts_on_a_terminal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape, "_spelt", lambda char: char)
    assert "raw in the" in planted(monkeypatch)
