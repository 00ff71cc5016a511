"""Question 5 as a page: queues in figures, both latencies, curves with gaps and restarts, and words for what is absent."""

from typing import Any

import numpy as np
import pytest
from page_kit import (
    GRAPH,
    HOSTILE,
    SAMPLES,
    column,
    full,
    grid,
    hollow,
    marks,
    nothing,
    page,
    said,
    sample,
    texts,
    view,
)

from m3probe.model.findings import Bound, Finding
from m3probe.model.report import QueueRow, QueuesSection
from m3probe.model.view import Absent, Gauge, Scope
from m3probe.present.sheets._queue_curves import thinned
from m3probe.present.sheets.sheet import Curve, Said, Sheet


def row(queue: str, **more: Any) -> QueueRow:
    known: dict[str, Any] = {
        "queue": queue, "server": "", "samples": 30, "length_low": 0.0, "length_mean": 4.0, "length_most": 9.0,
        "length_last": 2.0, "growth_per_s": 0.5, "arrivals_per_s": 3.0, "served_per_s": 2.5, "wait_ns": 1_600_000_000,
        "trend": "steady", "basis": "sampled",
    }  # fmt: skip
    return QueueRow(**known | more)


def first(sheet: Sheet) -> Said:
    block = sheet.blocks[0]
    assert isinstance(block, Said)
    return block


def curves(sheet: Sheet) -> list[Curve]:
    return [block for block in sheet.blocks if isinstance(block, Curve)]


def test_figures_of_a_queue_are_its_rows_own() -> None:
    table = grid(page("queues", view(QueuesSection({}, (row("admission"),)))), "Queues")
    names = ("mean", "most", "last", "growth /s", "came /s", "left /s", "samples")
    assert [column(table, name)[0] for name in names] == [4.0, 9.0, 2.0, 0.5, 3.0, 2.5, 30]
    assert (column(table, "ms in it"), texts(table, "ms in it")) == ([1_600_000_000], ["1,600.0"])


def test_queue_that_grows_is_the_answer() -> None:
    answer = first(page("queues", view(QueuesSection({}, (row("decode"), row("admission", trend="grows"))))))
    assert (answer.mark, answer.text) == ("unexpected", "grows: admission by 0.50 requests/s")


def test_longest_queue_is_named_where_none_grows() -> None:
    rows = (
        row("admission"),
        row("decode", length_mean=31.0),
        row("prefill", length_mean=None, trend="", basis="little"),
    )
    answer = first(page("queues", view(QueuesSection({}, rows))))
    assert answer.mark == "executed"
    assert "longest is decode, 31.0 requests on average" in answer.text


def test_too_few_samples_tell_no_trend() -> None:
    sheet = page("queues", view(QueuesSection({}, (row("admission", samples=1, growth_per_s=None, trend=""),))))
    assert first(sheet).mark == "unproven"
    table = grid(sheet, "Queues")
    assert (texts(table, "trend"), marks(table, "trend")) == (["TOO FEW"], ["unproven"])
    assert texts(table, "growth /s") == ["—"]


def test_queue_by_littles_law_needs_no_samples_and_is_no_trend() -> None:
    table = grid(
        page("queues", view(QueuesSection({}, (row("prefill", samples=0, trend="", basis="little"),)))), "Queues"
    )
    assert (texts(table, "trend"), marks(table, "trend")) == (["—"], [""])


def test_two_servers_with_near_equal_names_are_two_lines() -> None:
    rows = tuple(row("admission", server=f"http://host-with-a-long-name:800{n}") for n in (0, 1))
    table = grid(page("queues", view(QueuesSection({}, rows))), "Queues")
    assert column(table, "server") == ["http://host-with-a-long-name:8000", "http://host-with-a-long-name:8001"]


def test_unmeasured_queue_is_words_and_what_would_answer() -> None:
    sheet = page(
        "queues", view(QueuesSection({"admission": "not measured. Would answer: /metrics", "prefix_cache": "hit 3 %"}))
    )
    told = {block.text: block.mark for block in sheet.blocks if isinstance(block, Said)}
    assert told["queue admission: NOT MEASURED. Would answer: /metrics"] == "unproven"
    assert told["limit prefix cache: hit 3 %"] == ""


def test_unmeasured_queue_is_a_line_of_the_table_and_a_limit_is_none() -> None:
    words = {
        "admission": "x",
        "prefill": "not measured",
        "kv_transfer": "deferred 0",
        "front_end": "2.0",
        "kv_capacity": "not measured",
        "outside_vllm": "said of the row client",
    }
    rows = (row("admission"), row("kv_transfer.in_progress"), row("client"))
    table = grid(page("queues", view(QueuesSection(words, rows))), "Queues")
    assert column(table, "queue") == ["admission", "kv transfer.in progress", "client", "prefill", "front end"]
    assert texts(table, "trend") == ["steady", "steady", "steady", "NOT MEASURED", "told below"]
    assert marks(table, "trend")[3] == "unproven"
    assert texts(table, "mean") == ["4.00", "4.00", "4.00", "—", "—"]


