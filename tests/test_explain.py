"""``analyze --explain``: the arithmetic as it is printed, on a real sample, and what an unknown word gets."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from arithmetic import worth
from tree import ROOT

from m3probe import cli

GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("sys.argv", ["m3probe", "analyze", *words])
    return cli.main()


def test_every_printed_sum_is_right(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, str(GRAPH), "--explain") == 0
    said = capsys.readouterr().out
    sums = re.findall(r"numbers\s+(.*?) = ([\d.e-]+) = ", re.sub(r"\n {10,}", " ", said))
    assert len(sums) > 5
    for expression, result in sums:
        assert worth(expression) == pytest.approx(float(result), rel=1e-5)
    # an independent reader of this sample finds 22,994,799 of 65,127,840 ns with GPU work
    assert "(65,127,840 ns - 22,994,799 ns) / 65,127,840 ns = 0.646928 = 64.7 %" in said
    assert said.count("wrong if") == said.count("place  ")


def test_a_file_behind_explain_is_an_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--explain", str(GRAPH)) == 0
    before = capsys.readouterr().out
    assert run(monkeypatch, str(GRAPH), "--explain") == 0
    assert capsys.readouterr().out == before


def test_a_file_of_this_folder_behind_explain_is_an_input_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(GRAPH, tmp_path / "shapes.starved")
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "--explain", "shapes.starved") == 0
    assert "Ranking" in capsys.readouterr().out


def test_one_finding_by_its_id(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--explain", "shapes.starved.decode", str(GRAPH)) == 0
    said = capsys.readouterr().out
    assert "(22,994,799 ns - 21,234,377 ns) / 65,127,840 ns" in said
    assert "next_bottleneck.idle" not in said
    assert "wrong if" in said


def test_a_finding_without_a_bound_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--explain=queues.unmeasured", str(GRAPH)) == 0
    said = capsys.readouterr().out
    assert "none: nothing was measured" in said
    assert "not ranked" in said


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_unknown_finding_is_a_usage_error_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    assert run(monkeypatch, str(GRAPH), "--explain", "shapes.starved.prefil", *more) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "shapes.starved.decode" in said.err


def test_json_is_the_report_with_or_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(GRAPH), "--json") == 0
    plain = capsys.readouterr().out
    assert run(monkeypatch, str(GRAPH), "--json", "--explain") == 0
    assert capsys.readouterr().out == plain
    document = json.loads(plain)
    assert document["ranking"][0]["finding"] == document["next_bottleneck"]["finding"]


def test_an_input_without_any_bound_explains_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(ROOT / "tests/data/cases/k30_no_gpu_events.json"), "--explain") == 0
    assert "No next bottleneck is named" in capsys.readouterr().out
