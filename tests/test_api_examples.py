"""docs/examples: the offline study against a count by plain json, the CI gate as pytest runs it, both by mypy."""

from __future__ import annotations

import base64
import csv
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from builders import kernel, launch, step, write_trace
from test_recount import EAGER, GRAPH, events_of, ns, steps_of, union
from tree import ROOT

import m3probe

pytest_plugins = ["pytester"]

EXAMPLES = ROOT / "docs" / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def example(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return example("offline_study")


@pytest.fixture(scope="module")
def found(study: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The study of the graph sample, in a folder that it makes."""
    result: dict[str, Any] = study.study(GRAPH, tmp_path_factory.mktemp("study") / "new")
    return result


# --- the study ---------------------------------------------------------------------------------------------


def counted() -> dict[int, dict[str, float]]:
    """Decode step -> step, idle, moe_gemm and all kernels in ms, of the graph sample; nothing of m3probe is in it."""
    with (ROOT / "tests/data/families.tsv").open() as file:
        family = {row["name"]: row["family"] for row in csv.DictReader(file, delimiter="\t")}
    events = events_of(GRAPH)
    starts = [start for _, start in steps_of(events)]
    calls = {e["args"]["correlation"]: ns(str(e["ts"])) for e in events if e.get("cat", "").startswith("cuda_")}
    spans: dict[int, list[tuple[int, int]]] = {i: [] for i in range(len(starts))}
    times = {i: {"moe_gemm": 0, "kernels": 0} for i in spans}
    for e in events:
        if e.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            call = calls[e["args"]["correlation"]]
            owner = max(i for i, start in enumerate(starts) if start <= call)
            begin, dur = ns(str(e["ts"])), ns(str(e["dur"]))
            spans[owner].append((begin, begin + dur))
            if e["cat"] == "kernel":
                times[owner]["kernels"] += dur
                times[owner]["moe_gemm"] += dur if family[e["name"]] == "moe_gemm" else 0
    found = {}
    for i in range(1, 10):
        end = min(begin for begin, _ in spans[i + 1]) if spans[i + 1] else max(end for _, end in spans[i])
        window = end - min(begin for begin, _ in spans[i])
        found[i] = {name: time / 1e6 for name, time in times[i].items()}
        found[i] |= {"step": window / 1e6, "idle": (window - union(spans[i])) / 1e6}
    return found


def test_the_study_finds_the_slow_steps_of_the_sample_and_what_they_wait_for(found: dict[str, Any]) -> None:
    steps, wanted = found["steps"], counted()
    assert steps.index.tolist() == list(wanted)
    for name in ("step", "idle", "moe_gemm"):
        assert steps[name].tolist() == pytest.approx([row[name] for row in wanted.values()], abs=1e-9)
    families = steps.drop(columns=["step", "idle"]).sum(axis=1)
    assert families.tolist() == pytest.approx([row["kernels"] for row in wanted.values()], abs=1e-9)
    middle = median(row["step"] for row in wanted.values())
    slow = sorted((i for i in wanted if wanted[i]["step"] > 1.05 * middle), key=lambda i: -wanted[i]["step"])
    assert found["slow"].index.tolist() == slow == [4, 8]
    assert found["slow"]["why"].tolist() == ["idle", "idle"]
    assert found["slow"]["above_median_ms"].tolist() == pytest.approx([wanted[i]["step"] - middle for i in slow])


def test_the_shapes_of_the_study_are_the_traces(found: dict[str, Any]) -> None:
    """lm_head in decode: 9 kernels of one name, which nothing else launches; its floor is its weight over 4.8 TB/s."""
    shapes = found["shapes"]
    name = "nvjet_sm90_tst_512x8_64x3_2x1_v_bz_TNT"
    durs = [ns(str(e["dur"])) for e in events_of(GRAPH) if e.get("cat") == "kernel" and e["name"] == name]
    decode = shapes.loc["decode: 8 x 200064 x 6144 lm_head"]
    assert decode["observed_us"] == pytest.approx(sum(durs[-9:]) / 9 / 1e3)
    moved = 2 * (200064 * 6144 + 8 * 6144 + 8 * 200064)  # weight, input and output in bf16
    assert decode["floor_us"] == pytest.approx(moved / 4.8e12 * 1e6, rel=0.01)
    assert shapes["total_ms"].is_monotonic_decreasing
    assert len(shapes) == 10


def bars(page: str) -> dict[str, list[float]]:
    """Name -> heights of each trace of the page's plotly figures; arrays are base64 of little-endian numbers."""
    found: dict[str, list[float]] = {}
    for start in (match.end() for match in re.finditer(r"Plotly\.newPlot\(\s*\"[0-9a-f-]+\",\s*", page)):
        for trace in json.JSONDecoder().raw_decode(page, start)[0]:
            values = trace["y"]
            if isinstance(values, dict):
                values = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
            found[trace["name"]] = values
    return found


def test_the_page_and_the_pictures_show_the_tables(found: dict[str, Any]) -> None:
    page, png, svg = found["written"]
    assert [path.name for path in found["written"]] == ["study.html", "study.png", "study.svg"]
    shown = bars(page.read_text(encoding="utf-8"))
    assert shown["step time"] == pytest.approx(found["steps"]["step"].tolist())
    assert shown["idle"] == pytest.approx(found["steps"]["idle"].tolist())
    stacked = [name for name in shown if name not in {"step time", "observed_us", "floor_us"}]
    total = np.sum([shown[name] for name in stacked], axis=0)
    assert total.tolist() == pytest.approx(found["steps"].drop(columns="step").sum(axis=1).tolist())
    assert shown["floor_us"] == pytest.approx(found["shapes"]["floor_us"].tolist())
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", page.read_text(encoding="utf-8"))
    assert png.read_bytes()[:8] == PNG
    assert len(set(png.read_bytes())) > 200
    assert ET.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_study_says_what_it_wrote_and_what_it_could_not(
    study: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert study.main([str(GRAPH), str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "no PNG or SVG: matplotlib is not installed" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.html"]
    page = (ROOT / "docs/api.md").read_text()
    shown = [
        line.strip()
        for line in page.partition("samples/h200-m3-tp4rank-graph.pt.trace.json.gz study\n")[2].splitlines()[2:8]
    ]
    assert [line for line in shown if line and line not in [row.strip() for row in said.out.splitlines()]] == []


def test_a_study_without_evidence_ends_as_m3probe_does(
    study: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study.main([str(tmp_path / "nowhere.json")]) == 3
    assert "no such file or folder" in capsys.readouterr().err
    assert study.main([str(GRAPH), str(tmp_path), "mixed"]) == 2
    assert "no step whose time is known (mixed)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_names_of_a_recording_cannot_become_markup(study: ModuleType) -> None:
    import pandas as pd

    steps = pd.DataFrame({"step": [2.0, 3.0], "idle": [1.0, 1.0], "gemm": [1.0, 2.0]}, index=[0, 1])
    evil = "decode: <b>$x$</b>"
    shapes = pd.DataFrame({"observed_us": [2.0], "floor_us": [1.0]}, index=pd.Index([evil], name="shape"))
    _, drawn = study.figures(steps, shapes)
    assert list(drawn.data[0].x) == ["decode: &lt;b&gt;$x$&lt;/b&gt;"]


def test_even_steps_are_not_slow(study: ModuleType, tmp_path: Path) -> None:
    """Three decode steps of the same kernel, each 100 us after the other: no step is slow, and none is a reason."""
    events = []
    for i in range(4):
        at = 100.0 * i
        events += [step(at, 90.0, "execute_context_0(0)_generation_8(8)"), launch(at + 1, i + 1)]
        events += [kernel(at + 10, 5.0, i + 1, "fused_moe_kernel")]
    recording = m3probe.open_recording(write_trace(tmp_path / "even.pt.trace.json", events))
    steps = study.steps_of(recording, m3probe.analyze(recording))
    assert steps["step"].tolist()[:3] == [0.1, 0.1, 0.1]
    assert steps["moe_gemm"].tolist() == [0.005] * len(steps)
    assert study.slow_steps(steps[:3]).empty


# --- the gate ----------------------------------------------------------------------------------------------

PLUGIN = ("-p", "no:m3probe", "-p", "m3probe.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def gate(pytester: pytest.Pytester) -> pytest.Pytester:
    """A team's repository with the example in it."""
    (pytester.path / "ci").mkdir()
    shutil.copy(ROOT / "samples/rules/h200-m3.toml", pytester.path / "ci/fast-paths.toml")
    shutil.copy(EXAMPLES / "ci_gate.py", pytester.path / "ci_gate.py")
    return pytester


def test_the_gate_is_green_where_the_paths_ran_and_keeps_nothing(gate: pytest.Pytester) -> None:
    gate.runpytest_inprocess(*PLUGIN, f"--m3probe-recording={GRAPH}", "ci_gate.py").assert_outcomes(passed=2)
    assert not (gate.path / "m3probe-evidence").exists()


def test_the_gate_is_red_where_graphs_were_lost_and_keeps_the_evidence(gate: pytest.Pytester) -> None:
    done = gate.runpytest_inprocess(*PLUGIN, f"--m3probe-recording={EAGER}", "ci_gate.py")
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(["*FAILED: rule 1: path graph_replay in decode: executed*"])
    kept = gate.path / "m3probe-evidence"
    assert sorted(path.name for path in kept.iterdir()) == ["decode.png", "gate.md", "report.json"]
    table = (kept / "gate.md").read_text()
    assert table.count("**FAILED**") == 1
    assert table.count("| ok |") == 5
    assert "![kernel time of a decode step](decode.png)" in table
    assert json.loads((kept / "report.json").read_text())["summary"]["kernel_count"] == 1995
    assert (kept / "decode.png").read_bytes()[:8] == PNG


def test_a_gate_without_its_rules_says_so_in_the_artefact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without matplotlib: a report with a family in decode, but no picture."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    opened = m3probe.Opened(m3probe.open_recording(GRAPH), (GRAPH,))
    example("ci_gate").keep(opened, tmp_path)
    said = (tmp_path / "gate.md").read_text().splitlines()
    assert said[0] == "ci/fast-paths.toml: no such rules file. Check the path"
    assert said[-1] == "no picture: matplotlib is not installed"
    assert not (tmp_path / "decode.png").exists()


# --- their types -------------------------------------------------------------------------------------------

WRONG = """
import m3probe
report = m3probe.analyze(m3probe.open_recording("x", tp="4"))
print(report.next_bottleneck.finding, report.findings[0].claims)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose site-packages hold m3probe as pip leaves it, and this environment's other packages behind it."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(home)], check=True)
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.copytree(Path(m3probe.__file__).parent, site / "m3probe", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return home / "bin" / "python"


def test_the_examples_are_well_typed_against_the_installed_package(installed: Path, tmp_path: Path) -> None:
    """With one wrong file beside them: a package without types would let that pass too."""
    (tmp_path / "wrong.py").write_text(WRONG)
    files = [*sorted(EXAMPLES.glob("*.py")), tmp_path / "wrong.py"]
    options = ["--strict", "--config-file=", "--ignore-missing-imports", f"--cache-dir={tmp_path / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, f"--python-executable={installed}", *map(str, files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line.partition(": error: ")[2] for line in done.stdout.splitlines() if ": error: " in line]
    assert sorted(line.partition("[")[2].rstrip("]") for line in errors) == [
        "arg-type",
        "attr-defined",
        "union-attr",
    ], done
    assert all("wrong.py" in line for line in done.stdout.splitlines() if ": error: " in line)