def test_client_saw_both_latencies_and_what_littles_law_says() -> None:
    table = grid(page("queues", full()), "What the client saw")
    assert column(table, "TTFT ms") == [100.0, 250.0]
    assert column(table, "TPOT ms") == [20.0, 20.0]
    assert (column(table, "TTFT of"), column(table, "TPOT of")) == (["mean", "mean"], ["median", "median"])
    assert (texts(table, "Little's law"), marks(table, "Little's law")) == (
        ["agrees", "differs"],
        ["executed", "unexpected"],
    )


def test_contradiction_of_littles_law_is_said() -> None:
    found = Finding("queues.little.decode", "queues", "differs", "decode: 3 sampled, 9 by rate x time", "", (), "")
    sheet = page("queues", view(QueuesSection({}, (row("decode"),)), findings=(found,)))
    assert "Little's law differs: decode: 3 sampled, 9 by rate x time" in said(sheet)


def test_finding_with_a_bound_answers_without_a_measured_queue() -> None:
    found = Finding(
        "queues.prefix_cache", "queues", "short", "The cache is short.", "", (), "", Bound(0.0, 0.2, "share")
    )
    assert first(page("queues", view(QueuesSection({}), findings=(found,)))).text == "short: The cache is short."


def gauge(name: str, value: float | None, **more: Any) -> Gauge:
    return Gauge(name, f"Requests {name}", value, "requests", Scope.LIVE, **more)


def test_live_curve_has_a_fixed_scale_its_gap_and_its_restart() -> None:
    seen = gauge("waiting", 3.0, age_s=1.2, high=16.0, recent=((3.0, 5.0), (2.0, None), (1.0, 3.0)), resets=(2.0,))
    (curve,) = curves(page("queues", view(gauges={"waiting": seen})))
    assert curve.points == ((-3.0, 5.0), (-2.0, None), (-1.0, 3.0))
    assert (curve.low, curve.high, curve.marks) == (0.0, 16.0, (-2.0,))
    assert curve.title == "Requests waiting (live, 1.2 s old)"


def test_small_change_does_not_fill_a_scale_that_has_no_limit() -> None:
    seen = gauge("waiting", 0.002, recent=((2.0, 0.001), (1.0, 0.002)))
    (curve,) = curves(page("queues", view(gauges={"waiting": seen})))
    assert (curve.low, curve.high) == (0.0, 1.0)


def test_absent_live_figure_is_a_word_and_never_zero() -> None:
    gone = gauge("kv_usage", None, absent=Absent.NOT_EXPOSED)
    table = grid(page("queues", view(gauges={"kv_usage": gone, "running": gauge("running", 0.0)})), "Figures now")
    assert (texts(table, "value"), texts(table, "absent")) == (["—", "0"], ["NOT EXPOSED", ""])
    assert column(table, "value") == [None, 0.0]


def test_page_says_whether_figures_are_recorded_or_computed() -> None:
    section = QueuesSection({}, (row("admission"),))
    assert any(text.startswith("recorded from sampled") for text in said(page("queues", view(section))))
    live = view(section, gauges={"running": gauge("running", 1.0)})
    assert any(text.startswith("computed from sampled") for text in said(page("queues", live)))


@pytest.mark.parametrize("shown", [hollow(), nothing(), sample(GRAPH)[0]])
def test_without_a_queue_the_answer_is_unproven(shown: object) -> None:
    assert first(page("queues", shown)).mark == "unproven"  # type: ignore[arg-type]


def test_foreign_server_names_stand_as_they_are() -> None:
    table = grid(page("queues", view(QueuesSection({}, (row("admission", server=HOSTILE),)))), "Queues")
    assert column(table, "server") == [HOSTILE]


def test_sample_has_the_rows_of_its_json_and_curves_of_their_most() -> None:
    shown, told = sample(SAMPLES / "live-h200-m3-attach")
    sheet = page("queues", shown)
    table = grid(sheet, "Queues")
    theirs = told["queue_rows"]
    for name, key in (
        ("mean", "length_mean"),
        ("most", "length_most"),
        ("growth /s", "growth_per_s"),
        ("ms in it", "wait_ns"),
    ):
        assert column(table, name)[: len(theirs)] == [one[key] for one in theirs]
    most = {one["queue"]: one["length_most"] for one in theirs}
    drawn = {curve.title.split(",")[0]: max(v for _, v in curve.points if v is not None) for curve in curves(sheet)}
    assert drawn == {"Requests running": most["decode"], "Requests waiting": most["admission"]}


def test_thinning_loses_no_peak_and_keeps_gaps() -> None:
    values = np.zeros(3_000)
    values[1_234] = 77.0
    points = thinned(np.arange(3_000.0), values)
    assert len(points) == 600
    assert max(value or 0.0 for _, value in points) == 77.0
    assert thinned(np.array([0.0, 1.0]), np.array([np.nan, 2.0])) == ((0.0, None), (1.0, 2.0))
    assert thinned(np.array([0.0]), np.array([1.0])) == ()
