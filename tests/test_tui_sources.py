"""Sources, files and coverage as a sheet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_builder import full_report
from sheet_kit import NOW_S, column, grid, said, texts, view_of
from two_ranks import two_ranks

from m3probe.model.recording import Note
from m3probe.model.view import SourceState, View, Word
from m3probe.present.sheets.sheet import Lens, Said
from m3probe.present.sheets.sources import source, sources
from m3probe.present.sheets.targets import sheet_of

WELL = SourceState(
    "http://h:8000", "metrics", Word.LIVE, last_ok_s=NOW_S - 2, took_ms=12.4, found="214 series",
    missing=("vllm:num_requests_waiting_by_reason: the split of waiting requests",),
)  # fmt: skip
DOWN = SourceState("http://h:8001", "metrics", Word.DOWN, "Connection refused", last_ok_s=NOW_S - 516, retry_in_s=5.0)
NEVER = SourceState("server.log", "log", Word.CONNECTING)


def live() -> View:
    return view_of(None, word=Word.DOWN, sources=(WELL, DOWN, NEVER))


def test_each_source_has_state_age_time_and_what_it_found() -> None:
    shown = grid(sources(live(), Lens()), "Sources")
    assert [texts(line) for line in shown.lines] == [
        ["http://h:8000", "metrics", "LIVE", "2 s ago", "12", "—", "214 series", "1"],
        ["http://h:8001", "metrics", "DOWN", "8.6 min ago", "—", "5.0", "—", "0"],
        ["server.log", "log", "CONNECTING", "never", "—", "—", "—", "0"],
    ]
    assert shown.lines[1].cells[2].mark == "DOWN"


def test_two_names_that_differ_in_the_last_digit_are_two_lines_that_open_two_pages() -> None:
    view = live()
    opened = [line.opens for line in grid(sources(view, Lens()), "Sources").lines]
    assert [sheet_of(each, view, Lens()).title for each in opened] == ["http://h:8000", "http://h:8001", "server.log"]


def test_errors_and_what_is_missing_are_said_in_full() -> None:
    told = said(sources(live(), Lens()))
    assert "http://h:8001: Connection refused" in told
    assert "http://h:8000 lacks vllm:num_requests_waiting_by_reason: the split of waiting requests" in told


def test_one_source_says_when_it_was_read_when_it_is_asked_again_and_what_each_gap_costs() -> None:
    page = source(live(), Lens(), "http://h:8001")
    assert said(page) == [
        "DOWN: Connection refused",
        "metrics, last read well 8.6 min ago; asked again in 5.0 s.",
    ]
    assert grid(page, "Missing").empty == "Nothing that is looked for is missing."
    shown = grid(source(live(), Lens(), "http://h:8000"), "Missing")
    assert texts(shown.lines[0]) == ["vllm:num_requests_waiting_by_reason", "the split of waiting requests"]


def test_a_source_that_is_gone_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="source x is not watched"):
        source(live(), Lens(), "x")


def test_files_of_a_recording_have_rank_size_losses_and_notes(tmp_path: Path) -> None:
    rec = two_ranks(tmp_path)
    lost = Note("lost_events", "3 event(s) lost", rec.files[1].path, 3, lossy=True)
    file = replace(rec.files[1], counts=replace(rec.files[1].counts, lost_events=3))
    rec = replace(rec, notes=(lost,), files=(rec.files[0], file))
    page = sources(view_of(None, rec), Lens())
    shown = grid(page, "Files, recorded")
    assert column(shown, "rank") == ["0", "1"]
    assert column(shown, "lost") == ["0", "3"]
    assert column(shown, "notes") == ["0", "1"]
    assert column(shown, "events") == ["10", "10"], "2 steps, 4 launches, 4 kernels"
    told = next(block for block in page.blocks if isinstance(block, Said) and "3 event(s) lost" in block.text)
    assert told.mark == "PARTIAL"


def test_a_file_without_events_shows_a_dash_and_not_a_zero(tmp_path: Path) -> None:
    rec = two_ranks(tmp_path)
    log = replace(rec.files[0], path="server.log", kind="vllm-log", role="log", rank=None)
    shown = grid(sources(view_of(None, replace(rec, files=(log,))), Lens()), "Files, recorded")
    assert texts(shown.lines[0])[3] == "—"
    assert texts(shown.lines[0])[5:7] == ["—", "—"]


def test_what_could_not_be_seen_says_what_that_costs() -> None:
    told = said(sources(view_of(full_report()), Lens()))
    assert any(text.startswith("no configuration: missed and declined paths are unproven") for text in told)
    assert any(text.startswith("graph launches without a census") for text in told)
    assert not any(text.startswith("no operator with its shapes") for text in told), "40 operators have shapes"
    assert "Trust degraded: 1 reason." in told
    assert "lost events: 3 event(s) lost: kernels may be among them" in told


def test_nothing_is_watched_of_a_file_that_was_read() -> None:
    assert grid(sources(view_of(full_report()), Lens()), "Sources").empty.startswith("No source is watched")


def test_two_files_of_one_name_are_two_lines_that_open_two_pages() -> None:
    view = view_of(None, sources=(replace(NEVER, found="rank 0"), NEVER, replace(NEVER, found="rank 1")))
    lines = grid(sources(view, Lens()), "Sources").lines
    assert [line.key for line in lines] == ["server.log", "server.log #2", "server.log #3"]
    assert ["rank 1" in str(sheet_of(line.opens, view, Lens())) for line in lines] == [False, False, True]
