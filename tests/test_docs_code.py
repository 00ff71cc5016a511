"""Code in the documents runs as it stands: the templates are plugs, README's Python gives an answer."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tree import ROOT

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.fastpaths._state import state_at
from m3probe.model.recording import RecordingBuilder
from m3probe.plugs import Analyzer, Reader
from m3probe.schema.paths import FastPath
from m3probe.schema.setup import Held, ModelFacts, Point, Setup, State
from m3probe.schema.verdicts import Phase
from m3probe.sources import no_progress

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"


def blocks(page: str) -> list[str]:
    """Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def template(constant: str, number: int = 0) -> dict[str, Any]:
    """The names that a template of docs/extending.md defines."""
    text = [block for block in blocks("docs/extending.md") if f"{constant} = " in block][number]
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            assert function.returns is not None
            assert all(arg.annotation is not None for arg in function.args.args + function.args.kwonlyargs)
    names: dict[str, Any] = {}
    exec(compile(text, f"docs/extending.md {constant}", "exec"), names)
    return names


def test_the_reader_template_reads(tmp_path: Path) -> None:
    reader = template("READER")["READER"]
    assert isinstance(reader, Reader)
    path = tmp_path / "x.mine"
    path.write_bytes(b"MYFORMAT and more")
    assert reader.sniff(path, path.read_bytes())
    builder = RecordingBuilder()
    reader.read(path, builder, no_progress, in_folder=False)
    assert pipeline.inspect(builder.build()).kind == "my_format"
    path.write_bytes(b"MYFORMAT")
    with pytest.raises(UnreadableInput, match="header is cut"):
        reader.read(path, builder, no_progress, in_folder=False)


def test_the_analyzer_template_judges() -> None:
    analyzer = template("ANALYZER")["ANALYZER"]
    assert isinstance(analyzer, Analyzer)
    rec = pipeline.read([SAMPLE])
    (finding,) = analyzer.judge(rec, pipeline.Answer()).findings
    short = [ns for ns in rec.kernels["dur_ns"].tolist() if 0 <= ns < 2000]
    assert finding.evidence[0].count == len(short) > 0
    taken = {plug.order for _, plug in pipeline.ANALYZERS.plugs()}
    assert analyzer.order not in taken


def test_the_orders_that_the_page_names_are_the_analyzers_own() -> None:
    text = " ".join((ROOT / "docs" / "extending.md").read_text().split())
    for name, plug in pipeline.ANALYZERS.plugs():
        assert f"{plug.order} {name.replace('_', ' ')}" in text


def test_the_fast_path_template_is_one() -> None:
    path = template("FAST_PATH")["FAST_PATH"]
    assert isinstance(path, FastPath)
    assert [variant.names_from_source for variant in path.variants] == [True, True]


def test_the_fast_path_template_with_checks_is_judged_as_it_says() -> None:
    """Off without its variable; with it eligible to 64 rows, and one call in each layer."""
    path = template("FAST_PATH", 1)["FAST_PATH"]
    assert isinstance(path, FastPath)
    on = Setup(env={"VLLM_MY_PATH": "1"}, model=ModelFacts(layers=60))
    small, large = Point(Phase.DECODE, 64, 64), Point(Phase.DECODE, 65, 65)
    assert state_at(path, Setup(), small).state is State.OFF
    assert state_at(path, on, small).state is State.ELIGIBLE
    assert state_at(path, on, large).of(Held.NO) == ("65 rows > 64",)
    assert path.variants[0].expected is not None
    assert path.variants[0].expected(on, small) == 60


def test_readme_python_prints_findings_and_the_next_bottleneck(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = blocks("README.md")
    exec(compile(text.replace('"profile/"', repr(str(SAMPLE))), "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "next_bottleneck." in said
    assert "NextBottleneck(" in said


def test_every_fact_of_inspect_is_explained() -> None:
    from m3probe.analyzers import _inventory, _inventory_kernels

    source = inspect.getsource(_inventory) + inspect.getsource(_inventory_kernels)
    keys = set(re.findall(r'"([a-z]+(?:_[a-z0-9]+)*)":', source)) | set(re.findall(r'facts\["(\w+)"\]', source))
    page = (ROOT / "docs" / "inspect.md").read_text()
    steps = {"phase", "requests", "rows"}
    assert sorted(key for key in keys - steps if f"`{key}`" not in page) == []
