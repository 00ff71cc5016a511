"""``m3probe compare`` as a user meets it: words, exit status, the page and the JSON."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import jsonschema
import pytest
from command_kit import ran
from runs_kit import rate, run, serve
from tree import ROOT

from m3probe.comparing import AskedRun, compare
from m3probe.model import compare_bench, compare_report, compare_run, findings
from m3probe.model import report as report_rows
from m3probe.present._page import cells
from m3probe.present.compare_text import compare_text
from m3probe.present.json import compare_json

PROGRAM = Path(sys.executable).with_name("m3probe")
SAMPLES = ROOT / "samples"
EAGER, GRAPH = (SAMPLES / f"h200-m3-tp4rank-{mode}.pt.trace.json.gz" for mode in ("eager", "graph"))


def m3probe(*words: object, **env: str) -> CompletedProcess[str]:
    return ran("compare", *words, COLUMNS="100", **env)


def files(tmp_path: Path) -> tuple[Path, Path]:
    """Results of two equal points, 708.0 and 707.7 tokens/s/GPU."""
    a, b = (run(tmp_path, name, [rate(value)]) for name, value in (("a", 708.0), ("b", 707.7)))
    return a.paths[0], b.paths[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0),
        (("--require", "same-contract"), 4),  # the build and more are not known
        (("--require", "faster"), 1),
        (("--require", "executed:quick_reduce"), 4),
        (("--require", "faster", "--require", "same-contract"), 1),  # a failure before what is open
        (("--require", "quicker"), 2),
        (("--require", "executed:quick_reduse"), 2),
        (("--recipe", "x.sh", "--recipe", "y.sh", "--recipe", "z.sh"), 2),
        (("--recipe", "gone.sh"), 3),
        (("--eval", "x.json"), 2),
        (("--eval", "gone.json", "--eval", "gone.json"), 3),
        (("--vllm", "0.32.0"), 2),
        (("--run", "c"), 2),
        (("--run", "c", "gone.json"), 3),
        (("gone.json",), 3),
    ],
)
def test_exit_status(tmp_path: Path, words: Sequence[str], code: int) -> None:
    done = m3probe(*files(tmp_path), *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) is (code in (2, 3))


def test_one_run_is_no_comparison(tmp_path: Path) -> None:
    for words in ((), (files(tmp_path)[0],), ("--run", "a", files_of(tmp_path))):
        done = m3probe(*words)
        assert (done.returncode, "needs two runs or more" in done.stderr) == (2, True), done.stderr


def files_of(tmp_path: Path) -> Path:
    return tmp_path / "a" / "bench.json"


def test_a_path_that_ran_holds_and_one_that_did_not_fails() -> None:
    assert m3probe(EAGER, GRAPH, "--require", "executed:graph_replay").returncode == 0
    assert m3probe(GRAPH, EAGER, "--require", "executed:graph_replay").returncode == 1


def test_named_runs_of_several_files_stand_behind_the_bare_ones(tmp_path: Path) -> None:
    a, b = files(tmp_path)
    done = m3probe(a, "--json", "--run", "both", b, GRAPH, "--run", "trace", EAGER)
    found = json.loads(done.stdout)
    assert [(row["name"], len(row["inputs"])) for row in found["runs"]] == [("a", 1), ("both", 2), ("trace", 1)]
    assert [(p["before"], p["after"]) for p in found["pairs"]] == [("a", "both"), ("a", "trace")]


def test_a_recipe_for_all_and_one_for_each(tmp_path: Path) -> None:
    a, b = files(tmp_path)
    eager, plain = tmp_path / "eager.sh", tmp_path / "plain.sh"
    eager.write_text(serve("--enforce-eager"))
    plain.write_text(serve())
    shared = json.loads(m3probe(a, b, "--json", "--recipe", plain, "--vllm", "0.32.0", "--gpu", "mi355x").stdout)
    assert shared["pairs"][0]["contract"]["settings"] == []
    assert shared["pairs"][0]["contract"]["verdict"] == "same"
    each = json.loads(m3probe(a, b, "--json", "--recipe", eager, "--recipe", plain, "--vllm", "0.32.0").stdout)
    assert [s["name"] for s in each["pairs"][0]["contract"]["settings"]] == ["--enforce-eager"]
    # nobody named the GPU: one that is assumed for both is no fact about either
    states = {t["topic"]: t["state"] for t in each["pairs"][0]["contract"]["topics"]}
    assert states["hardware"] == "unknown"


@pytest.mark.parametrize(("after", "verdict"), [(0.955, "same"), (0.942, "same"), (0.925, "worse")])
def test_evaluations_of_both_are_held_against_their_band(tmp_path: Path, after: float, verdict: str) -> None:
    """1,319 questions at 0.95: each is known to 0.006, so that equal servers lie up to 0.017 apart."""
    for name, accuracy in (("one", 0.95), ("two", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"accuracy": accuracy, "num_questions": 1319}))
    words = ("--eval", tmp_path / "one.json", "--eval", tmp_path / "two.json")
    found = json.loads(m3probe(*files(tmp_path), "--json", *words).stdout)["pairs"][0]["metrics"]["evaluation"]
    assert (found["a"], found["b"], found["verdict"]) == (0.95, after, verdict)
    assert found["band"] == pytest.approx(2 * (0.95 * 0.05 / 1319 + after * (1 - after) / 1319) ** 0.5)


def test_a_hostile_name_reaches_no_terminal(tmp_path: Path) -> None:
    a, b = files(tmp_path)
    done = m3probe("--run", "\x1b[31mred\u202e", a, "--run", "<b>", b)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "\x1b" not in m3probe("--json", "--run", "\x1b[31m", a, "--run", "b", b).stdout


def test_streams_colour_and_a_closed_pipe(tmp_path: Path) -> None:
    a, b = files(tmp_path)
    assert "\x1b" not in m3probe(a, b, NO_COLOR="1").stdout
    command = f"LC_ALL=C PYTHONIOENCODING=ascii {PROGRAM} compare {a} {b}"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.isascii()
    command = f"{PROGRAM} compare {a} {b} --require faster | head -1; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 1


# --- the page ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("explain", [False, True])
def test_no_line_is_wider_than_the_page(width: int, explain: bool) -> None:
    page = compare_text(compare([AskedRun((EAGER,)), AskedRun((GRAPH,))]), width, color=False, explain=explain)
    assert max(cells(line) for line in page.splitlines()) <= width


def test_the_page_tells_doubt_answer_contract_credit_and_parts_in_this_order() -> None:
    report = compare([AskedRun((EAGER,)), AskedRun((GRAPH,))], ("faster",))
    page = compare_text(report, 110, color=False, explain=False)
    words = (
        "Answer",
        "Contract",
        "Settings",
        "Credit",
        "Bottleneck",
        "decode steps of up to 8 rows",
        "Trail",
        "Required",
    )
    places = [page.index(word) for word in words]
    assert places == sorted(places)
    assert "of the change" in page
    assert "((" not in page
    explained = compare_text(report, 110, color=False, explain=True)
    assert "explained = ((" in explained
    assert len(explained.splitlines()) > len(page.splitlines())


# --- the JSON ----------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "compare.schema.json").read_text())
    return found


def documents(tmp_path: Path) -> list[dict[str, Any]]:
    """Two traces, two recordings with a configuration, and two benchmarks with recipes and what was required."""
    traces = compare([AskedRun((EAGER,)), AskedRun((GRAPH,))], ("executed:graph_replay", "faster"))
    live = compare([AskedRun((SAMPLES / f"live-h200-m3-{mode}",)) for mode in ("eager", "graph")])
    values = [rate(700.0 * f, mean_tpot_ms=70 / f, mean_ttft_ms=900.0) for f in (0.999, 1.0, 1.001)]
    other = [rate(800.0 * f, mean_tpot_ms=60 / f, mean_ttft_ms=901.0) for f in (0.999, 1.0, 1.001)]
    bench = compare([run(tmp_path, "a", values, serve("--enforce-eager")), run(tmp_path, "b", other, serve())])
    return [json.loads(compare_json(report)) for report in (traces, live, bench)]


def objects(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        yield at, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*at, key))


def test_what_is_written_fits_the_schema_and_an_unknown_or_missing_key_does_not(tmp_path: Path) -> None:
    known = jsonschema.Draft202012Validator(schema())
    tried = 0
    for found in documents(tmp_path):
        assert [error.message for error in known.iter_errors(found)] == []
        seen: set[frozenset[str]] = set()
        for place, value in objects(found):
            if frozenset(value) in seen or not value:
                continue
            seen.add(frozenset(value))
            for change in ("extra", next(iter(value))):
                broken = copy.deepcopy(found)
                inside: Any = broken
                for key in place:
                    inside = inside[key]
                inside.pop(change, None) if change in inside else inside.update(extra=1)
                assert not known.is_valid(broken), (place, change)
                tried += 1
    assert tried > 60


def test_the_schema_describes_every_row(tmp_path: Path) -> None:
    rows = [
        kind
        for module in (compare_report, compare_bench, compare_run, findings, report_rows)
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ in schema()["$defs"]
    ]
    described = {kind.__name__: {field.name for field in fields(kind)} for kind in rows}
    assert described.keys() == schema()["$defs"].keys()
    for name, keys in described.items():
        assert schema()["$defs"][name]["properties"].keys() == keys, name
    used = documents(tmp_path)[0]
    assert set(used) == {field.name for field in fields(compare_report.CompareReport)}
