"""The overview: what a hand-made report comes to on the first page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_builder import empty_report, findings, full_report, hollow_report, trust
from sheet_kit import NOW_S, bounded, column, grid, ranked, report_of, said, texts, view_of
from test_tui_comparison import run_row

from m3probe.model.compare_report import CompareReport
from m3probe.model.report import Answer, QueueRow, QueuesSection, Report
from m3probe.model.view import Absent, Gauge, Scope, SourceState, Word
from m3probe.present.sheets.overview import overview
from m3probe.present.sheets.queues import queues
from m3probe.present.sheets.sheet import Bars, Curve, Grid, Lens, Sheet

TEN = [bounded(f"shapes.n{place}", (20 - place) / 100) for place in range(10)]


def height(sheet: Sheet, width: int = 80) -> int:
    """Rows of a terminal that a sheet takes: sentences wrapped, a table with title and heading."""
    rows = sum(-(-len(text) // (width - 8)) for text in said(sheet))
    rows += sum(2 + len(block.lines) for block in sheet.blocks if isinstance(block, Grid))
    return rows + sum(1 + len(block.bars) for block in sheet.blocks if isinstance(block, Bars))


def test_the_sentence_names_the_next_bottleneck_with_bound_confidence_and_why() -> None:
    found = bounded("next_bottleneck.idle", 0.647, claim="The device waits", confidence="medium")
    first = said(overview(view_of(report_of([found])), Lens()))
    assert "Next: The device waits." in first
    assert "up to 64.7 % of decode step time to win · medium confidence · the largest trusted bound" in first


def test_the_overview_of_one_of_several_runs_says_which_and_where_the_others_are() -> None:
    runs = tuple(run_row(name) for name in ("graphs", "flat", "eager"))
    shown = replace(view_of(full_report()), title="eager", compare=CompareReport(runs, (), ()))
    assert "eager alone; beside graphs, flat: c" in said(overview(shown, Lens()))


def test_a_claim_that_names_its_bound_is_not_said_to_be_a_share_twice() -> None:
    found = bounded("next_bottleneck.idle", 0.647, claim="The device is idle for 64.7 % of decode step time")
    assert "up to 64.7 % to win · high confidence · the largest trusted bound" in said(
        overview(view_of(report_of([found])), Lens())
    )


def test_seven_of_ten_are_listed_each_with_place_share_and_target() -> None:
    shown = grid(overview(view_of(report_of(TEN, trust_complete())), Lens()), "Bottlenecks")
    assert shown.title == "Bottlenecks, % of decode step time, 3 more in findings (f); never added up"
    assert texts(shown.lines[1]) == ["2", "19.0", "n1", "shapes", "high", "—", "claim of shapes.n1"]
    assert [line.opens for line in shown.lines[:2]] == ["finding/shapes.n0", "finding/shapes.n1"]
    assert shown.lines[1].cells[1].raw == pytest.approx(0.19)


def trust_complete() -> object:
    return replace(trust(), trust=replace(trust().trust, verdict="complete", reasons=()))


def test_shares_of_unlike_times_name_theirs() -> None:
    two = ranked(TEN[:2])
    rows = (two.ranking[0], replace(two.ranking[1], basis="request latency"))
    report = Report("ok", (), Answer((replace(two, ranking=rows),), tuple(TEN[:2])))
    shown = grid(overview(view_of(report), Lens()), "Bottlenecks")
    assert shown.title == "Bottlenecks; never added up"
    assert column(shown, "of") == ["decode step time", "request latency"]


def test_the_screens_order_is_held_and_says_which_way_an_item_goes() -> None:
    lens = Lens(ranking=("shapes.n1", "shapes.n0", "shapes.n2"))
    page = overview(view_of(report_of(TEN[:3])), lens)
    shown = grid(page, "Bottlenecks")
    assert column(shown, "#") == ["2 falling", "1 rising", "3"]
    assert "Next: claim of shapes.n1." in said(page), "sentence and first line are one item"


def test_an_untrusted_finding_says_so_in_place_of_its_confidence() -> None:
    shown = grid(overview(view_of(report_of([TEN[0], replace(TEN[1], trusted=False)])), Lens()), "Bottlenecks")
    assert column(shown, "confidence") == ["high", "untrusted"]


def test_the_five_questions_have_a_word_a_figure_and_a_page() -> None:
    shown = grid(overview(view_of(full_report()), Lens()), "Questions")
    assert [line.opens for line in shown.lines] == ["shapes", "repeats", "bytes", "paths", "queues"]
    assert [texts(line) for line in shown.lines] == [
        # seven shapes of decode, one that prefill and decode share, one of prefill alone
        ["1 shapes", "model matched", "MiniMax-M3 at TP4; 8 local shapes in 2 phases"],
        # 414 kernels and 12 ms in two decode steps
        ["2 repeats", "launch bound", "decode: 207 kernels, 6.00 ms, 100 % in graphs"],
        # 3 x 2 ** 20 B of KV write, above the 2.25 MiB of the all-reduce; the index write has no bytes
        ["3 bytes", "in part", "2 of 3 kinds proven; most 3.00 MiB, KV write"],
        [
            "4 paths",
            "missed",
            "1 missed, 1 unexpected, 1 refused at start, 1 executed, 1 declined, 1 unproven, 1 off",
        ],
        ["5 queues", "in part", "2 of 2 queues with a figure"],
    ]
    assert shown.lines[3].cells[1].mark == "missed"


def test_a_queue_that_grows_is_the_headline_before_a_longer_one_that_does_not() -> None:
    def row(queue: str, mean: float, growth: float, trend: str) -> QueueRow:
        return QueueRow(queue, "", 6, 0.0, mean, mean, mean, growth, 1.0, 1.0, None, trend, "sampled")

    section = QueuesSection({"decode": "x"}, (row("decode", 115.0, 0.0, "steady"), row("prefill", 9.0, 0.25, "grows")))
    shown = grid(overview(view_of(report_of([], section)), Lens()), "Questions")
    assert texts(shown.lines[4]) == ["5 queues", "grows", "longest: prefill 9.0 requests, 0.25/s (sampled)"]


def test_a_benchmark_alone_names_the_queue_that_its_finding_names() -> None:
    found = bounded("queues.prefill.0", 0.886, verdict="prefill")
    report = report_of([TEN[0], found], QueuesSection({"prefill": "not measured. Would answer: /metrics"}))
    shown = grid(overview(view_of(report), Lens()), "Questions")
    assert texts(shown.lines[4]) == ["5 queues", "prefill", "up to 88.6 % of decode step time"]
    untrusted = report_of([replace(found, trusted=False)], QueuesSection({"prefill": "not measured. Would answer: x"}))
    assert texts(grid(overview(view_of(untrusted), Lens()), "Questions").lines[4])[1] == "unproven"


@pytest.mark.parametrize("report", [empty_report(), hollow_report()], ids=["empty", "hollow"])
def test_what_was_not_answered_is_unproven_and_no_figure_is_made_up(report: Report) -> None:
    page = overview(view_of(report), Lens())
    assert any(text.startswith("Next: —") for text in said(page))
    shown = grid(page, "Questions")
    assert set(column(shown, "verdict")) == {"unproven"}
    assert not any(cell.text == "0" for line in shown.lines for cell in line.cells)


def test_losses_and_trust_stand_before_the_bottleneck() -> None:
    page = overview(view_of(full_report()), Lens())
    first = said(page)
    assert first[0].startswith("PARTIAL: rank0.json.gz: 3 event(s) lost")
    assert first[1] == "Trust degraded: lost events.", "a reason that the loss has told is only named"
    assert first[2].startswith("Next: ")


def test_the_page_fits_a_small_terminal_with_and_without_a_banner() -> None:
    claim = "The device is idle for 64.7 % of decode step time: 46.3 % before the graph starts, 17.5 % between steps"
    many = [replace(TEN[0], claim=claim), *TEN[1:]]
    for report in (report_of(many, trust_complete()), report_of(many, trust())):
        assert height(overview(view_of(report), Lens())) <= 22


def test_a_live_page_keeps_its_figures_and_questions_on_a_small_terminal() -> None:
    page = live()
    below = grid(page, "Live figures")
    assert page.blocks[-1] is below
    assert height(page) - 2 - len(below.lines) <= 22


def test_paths_that_were_missed_are_news_on_the_first_page() -> None:
    assert "1 path missed: Path missed" in said(overview(view_of(full_report()), Lens()))


def live(**more: object) -> Sheet:
    gauges = {
        "waiting": Gauge("waiting", "waiting requests", 900.0, "requests", Scope.LIVE, 1.2, recent=((60.0, 4.0), (0.0, 900.0))),
        "ttft": Gauge("ttft", "TTFT p50", 27_000.0, "ms", Scope.WINDOWED, 1.2, recent=((9.0, 9_000.0), (0.0, 27_000.0)), resets=(30.0,)),
        "kv": Gauge("kv", "KV in use", None, "%", Scope.LIVE, None, Absent.NOT_EXPOSED),
        "spec": Gauge("spec", "drafts accepted", None, "%", Scope.LIFETIME),
        "none": Gauge("none", "preempted", 0.0, "requests", Scope.LIVE, 1.2),
    }  # fmt: skip
    words = {"word": Word.LIVE, "gauges": gauges, "next_poll_s": 1.0, "window_s": 60.0} | more
    return overview(view_of(report_of(TEN), **words), Lens())


def test_live_figures_say_scope_and_age_and_absence_is_a_word_and_never_zero() -> None:
    shown = grid(live(), "Live figures, last 1 min")
    rows = {line.key: texts(line) for line in shown.lines}
    assert rows["gauge/waiting"] == ["waiting requests", "900", "requests", "live", "1 s", "4.0 to 900.0"]
    assert rows["gauge/ttft"] == [
        "TTFT p50", "27", "s", "windowed", "1 s", "9.0 to 27.0, counters began anew",
    ]  # fmt: skip
    assert rows["gauge/kv"][1:5] == ["NOT EXPOSED", "%", "live", "—"]
    assert rows["gauge/spec"][1] == "NOT MEASURED"
    assert rows["gauge/none"][1] == "0", "a measured zero is a figure"


def test_the_first_figures_stand_in_a_line_by_scope_with_the_age_of_the_oldest() -> None:
    assert said(live())[0] == (
        "live: waiting requests 900, preempted 0 · windowed, last 1 min: TTFT p50 27 s · 1 s old"
    )
    assert not any(text.startswith("live:") for text in said(live(gauges={})))


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(8_640.0, ["8,640", "ms"]), (27_500.0, ["27.5", "s"]), (514_000.0, ["8.6", "min"]), (0.4, ["0.4", "ms"])],
)
def test_a_long_wait_is_told_in_seconds_or_minutes(ms: float, shown: list[str]) -> None:
    gauge = Gauge("ttft", "TTFT p50", ms, "ms", Scope.WINDOWED, 1.0)
    assert texts(grid(live(gauges={"ttft": gauge}), "Live figures").lines[0])[1:3] == shown


@pytest.mark.parametrize(
    ("between", "shown"),
    [
        ((20_000.0, 40_000.0), ["20–40", "s"]),
        ((2_500.0, None), ["> 40", "s"]),
        (None, ["40", "s"]),
    ],
)
def test_a_quantile_that_is_known_as_a_bucket_is_a_range_and_the_same_on_every_page(
    between: tuple[float, float | None] | None, shown: list[str]
) -> None:
    gauge = Gauge(
        "ttft_p50_ms", "TTFT p50", 40_000.0, "ms", Scope.WINDOWED, 1.0, between=between, recent=((1.0, 40_000.0),)
    )
    given = {"word": Word.LIVE, "gauges": {"ttft_p50_ms": gauge}, "next_poll_s": 1.0, "window_s": 60.0}
    view = view_of(report_of(TEN), **given)
    assert texts(grid(overview(view, Lens()), "Live figures").lines[0])[1:3] == shown
    page = queues(view, Lens())
    assert texts(grid(page, "Figures now").lines[0])[1:3] == shown
    assert [block.text for block in page.blocks if isinstance(block, Curve)] == [" ".join(shown)]


def test_what_a_server_does_stands_before_what_it_has_besides() -> None:
    names = (
        "running",
        "waiting",
        "waiting_capacity",
        "prefix_hit_rate",
        "preemptions",
        "drafts",
        "output_tokens_per_s",
    )
    gauges = {name: Gauge(name, name, 1.0, "requests", Scope.LIVE, 0.0) for name in names}
    assert said(live(gauges=gauges))[0].startswith(
        "live: running 1, waiting 1, output_tokens_per_s 1, waiting_capacity"
    )


def test_the_state_line_says_which_of_several_sources_is_not_well() -> None:
    well = SourceState("http://a:8000", "metrics", Word.LIVE, last_ok_s=NOW_S - 2)
    down = SourceState("http://a:8001", "metrics", Word.DOWN, "Connection refused", last_ok_s=NOW_S - 90)
    first = said(live(sources=(well, down)))[0]
    assert first == "LIVE 1 of 2 sources not well: http://a:8001"
    assert said(live(sources=(down,)))[0].startswith("live: ")  # the heading and its banner tell of the only one


def test_without_a_report_there_is_a_reason_and_no_zero() -> None:
    down = SourceState("http://a:8000", "metrics", Word.DOWN, "Connection refused")
    page = overview(view_of(None, word=Word.DOWN, detail="Connection refused", sources=(down,)), Lens())
    assert "Next: —  Connection refused" in said(page)
    assert said(page)[1] == "1. Ask it by hand: curl -sS http://a:8000/metrics, which must answer with metrics."
    assert said(page)[3] == "3. Wait: it is asked again at the next turn. The sources' page (o) has the state of each."
    assert not [block for block in page.blocks if isinstance(block, Grid)]


def test_a_process_that_is_not_there_is_not_asked_for_by_curl() -> None:
    gone = SourceState("server 99999999", "process", Word.DOWN, "no such process")
    told = said(overview(view_of(None, word=Word.DOWN, detail="no such process", sources=(gone,)), Lens()))
    assert told[1] == "1. Is it there, and may you look into it? ps -fp 99999999"
    assert not [text for text in told if "curl" in text]


def test_the_header_alone_says_that_a_file_was_read() -> None:
    assert said(overview(view_of(report_of(TEN, trust_complete())), Lens()))[0].startswith("Next: ")
    assert said(overview(view_of(report_of(TEN), detail="2 of 3 ranks"), Lens()))[0] == "READ 2 of 3 ranks"


def test_a_replay_says_where_it_stands() -> None:
    assert said(live(word=Word.REPLAY, replay=(30.0, 120.0)))[0] == "REPLAY at 30.0 of 120.0 s"


def test_foreign_words_are_left_as_they_are_for_whoever_draws() -> None:
    hostile = bounded("shapes.x", 0.5, claim="\x1b[31m[bold]k\u202e")
    assert "Next: \x1b[31m[bold]k\u202e." in said(overview(view_of(report_of([hostile])), Lens()))


def test_a_bottleneck_without_a_bound_says_that_its_worth_is_not_known() -> None:
    found = replace(findings()[0], id="straggler.rank")
    assert any("what it could win is not known" in text for text in said(overview(view_of(report_of([found])), Lens())))


def test_an_address_alone_is_not_blamed_for_kernels_that_it_cannot_show() -> None:
    pages = SourceState("host:8000", "metrics", Word.LIVE, last_ok_s=NOW_S)
    unusable = replace(trust(), trust=replace(trust().trust, verdict="unusable"))
    view = replace(view_of(report_of([], unusable)), sources=(pages,), word=Word.LIVE)
    told = said(overview(view, Lens()))
    assert "Kernels are not watched by this address: m3probe tui PID, or attach, records them." in told
    assert "No queue, limit or cache is short." in next(text for text in told if text.startswith("Next"))
    assert not any(text.startswith("Trust") for text in told)
    with_trace = replace(view, sources=(pages, replace(pages, kind="trace")))
    assert any(text.startswith("Trust unusable") for text in said(overview(with_trace, Lens())))


def test_a_long_sentence_takes_lines_of_the_ranking_and_none_of_the_questions() -> None:
    # 24 rows: heading, foot, 2 + 7 of the questions' and the ranking's tables without its lines, so 13 for sentences and lines
    long = replace(TEN[0], claim="The device is idle " * 20)  # 379 characters and "Next: .": 6 rows of 74
    page = overview(view_of(report_of([long, *TEN[1:]], trust_complete())), Lens())
    sentences = sum(-(-len(text) // 74) for text in said(page))
    assert len(grid(page, "Bottlenecks").lines) == 13 - sentences
    assert 3 <= 13 - sentences < 7
