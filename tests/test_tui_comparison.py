"""Comparison as pages: who is better is said only under one contract; the trail; one pair with its parts."""

from dataclasses import replace
from typing import Any

import pytest
from page_kit import HOSTILE, SAMPLES, bars, chart, column, grid, marks, page, said, texts, view

from m3probe import comparing
from m3probe.model.compare_bench import BenchComparison, MetricPair, MetricVerdict, WorkloadPoint
from m3probe.model.compare_bench import Sample as Measured
from m3probe.model.compare_report import (
    OTHER,
    SAME,
    CompareReport,
    Contract,
    Credit,
    Moved,
    Pair,
    Part,
    PathChange,
    PhaseChange,
    Required,
    RunRow,
    Setting,
    Topic,
    TrailRow,
)
from m3probe.model.report import Reason, TrustRow
from m3probe.present.sheets.sheet import Lens, Said


def part(what: str, before: float, after: float) -> Part:
    return Part(
        what, what, what, what, "same", 2.0, 2.0, before, after, after - before, (after - before) / -1_000_000.0
    )


def steps(phase: str = "decode", **more: Any) -> PhaseChange:
    known: dict[str, Any] = {
        "phase": phase, "rows": 8, "steps_before": 11, "steps_after": 12, "before_ns": 6e6, "after_ns": 5e6, "ratio": 5 / 6,
        "delta_ns": -1e6, "error_ns": 100_000.0, "verdict": "better", "launches_before": 200.0, "launches_after": 200.0,
        "idle_before": 0.5, "idle_after": 0.4, "ns_per_token_before": None, "ns_per_token_after": None, "explained": 1.0,
        "arithmetic": (), "parts": (part("idle", 3e6, 2.1e6),), "families": (part("gemm", 1e6, 900_000.0),),
        "kernels": (part("kernel", 1e6, 900_000.0),),
    }  # fmt: skip
    return PhaseChange(**known | more)


def metric(verdict: MetricVerdict, ratio: float, **more: Any) -> MetricPair:
    known: dict[str, Any] = {
        "metric": "output_per_gpu", "of": "", "unit": "tokens/s", "higher_is_better": True, "point": WorkloadPoint("4000", "128", 8),
        "a": Measured(100.0, 2, 1.5), "b": Measured(100.0 * ratio, 2, None), "ratio": ratio, "ratio_error": 0.01,
        "band": 0.02, "verdict": verdict, "direction": MetricVerdict.BETTER,
    }  # fmt: skip
    return MetricPair(**known | more)


def pair(answer: str, contract: str = SAME, after: str = "b", **more: Any) -> Pair:
    topics = (Topic("model", "equal", "M3", "M3", ""), Topic("build", "unknown", None, "0.33", "the server's log"))
    found = Contract(contract, "controlled", "same contract", topics, (Setting("--flag", "off", "on"),))
    known: dict[str, Any] = {
        "before": "a", "after": after, "answer": answer, "contract": found, "mix": (), "phases": (steps(),), "hosts": (), "shapes": (),
        "metrics": BenchComparison((metric(MetricVerdict.BETTER, 1.1), metric(MetricVerdict.UNPROVEN, 1.02, of="p99", metric="ttft"))),
        "paths": (PathChange("x", "Path x", "decode", "off", "executed", "", "fast", ran_before=False, ran_after=True, calls_before=0.0, calls_after=4.0),),
        "credits": (Credit("decode", "credited", ("x",), "x ran after and not before", "a third run"),),
        "moved": Moved("moved", "it moved from p to q", None, None),
    }  # fmt: skip
    return Pair(**known | more)


def run_row(name: str, **more: Any) -> RunRow:
    known: dict[str, Any] = {
        "inputs": (f"/data/{name}",),
        "outcome": "ok",
        "notes": (),
        "trust": None,
        "ranks": (),
        "configuration": "x",
    }
    return RunRow(name, **known | more)


