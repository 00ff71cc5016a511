"""What ``import m3probe`` promises: its names, its page, its errors, and that guests pay nothing for it."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

import m3probe
from m3probe.model.report import Answer, SummarySection

PAGE = (ROOT / "docs" / "api.md").read_text()
GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"
RECIPE = ROOT / "samples" / "recipes" / "m3-mxfp8-gated.sh"
FUNCTIONS = ("analyze", "compare", "inspect", "judge", "open_recording", "to_json", "to_markdown", "to_text")


@pytest.fixture(scope="module")
def recording() -> m3probe.Recording:
    return m3probe.open_recording(GRAPH)


# --- names -------------------------------------------------------------------------------------------------


def test_all_is_sorted_and_every_name_of_it_is_there() -> None:
    assert m3probe.__all__ == sorted(m3probe.__all__)
    assert set(m3probe.__all__) <= set(dir(m3probe))
    for name in m3probe.__all__:
        assert getattr(m3probe, name) is not None
    with pytest.raises(AttributeError, match="module 'm3probe' has no attribute 'analyse'"):
        _ = m3probe.analyse  # type: ignore[attr-defined]


def test_what_type_checkers_read_is_what_python_loads() -> None:
    tree = ast.parse((ROOT / "m3probe" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    read = {n.module: [alias.name for alias in n.names] for n in block.body if isinstance(n, ast.ImportFrom)}
    loaded = {module: names.split() for module, names in m3probe._FROM.items()}
    assert read == loaded
    assert sorted(name for names in loaded.values() for name in names) == sorted({*m3probe.__all__} - {"__version__"})


def test_every_public_name_and_signature_is_on_the_page() -> None:
    assert [name for name in m3probe.__all__ if f"`{name}" not in PAGE] == []
    public = [name for name in m3probe.__all__ if inspect.isfunction(getattr(m3probe, name))]
    assert public == list(FUNCTIONS)
    for name in FUNCTIONS:
        taken = inspect.signature(getattr(m3probe, name)).parameters.values()
        said = ", ".join(
            str(p.replace(annotation=inspect.Parameter.empty)) for p in taken if p.kind is not p.KEYWORD_ONLY
        )
        said += "".join(f", {p.name}={p.default!r}" for p in taken if p.kind is p.KEYWORD_ONLY)
        assert f"`{name}({said})`" in PAGE


def test_every_field_that_the_page_names_is_there() -> None:
    """The table of types: each word in backticks is an attribute of its type, or a word of its values."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.partition("## Types")[2].partition("###")[0], re.MULTILINE)
    assert len(rows) == 12
    values = {"HOLDS", "FAILED", "INCONCLUSIVE", "RuleOutcome", "rows", "kind", "outcome", "rules", "table"}
    inner = {"verdict", "reasons", "answer", "contract", "phases", "credits", "moved", "basis"}
    for name, told in rows:
        kind = getattr(m3probe, name)
        known = {*dir(kind), *getattr(kind, "__annotations__", {})} | values | inner
        words = [word for quoted in re.findall(r"`([^`]+)`", told) for word in re.findall(r"[A-Za-z]\w+", quoted)]
        assert [w for w in words if w not in known | {"len", "dur_ns"}] == [], name


def test_every_function_says_what_it_takes_gives_and_raises() -> None:
    for name in FUNCTIONS:
        said = inspect.getdoc(getattr(m3probe, name)) or ""
        if name != "to_markdown":
            assert "Args:" in said, name
        if not name.startswith("to_"):
            assert "Returns:" in said, name
            assert "Raises:" in said, name


