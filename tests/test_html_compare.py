"""Figures and page of a comparison: plotly takes each, values are those of the JSON or worked out by hand, links lead."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import unescape
from math import log, log10
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from page_kit import HOSTILE
from runs_kit import bench, run
from test_tui_comparison import metric, pair, part, report, run_row, steps
from tree import ROOT

from m3probe.cli import main
from m3probe.comparing import AskedRun, compare
from m3probe.model.compare_bench import BenchComparison, MetricVerdict, WorkloadPoint
from m3probe.model.compare_report import OTHER, CompareReport, Contract, Moved, Topic, TrailRow
from m3probe.model.compare_run import PathSeen, StepTimes
from m3probe.model.view import View, Word
from m3probe.present.html.compare_document import compare_html
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import comparison, trail
from m3probe.present.html.section import anchor
from m3probe.present.json import compare_json
from m3probe.present.sheets.targets import target

SAMPLE = ROOT / "samples" / "compare-h200"
NAMES = ("graphs", "flat", "nested", "eager")
CASES = Path(__file__).parent / "data" / "cases"


def shown(found: CompareReport) -> View:
    return View("runs", Word.READ, 1_000.0, compare=found)


def drawn(found: CompareReport) -> dict[str, Figure]:
    """Figures by key, each taken by plotly: an unknown word raises."""
    every = (*comparison.figures(shown(found)), *trail.figures(shown(found)))
    for figure in every:
        go.Figure(data=list(figure.data), layout=dict(figure.layout))
        assert figure.says
        json.dumps(figure.data, allow_nan=False)
    assert len({figure.key for figure in every}) == len(every)
    return {figure.key: figure for figure in every}


@cache
def sample() -> tuple[CompareReport, dict[str, Any], dict[str, Figure]]:
    found = compare([AskedRun((SAMPLE / name,)) for name in NAMES])
    return found, json.loads(compare_json(found)), drawn(found)


# --- against the JSON of four servers ----------------------------------------------------------------------


def test_a_waterfall_ends_at_the_change_and_its_parts_sum_to_it() -> None:
    _, told, figures = sample()
    for place, name in enumerate(NAMES[1:], 1):
        (found,) = figures[f"change-{place}-1"].data
        phase = next(p for p in told["pairs"][place - 1]["phases"] if p["rows"] == 8)
        assert found["measure"][-1] == "total"
        assert found["x"][-1] == pytest.approx(phase["delta_ns"] / 1e3, abs=0.01), name
        assert sum(found["x"][:-1]) == pytest.approx(phase["delta_ns"] / 1e3, abs=0.1), name
        idle = next(p for p in phase["parts"] if p["what"] == "idle")
        assert found["x"][found["y"].index("idle")] == pytest.approx(idle["delta_ns"] / 1e3, abs=0.01)


def test_ratios_stand_where_the_json_says_and_whiskers_are_the_noise() -> None:
    _, told, figures = sample()
    rows = {(m["metric"], m["of"], m["point"]["concurrency"]): m for m in told["pairs"][2]["metrics"]["pairs"]}
    found = {
        name: (x, up, trace["name"])
        for trace in figures["ratios-3"].data
        for name, x, up in zip(trace["y"], trace["x"], trace["error_x"]["array"], strict=True)
    }
    for label, key in (("output tok/s, c1", ("output", "", 1)), ("TPOT ms, c32", ("tpot", "mean", 32))):
        assert found[label][:2] == pytest.approx((rows[key]["ratio"], rows[key]["band"]), abs=1e-5)
    assert found["output tok/s, c1"][2] == "worse"
    assert found["TPOT ms, c32"][2] == "within noise"
    # 6.296 -> 27.439 ms, and twice 1.421 ms of error on 6.296: the JSON's own figures
    (phase,) = (p for p in told["pairs"][2]["phases"] if p["rows"] == 8)
    band = 2 * phase["error_ns"] / phase["before_ns"]
    assert found["decode step ≤ 8"][:2] == pytest.approx((phase["ratio"], band), abs=1e-5)


def test_without_a_contract_no_ratio_is_drawn_and_the_reason_is() -> None:
    found, _, figures = sample()
    assert "ratios-2" not in figures  # nested does other work
    assert {"ratios-1", "ratios-3"} <= figures.keys()
    page = unescape(compare_html(shown(found)))
    assert "nested: no ratio is drawn: not the same contract: model's work" in page


def test_contract_paths_and_credit_are_the_json_s_words() -> None:
    _, told, figures = sample()
    assert words(figures["contract"]) == {
        (topic["topic"], p["after"]): {"equal": "● equal", "differs": "✗ differs"}[topic["state"]]
        for p in told["pairs"]
        for topic in p["contract"]["topics"]
    }
    ran = words(figures["compared-paths"])
    assert [ran["graph replay", f"{name} decode"] for name in NAMES] == ["●", "●", "●", "·"]
    assert ran["index top-k reuse", "nested decode"] == "!"
    credit = words(figures["credit"])
    assert credit["eager", "decode"] == "credited"
    assert credit["flat", "all that was measured"] == "suspect not executed"


def words(figure: Figure) -> dict[tuple[str, str], str]:
    """(row, column) -> text of a matrix."""
    return {
        (row, column): text
        for trace in figure.data
        for row, line in zip(trace["y"], trace["text"], strict=True)
        for column, text in zip(trace["x"], line, strict=True)
        if text
    }


def test_points_are_the_clients_and_boxes_are_the_steps() -> None:
    _, told, figures = sample()
    means = {
        m["point"]["concurrency"]: m
        for m in told["pairs"][1]["metrics"]["pairs"]
        if (m["metric"], m["of"]) == ("tpot", "mean")
    }
    lines = {trace["name"]: trace for trace in figures["points"].data}
    assert lines["nested"]["x"] == pytest.approx([means[c]["b"]["value"] for c in (1, 8, 32)], abs=1e-4)
    assert lines["graphs"]["x"] == pytest.approx([means[c]["a"]["value"] for c in (1, 8, 32)], abs=1e-4)
    boxes = {trace["name"]: trace for trace in figures["steps"].data}
    for row in told["runs"]:
        (mine,) = (s for s in row["steps"] if (s["phase"], s["rows"]) == ("decode", 8))
        assert boxes[row["name"]]["median"] == [pytest.approx(mine["median_ns"] / 1e6, abs=1e-4)]
        mean = next(p["before_ns"] for p in told["pairs"][0]["phases"] if p["rows"] == 8)
        assert row["name"] != "graphs" or mine["low_ns"] < mean < mine["high_ns"]
    assert "law-3-1" in figures


def test_the_page_is_whole_and_every_link_and_point_leads_somewhere() -> None:
    found, _, figures = sample()
    page = compare_html(shown(found))
    assert "could not be drawn" not in page
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert linked <= ids
    for figure in figures.values():
        for opens in opened(figure):
            assert anchor(opens) in ids, figure.key
        assert figure.rows is None or all(line.opens for line in figure.rows.lines), figure.key
    # the contract stands above what it allows
    places = [
        page.index(f'<section id="{name}"') for name in ("contract", "ratios", "change", "credit", "trail", "compare")
    ]
    assert places == sorted(places)


def opened(figure: Figure) -> set[str]:
    def flat(value: Any) -> list[str]:
        return [value] if isinstance(value, str) else [text for each in value for text in flat(each)]

    every = {text for trace in figure.data for text in flat(trace.get("customdata", ())) if text}
    assert every, figure.key
    return every


# --- by hand -----------------------------------------------------------------------------------------------


def test_steps_by_hand_quartiles_of_five_steps(tmp_path: Path) -> None:
    five = StepTimes("decode", 8, 5, 4e6, 5e6, 6e6, 7e6, 9e6)
    figures = drawn(report(pair("x"), runs=(run_row("a", steps=(five,)), run_row("b", steps=()))))
    (box,) = figures["steps"].data
    assert [box[key] for key in ("lowerfence", "q1", "median", "q3", "upperfence")] == [
        [4.0],
        [5.0],
        [6.0],
        [7.0],
        [9.0],
    ]
    assert "steps" not in drawn(report(pair("x")))


def test_a_whisker_that_reaches_zero_leaves_a_logarithmic_axis() -> None:
    wide = metric(MetricVerdict.SAME, 1.5, band=3.0)
    figures = drawn(report(pair("x", metrics=BenchComparison((wide,)), phases=())))
    (trace,) = figures["ratios-1"].data
    low, high = (10**end for end in figures["ratios-1"].layout["xaxis"]["range"])
    assert 0 < trace["x"][0] - trace["error_x"]["arrayminus"][0] < low
    assert trace["error_x"]["array"] == [3.0]
    # 4.5 is in reach (1.5 x 4), 0 is not: a quarter of 1 is
    assert log10(high) == pytest.approx(log10(4.5 * 1.12), abs=1e-3)
    assert low == pytest.approx(0.25 / 1.12, abs=1e-3)


def test_what_is_not_known_is_not_drawn() -> None:
    bare = pair("x", metrics=None, phases=(steps(delta_ns=None, ratio=None),), credits=())
    figures = drawn(report(bare))
    assert set(figures) == {"contract", "trail"}
    nothing = replace(report(bare), trail=(TrailRow("a", "", None, "", "", ""), TrailRow("b", "", None, "p", "", "")))
    assert "trail" not in drawn(nothing)
    page = compare_html(shown(nothing))
    for name in ("ratios", "change", "step-times", "benchmark"):
        section = re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)
        assert section is not None
        assert "would tell" in section[1] or "No ratio" in section[1], name
    assert "m3probe tui --compare A B" in compare_html(View("none", Word.READ, 0.0))


def test_the_core_must_be_known_for_a_ratio() -> None:
    unknown = Contract(
        "same as far as known",
        "controlled",
        "no ratio while model is not known",
        (Topic("model", "unknown", None, None, "x"),),
        (),
    )
    page = unescape(compare_html(shown(report(replace(pair("x"), contract=unknown)))))
    assert "b: no ratio is drawn: no ratio while model is not known" in page
    assert "ratios-1" in drawn(report(pair("x")))
    assert "ratios-1" not in drawn(report(pair("x", OTHER)))


def test_the_trail_stands_on_levels_of_the_machine() -> None:
    rows = (
        TrailRow("a", "f", 1.0, "next_bottleneck.family.gemm", "c", "tile"),
        TrailRow("b", "f", 2.0, "queues.waiting", "c", "queue"),
    )
    moved = replace(report(pair("x")), trail=rows)
    (trace,) = drawn(moved)["trail"].data
    assert (trace["x"], trace["y"]) == (["tile", "queue"], ["a", "b"])
    assert trace["marker"]["symbol"] == ["square", "diamond"]
    stays = replace(moved, pairs=(pair("x", moved=Moved("stays", "it stays", None, None)),))
    assert drawn(stays)["trail"].data[0]["marker"]["symbol"] == ["square", "circle"]


def test_a_sweep_that_crosses(tmp_path: Path) -> None:
    """TPOT of 20, 30, 60 ms against 25, 31, 45: ln(31/30) over ln(31/30) + ln(60/45) of the way from 8 to 64 in log-log."""
    sides = ({1: 20.0, 8: 30.0, 64: 60.0}, {1: 25.0, 8: 31.0, 64: 45.0})
    results = [[bench(max_concurrency=c, mean_tpot_ms=ms) for c, ms in side.items()] for side in sides]
    figures = drawn(compare([run(tmp_path, name, mine) for name, mine in zip("ab", results, strict=True)]))
    saved = figures["law-1-1"].data[0]
    assert (list(saved["x"]), list(saved["y"])) == ([1, 8, 64], [-5.0, -1.0, 15.0])
    crossing = figures["crossing-1-1"]
    assert [list(side["y"]) for side in crossing.data] == [[20.0, 30.0, 60.0], [25.0, 31.0, 45.0]]
    way = log(31 / 30) / (log(31 / 30) + log(60 / 45))
    assert [shape["x0"] for shape in crossing.layout["shapes"]] == [pytest.approx(8 * 8**way)]


def test_public_points_of_other_loads_have_no_ratio() -> None:
    """16 GPUs at 1,024 in flight against 12 at 512: no point of both, another number of GPUs."""
    found = compare([AskedRun((CASES / f"{name}.json",)) for name in ("b20_pd_1024", "b21_pd_512")])
    figures = drawn(found)
    assert words(figures["contract"])["GPUs", found.runs[1].name] == "✗ differs"
    assert not {"points", "ratios-1"} & figures.keys()
    page = unescape(compare_html(shown(found)))
    assert "density, not speed-up" in page
    assert "No point was measured by the clients of two runs" in page


def test_foreign_names_are_escaped_for_plotly_and_for_the_page() -> None:
    evil = f"</script><img src=x onerror=alert(1)>{HOSTILE}"
    seen = PathSeen("p", evil, "decode", ran=True, verdict="executed", variant=evil, calls=1, steps=1, reasons=(evil,))
    times = StepTimes("decode", 8, 5, 4e6, 5e6, 6e6, 7e6, 9e6)
    hostile = pair(
        "x", after=evil, phases=(steps(kernels=(replace(part(evil, 1e6, 2e6), name=evil, name_after=evil),)),)
    )
    found = report(
        hostile, runs=(run_row("a", steps=(times,), paths=(seen,)), run_row(evil, steps=(times,), paths=(seen,)))
    )
    figures = drawn(found)
    for figure in figures.values():
        text = json.dumps(figure.data, ensure_ascii=False)
        assert not re.search(r"<(?!br>|extra></extra>)", text.replace("<extra></extra>", "")), figure.key
        assert "\u202e" not in text
        assert "\x1b" not in text
    page = compare_html(shown(found))
    assert "<img" not in page
    assert f'id="{anchor(target("run", evil))}"' in page


def test_many_runs_are_bounded_and_it_is_said() -> None:
    names = [f"r{at}" for at in range(20)]
    found = report(*(pair("x", after=name) for name in names[1:]), runs=tuple(run_row(name) for name in names))
    figures = drawn(found)
    assert len(figures["contract"].data[0]["x"]) == 11
    assert "8 more in the tables" in figures["contract"].says
    assert sum(key.startswith("ratios-") for key in figures) == 6
    assert "13 more runs not drawn here" in compare_html(shown(found))
    assert len(figures["contract"].rows.lines if figures["contract"].rows else ()) == 38


def test_points_of_other_lengths_are_told_apart() -> None:
    def at(isl: str) -> BenchComparison:
        point = WorkloadPoint(isl, "128", 8)
        return BenchComparison(
            (
                metric(MetricVerdict.BETTER, 1.1, point=point),
                metric(
                    MetricVerdict.BETTER, 0.9, metric="tpot", of="mean", unit="ms", higher_is_better=False, point=point
                ),
            )
        )

    both = BenchComparison((*at("4,000").pairs, *at("8,000").pairs))
    figures = drawn(report(pair("x", metrics=both)))
    assert figures["points"].data[0]["mode"] == "markers+text"
    assert "c8 8,000/128" in figures["points"].says
    near = BenchComparison((*at("4,000").pairs, *at("4,001").pairs))
    assert drawn(report(pair("x", metrics=near)))["points"].data[0]["mode"] == "lines+markers+text"


# --- the command line ----------------------------------------------------------------------------------------


def said(monkeypatch: pytest.MonkeyPatch, *more: object) -> int:
    runs = [str(SAMPLE / name) for name in ("graphs", "flat")]
    monkeypatch.setattr("sys.argv", ["m3probe", "compare", *runs, *map(str, more), "--json", "--no-progress"])
    return main()


def test_the_page_is_written_beside_the_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "compare.html"
    assert said(monkeypatch, "--html", page, "--require", "faster") == 4  # the page is there whatever was required
    out, err = capfd.readouterr()
    assert json.loads(out)["runs"][1]["name"] == "flat"
    assert f"{page}: " in err
    assert "flat against graphs" in page.read_text(encoding="utf-8")
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve x\n")
    for word, where, code in (("--recipe", script, 2), ("--recipe", tmp_path / "gone" / "x.html", 3)):
        assert said(monkeypatch, word, script, "--html", where) == code
    assert script.read_text() == "vllm serve x\n"