def report(*pairs: Pair, runs: tuple[RunRow, ...] = (run_row("a"), run_row("b"))) -> CompareReport:
    trail = tuple(
        TrailRow(r.name, "output tokens/s", 100.0 + at, "p", "It is p.", "kernel") for at, r in enumerate(runs)
    )
    return CompareReport(runs, pairs, trail, (Required("faster", "failed", "worse"),))


def shown(found: CompareReport) -> Any:
    return replace(view(), compare=found)


def test_without_runs_the_page_says_how_to_start() -> None:
    told = said(page("compare", view()))
    assert told[0] == "unproven: no runs were given to compare"
    assert "m3probe tui --compare A B" in told[1]


@pytest.mark.parametrize(
    ("answer", "contract", "mark"),
    [
        ("better: output x 1.1 (same contract)", SAME, "executed"),
        ("worse: output x 0.9 (same contract)", SAME, "missed"),
        ("better in one thing and worse in another: x", SAME, "unexpected"),
        ("no change beyond noise: x", SAME, ""),
        ("no difference is proven: x", SAME, "unproven"),
        ("no claim: ranks differ", SAME, "unproven"),
        ("better: output x 1.1", OTHER, "unexpected"),
    ],
)
def test_better_is_marked_only_under_one_contract(answer: str, contract: str, mark: str) -> None:
    first = page("compare", shown(report(pair(answer, contract)))).blocks[0]
    assert isinstance(first, Said)
    assert (first.mark, first.text) == (mark, f"b against a: {answer}")


def test_runs_are_lines_that_open_and_the_first_is_the_baseline() -> None:
    sheet = page("compare", shown(report(pair("better: x"))))
    table = grid(sheet, "Runs")
    assert [one.opens for one in table.lines] == ["run/a", "run/b"]
    assert texts(table, "contract") == ["baseline", "same"]
    assert marks(table, "credit") == ["", "executed"]
    assert texts(table, "what") == ["—", "x"]
    assert bars(sheet) == {"a": 100.0, "b": 101.0}
    assert texts(grid(sheet, "Trail"), "level") == ["kernel", "kernel"]
    assert marks(grid(sheet, "Required"), "outcome") == ["missed"]


def test_runs_with_other_figures_are_not_drawn_on_one_scale() -> None:
    found = report(pair("better: x"))
    apart = replace(found, trail=(found.trail[0], replace(found.trail[1], figure="requests/s")))
    assert not [b for b in page("compare", shown(apart)).blocks if type(b).__name__ == "Bars"]


def test_ranks_that_differ_and_trust_come_before_any_table() -> None:
    reasons = TrustRow("degraded", (Reason("lost_events", "3 events lost"),))
    rows = (run_row("a", ranks=("rank 3 has another build",)), run_row("b", trust=reasons))
    told = said(page("compare", shown(report(pair("no claim: x"), runs=rows))))
    assert told[1:3] == ["a: not one server: rank 3 has another build", "b: degraded: 3 events lost"]


def test_pair_shows_contract_credit_metrics_and_parts() -> None:
    sheet = page("run/b", shown(report(pair("better: x"))))
    told = said(sheet)
    assert told[:4] == [
        "better: x",
        "contract: same contract",
        "credited: x ran after and not before",
        "would tell: a third run",
    ]
    assert (
        "decode step of up to 8 rows better: 6.00 → 5.00 ms, change -1.00 ± 0.20 ms, x 0.833 (11 and 12 steps)" in told
    )
    parts = grid(sheet, "Parts of a decode step")
    assert column(parts, "part") == ["idle", "gemm", "kernel"]
    assert column(parts, "change µs") == [-900_000.0, -100_000.0, -100_000.0]
    assert texts(parts, "change µs") == ["-900.0", "-100.0", "-100.0"]
    assert (chart(sheet).high, chart(sheet).bars[0].text) == (900.0, "-900.0 µs")
    table = grid(sheet, "What the client saw")
    assert (column(table, "ratio"), texts(table, "verdict")) == ([1.1, 1.02], ["better", "unproven (better)"])
    assert marks(table, "verdict") == ["executed", "unproven"]
    assert texts(table, "± after") == ["—", "—"]
    topics = grid(sheet, "Contract: same, controlled")
    assert (marks(topics, "state"), texts(topics, "before")) == (["executed", "unproven"], ["M3", "—"])
    assert texts(grid(sheet, "Fast paths that differ"), "ran as") == ["— → fast"]