def test_importing_m3probe_loads_the_standard_library_alone(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import m3probe, json; print(json.dumps(sorted(set(sys.modules) - before)))"
    env = {**os.environ, "PYTHONPATH": str(Path(m3probe.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded - set(sys.stdlib_module_names) == {"m3probe"}
    assert [name for name in json.loads(done.stdout) if name.startswith("m3probe.")] == []


def test_python_in_the_root_of_a_clone_is_told_which_m3probe_it_took() -> None:
    """A plain ``python`` there takes the clone's folder, without the rooms that lie beside it."""
    code = (
        "import m3probe\n"
        "asked = (lambda: m3probe.compare('a', 'b'), lambda: m3probe.judge('a', 'b'), lambda: m3probe.analyze('samples'))\n"
        "for ask in asked:\n"
        "    try: ask()\n"
        "    except m3probe.UsageError as error: print(error)"
    )
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONSAFEPATH"}}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 3
    assert all("is a source folder" in line and "start python -P" in line for line in said), said


def test_the_pages_examples_give_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    examples = doctest.DocTestParser().get_doctest(text, {}, "docs/api.md", "docs/api.md", 0)
    assert len(examples.examples) > 15
    said: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE
    found = doctest.DocTestRunner(optionflags=flags, verbose=False).run(examples, out=said.append)
    assert found.failed == 0, "".join(said)


# --- reading -----------------------------------------------------------------------------------------------


def test_a_list_of_paths_is_the_paths_one_after_the_other() -> None:
    both = m3probe.open_recording([GRAPH, str(EAGER)])
    assert [file.path for file in both.files] == [str(GRAPH), str(EAGER)]
    assert len(both.kernels) == 2059 + 1995  # tests/test_recount.py counts them by plain json
    assert [file.path for file in m3probe.open_recording(GRAPH, EAGER).files] == [str(GRAPH), str(EAGER)]


def test_what_is_known_of_the_run_reaches_the_recording() -> None:
    assert m3probe.open_recording(GRAPH, tp=4, ep=1).meta.tp == 4
    told = m3probe.open_recording(GRAPH, recipe=RECIPE, vllm="0.33.0", gpu="mi355x").meta
    assert told.recipe is not None
    assert (told.recipe.source, told.tp) == (str(RECIPE), 4)
    assert "MI355X" in told.recipe.gpu
    assert told.recipe.build.version == "0.33.0"


@pytest.mark.parametrize(
    ("paths", "named", "said"),
    [
        ([], {}, "no path was given"),
        ([[]], {}, "no path was given"),
        ([GRAPH], {"gpu": "mi355x"}, "of a server that was not given"),
        ([GRAPH], {"tp": 0}, "--tp 0 is no number of ranks"),
        ([GRAPH], {"tp": 4, "ep": 6}, "--ep 6 contradicts --tp 4"),
    ],
)
def test_words_that_say_nothing_or_contradict_each_other_are_usage_errors(paths, named, said) -> None:
    with pytest.raises(m3probe.UsageError, match=said):
        m3probe.open_recording(*paths, **named)


def test_a_missing_file_is_an_input_that_cannot_be_read(tmp_path: Path) -> None:
    for call in (m3probe.open_recording, m3probe.analyze, m3probe.inspect):
        with pytest.raises(m3probe.UnreadableInput, match="no such file or folder") as told:
            call(tmp_path / "nowhere.json")
        assert told.value.exit_code == 3
        assert isinstance(told.value, m3probe.M3ProbeError)


# --- judging -----------------------------------------------------------------------------------------------


def test_a_report_opens_into_what_its_sections_hold(recording: m3probe.Recording) -> None:
    report = m3probe.analyze(recording)
    section = report.section(SummarySection)
    assert section is not None
    assert report.summary is section.summary
    assert report.summary is not None
    assert report.summary.kernel_count == len(recording.kernels) == 2059
    assert report.trust is not None
    assert report.trust.verdict == "complete"
    assert report.findings is report.answer.findings
    assert report.next_bottleneck is not None
    assert report.next_bottleneck.finding in {finding.id for finding in report.findings}
    assert "2,059 kernels, 11 steps" in repr(recording)
    assert len(repr(report)) < 200


def test_a_report_whose_analyzers_all_failed_knows_nothing() -> None:
    report = m3probe.Report("ok", (), Answer())
    assert (report.trust, report.summary, report.next_bottleneck, report.findings) == (None, None, None, ())
    assert repr(report) == "<Report ok: trust not judged, next bottleneck none, 0 findings>"


def test_rules_are_judged_as_the_command_line_judges_them(recording: m3probe.Recording) -> None:
    held = m3probe.judge(recording, RULES)
    assert (held.exit_code, held.count(m3probe.RuleOutcome.HOLDS)) == (0, 6)
    lost = m3probe.judge(EAGER, str(RULES))
    assert (lost.exit_code, lost.count(m3probe.RuleOutcome.FAILED)) == (1, 1)
    assert m3probe.to_text(lost).splitlines()[-1].endswith("exit 1: a rule failed")
    assert json.loads(m3probe.to_json(lost))["exit_code"] == 1
    assert m3probe.to_markdown(lost).count("**FAILED**") == 1
    with pytest.raises(m3probe.UnreadableInput, match="no such rules file"):
        m3probe.judge(recording, "nowhere.toml")


def test_an_assertion_of_the_pytest_plugin_takes_an_opened_recording(recording: m3probe.Recording) -> None:
    from m3probe.pytest_plugin import assert_executed

    assert_executed(recording, "sparse_attention", phase="decode", per_step=6)
    with pytest.raises(AssertionError, match=r"observed: 54 calls in 9 steps \(6 each\)"):
        assert_executed(recording, "sparse_attention", phase="decode", per_step=57)


def test_text_and_json_are_the_command_lines(recording: m3probe.Recording) -> None:
    report = m3probe.analyze(recording)
    text = m3probe.to_text(report, width=80)
    assert "The device is idle for 64.7 %" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert json.loads(m3probe.to_json(report))["summary"]["kernel_count"] == 2059


# --- comparing ---------------------------------------------------------------------------------------------


def test_runs_are_compared_by_the_names_that_are_given() -> None:
    found = m3probe.compare([GRAPH], EAGER, names=["graphs", "eager"], require=["executed:graph_replay"])
    assert [run.name for run in found.runs] == ["graphs", "eager"]
    assert [required.outcome for required in found.required] == ["failed"]
    assert json.loads(m3probe.to_json(found))["pairs"][0]["before"] == "graphs"
    assert "graphs → eager" in m3probe.to_text(found)


@pytest.mark.parametrize(
    ("runs", "named", "said"),
    [
        ([GRAPH], {}, "compare needs two runs or more, got 1"),
        ([GRAPH, EAGER], {"names": ["a"]}, r"1 name\(s\) and 0 recipe\(s\) for 2 run"),
        ([GRAPH, EAGER], {"recipes": [RECIPE] * 3}, r"0 name\(s\) and 3 recipe\(s\) for 2 run"),
        ([GRAPH, []], {}, "a run has no path"),
        ([GRAPH, EAGER], {"require": ["fastest"]}, "not a word of compare"),
    ],
)
def test_runs_that_cannot_be_compared_are_usage_errors(runs, named, said) -> None:
    with pytest.raises(m3probe.UsageError, match=said):
        m3probe.compare(*runs, **named)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: m3probe.open_recording(None), "a NoneType is no path"),
        (lambda: m3probe.open_recording([["a"]]), "a list is no path"),
        (lambda: m3probe.open_recording(b"a"), "b'a' is no path"),
        (lambda: m3probe.open_recording("a\0b"), r"'a\x00b' is no path"),
        (lambda: m3probe.open_recording("a", tp="4"), "tp='4' is no number of ranks"),
        (lambda: m3probe.open_recording("a", ep=True), "ep=True is no number of ranks"),
        (lambda: m3probe.open_recording("a", recipe="r", vllm=33), "vllm=33 is no text"),
        (lambda: m3probe.compare("a", 3), "a int is no path"),
        (lambda: m3probe.judge("a", {}), "a dict is no path"),
        (lambda: m3probe.judge("a", "r", "x"), "a str is no Report"),
        (lambda: m3probe.to_text(None), "a NoneType is no Report or CompareReport or Judgement"),
        (lambda: m3probe.to_json("x"), "a str is no Report or CompareReport or Judgement"),
        (lambda: m3probe.to_markdown({}), "a dict is no Judgement"),
    ],
)
def test_what_is_no_path_and_no_result_is_a_usage_error(call, said) -> None:
    with pytest.raises(m3probe.UsageError) as caught:
        call()
    assert str(caught.value).startswith(said)