def test_better_steps_of_an_unlike_contract_or_under_doubt_are_no_pass() -> None:
    unlike = page("run/b", shown(report(pair("x", OTHER))))
    doubtful = page("run/b", shown(report(pair("x", phases=(steps(doubt="the host's noise"),)))))
    for sheet in (unlike, doubtful):
        (one,) = [b for b in sheet.blocks if isinstance(b, Said) and b.text.startswith("decode step of up")]
        assert one.mark == "unexpected"
    assert "unsure: the host's noise" in said(doubtful)


def test_phase_filter_leaves_that_phases_steps() -> None:
    found = report(pair("x", phases=(steps(), steps("prefill"))))
    sheet = page("run/b", shown(found), Lens(phase="prefill"))
    assert [b.title for b in sheet.blocks if hasattr(b, "title") and b.title.startswith("Parts of a ")] == [
        "Parts of a prefill step of up to 8 rows, then its kernels; largest change first"
    ]
    assert "parts of a step unproven: no steps of one phase and about the same rows in both" in said(
        page("run/b", shown(found), Lens(phase="mixed"))
    )


def test_unknown_step_times_and_settings_are_words() -> None:
    none = steps(before_ns=None, after_ns=None, ratio=None, delta_ns=None, error_ns=None, verdict="unproven")
    bare = pair("x", phases=(none,), metrics=None)
    told = said(page("run/b", shown(report(replace(bare, contract=replace(bare.contract, settings=None))))))
    assert any(text.startswith("decode step of up to 8 rows unproven: step time is not known of both") for text in told)
    assert "settings unproven: not known of both runs" in told
    assert "clients' figures unproven: a run has none (--bench FILE)" in told


def test_baseline_has_a_page_and_an_unknown_run_has_none() -> None:
    assert said(page("run/a", shown(report(pair("x")))))[0] == "a is the baseline: the other runs are held against it"
    with pytest.raises(KeyError, match="no run c is compared here"):
        page("run/c", shown(report(pair("x"))))


def test_run_with_a_hostile_name_opens_by_its_own_target() -> None:
    found = report(pair("x", after=HOSTILE), runs=(run_row("a"), run_row(HOSTILE)))
    opens = grid(page("compare", shown(found)), "Runs").lines[1].opens
    sheet = page(opens, shown(found))
    assert sheet.title == f"a → {HOSTILE}"


def test_samples_pages_hold_the_reports_own_figures() -> None:
    asked = [comparing.AskedRun((SAMPLES / "compare-h200" / name,)) for name in ("graphs", "eager")]
    found = comparing.compare(asked)
    sheet = page("run/eager", shown(found))
    (one,) = found.pairs
    assert isinstance(sheet.blocks[0], Said)
    assert (sheet.blocks[0].text, sheet.blocks[0].mark) == (one.answer, "missed")
    assert one.metrics is not None
    table = grid(sheet, "What the client saw")
    assert column(table, "ratio") == [row.ratio for row in one.metrics.pairs]
    change = one.phases[0]
    parts = (*change.families, *change.parts, *change.kernels)
    assert sorted(column(grid(sheet, "Parts of a decode step"), "change µs"), key=str) == sorted(
        (p.delta_ns for p in parts), key=str
    )
    assert texts(grid(sheet, "Fast paths that differ"), "path") == ["graph replay"]
