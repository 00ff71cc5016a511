"""Every kind of input on the wall clock, by hand; and where a file does not tell its time, that it is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from builders import step, write_trace
from joining_kit import MIDNIGHT_NS, at, bench, clock, guest, log, mono, page, scrapes, trace
from recording_kit import SECOND, write
from tree import ROOT

from m3probe.model.clock import ClockSection, FileClock, Tie, clocks
from m3probe.pipeline import analyze
from m3probe.present.json import report_json
from m3probe.present.text import report_text
from m3probe.schema import records
from m3probe.sources import open_recording


def of(*paths: Path) -> dict[str, FileClock]:
    """Clocks by the name of the file."""
    return {Path(clock.path).name: clock for clock in clocks(open_recording(list(paths)))}


def one(path: Path) -> FileClock:
    return next(iter(of(path).values()))


def test_a_trace_is_on_the_wall_by_its_base_time(tmp_path: Path) -> None:
    found = one(trace(tmp_path / "t.json", [1.5, 3.0]))
    # steps at 1.5 s and 3.0 s, each 1 ms
    assert (found.state, found.how, found.span) == (Tie.ALIGNED, "baseTimeNanoseconds", (at(1.5), at(3.001)))
    assert found.offset_ns == MIDNIGHT_NS


def test_an_old_trace_counts_from_1970_itself(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", [step(MIDNIGHT_NS / 1e3, 500.0, "execute_context_0(0)_generation_1(1)")])
    found = one(path)
    assert (found.state, found.how, found.offset_ns) == (Tie.ALIGNED, "its times count from 1970", 0)
    assert found.span == (MIDNIGHT_NS, MIDNIGHT_NS + 500_000)


@pytest.mark.parametrize(
    ("base", "said"), [(None, "no baseTimeNanoseconds"), (7, "baseTimeNanoseconds 7 gives no wall time")]
)
def test_a_trace_that_tells_no_wall_time_is_unaligned(tmp_path: Path, base: int | None, said: str) -> None:
    found = one(trace(tmp_path / "t.json", [1.5], base=base))
    assert (found.state, found.span, found.offset_ns) == (Tie.UNALIGNED, None, None)
    assert found.how.startswith(said)


def test_guests_are_tied_by_their_clock_records(tmp_path: Path) -> None:
    found = one(guest(tmp_path / "w.m3p", {7: 5, 9: 5}))
    assert (found.state, found.span) == (Tie.ALIGNED, (at(7), at(9)))
    assert found.offset_ns == at(0) - mono(0)


def test_full_rows_reach_further_than_the_second_in_which_they_were_written(tmp_path: Path) -> None:
    row = records.StepRow(step=1, phase="decode", mode="NONE", rows=1, t_start=mono(2.25), t_done=mono(2.5))
    sample = records.Sample(mono_ns=mono(3), values={"a": 1.0}, source="test")
    assert one(write(tmp_path / "w.m3p", [clock(), row, sample])).span == (at(2.25), at(3))


def test_a_recording_without_a_clock_record_is_unaligned(tmp_path: Path) -> None:
    sample = records.Sample(mono_ns=5 * SECOND, values={"a": 1.0}, source="test")
    found = one(write(tmp_path / "w.m3p", [sample]))
    assert (found.state, found.how) == (Tie.UNALIGNED, "no clock record ties its monotonic clock to the wall")


# --- local time without a zone -----------------------------------------------------------------------------------


def test_a_log_takes_the_only_zone_in_which_it_meets_the_trace(tmp_path: Path) -> None:
    lines = log(tmp_path / "s.log", "10-01 02:00:00", "10-01 02:00:10")  # 00:00:05 UTC is 02:00:05 in UTC+2
    found = of(trace(tmp_path / "t.json", [5.0]), lines)["s.log"]
    assert (found.state, found.span) == (Tie.ASSUMED, (at(0), at(10)))
    assert found.how == "local time without a zone and a year; UTC+2 is the only zone in which it meets the others"


def test_half_hours_are_zones_where_no_whole_hour_fits(tmp_path: Path) -> None:
    lines = log(tmp_path / "s.log", "10-01 05:30:00", "10-01 05:30:10")
    found = of(trace(tmp_path / "t.json", [5.0]), lines)["s.log"]
    assert (found.state, found.span) == (Tie.ASSUMED, (at(0), at(10)))
    assert "UTC+5:30 is the only zone" in found.how


def test_a_long_log_is_taken_as_utc_where_that_is_one_of_several(tmp_path: Path) -> None:
    lines = log(tmp_path / "s.log", "09-30 22:30:00", "10-01 01:30:00")  # UTC-1, UTC and UTC+1 would do
    found = of(trace(tmp_path / "t.json", [5.0]), lines)["s.log"]
    assert (found.state, found.span) == (Tie.ASSUMED, (at(-5_400), at(5_400)))
    assert "taken as UTC, one of 3 zones" in found.how


def test_a_long_log_of_which_nobody_knows_the_zone_is_unaligned(tmp_path: Path) -> None:
    lines = log(tmp_path / "s.log", "10-01 06:30:00", "10-01 09:30:00")  # UTC+7, +8 and +9
    found = of(trace(tmp_path / "t.json", [5.0]), lines)["s.log"]
    assert (found.state, found.span, found.never_meets) == (Tie.UNALIGNED, None, False)
    assert found.how.endswith("it meets the others in 3 zones, UTC+7 to UTC+9, and UTC is none of them")


def test_a_log_of_another_day_meets_nothing(tmp_path: Path) -> None:
    lines = log(tmp_path / "s.log", "10-08 02:00:00", "10-08 02:00:10")
    found = of(trace(tmp_path / "t.json", [5.0]), lines)["s.log"]
    assert (found.state, found.never_meets) == (Tie.UNALIGNED, True)
    assert found.how.endswith("in no time zone does it meet another input")


def test_a_log_that_goes_on_over_new_year_is_one_stretch(tmp_path: Path) -> None:
    new_year = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
    lines = log(tmp_path / "s.log", "12-31 23:59:50", "01-01 00:00:20")
    found = of(trace(tmp_path / "t.json", [5.0], base=new_year), lines)["s.log"]
    assert found.span == (new_year - 10 * SECOND, new_year + 20 * SECOND)


def test_a_log_of_29_february_is_of_a_leap_year(tmp_path: Path) -> None:
    leap = 1_709_164_800 * SECOND  # 2024-02-29T00:00:00Z
    lines = log(tmp_path / "s.log", "02-29 00:00:00", "02-29 00:00:10")
    assert of(trace(tmp_path / "t.json", [5.0], base=leap), lines)["s.log"].span == (leap, leap + 10 * SECOND)


def test_a_log_alone_has_no_year(tmp_path: Path) -> None:
    found = one(log(tmp_path / "s.log", "10-01 02:00:00"))
    assert (found.state, found.never_meets) == (Tie.UNALIGNED, False)
    assert found.how.endswith("no input beside it tells the year")


@pytest.mark.parametrize("text", ["13-45 99:00:00", "02-30 00:00:00"])
def test_times_that_are_none_align_nothing(tmp_path: Path, text: str) -> None:
    found = of(trace(tmp_path / "t.json", [5.0]), log(tmp_path / "s.log", text))["s.log"]
    assert found.state is Tie.UNALIGNED
    assert found.how.endswith("are none")


def test_json_records_of_a_log_bring_their_year(tmp_path: Path) -> None:
    told = [
        {
            "asctime": f"2025-10-01 {time}",
            "levelname": "INFO",
            "name": "vllm.a",
            "processName": "EngineCore",
            "message": "x",
        }
        for time in ("00:00:00", "00:00:09")
    ]
    path = tmp_path / "s.log"
    path.write_text("\n".join(map(json.dumps, told)) + "\n")
    found = one(path)
    assert (found.state, found.span) == (Tie.ASSUMED, (at(0), at(9)))
    assert "taken as UTC: no input beside it says the wall time" in found.how


def test_a_benchmark_ends_at_its_date(tmp_path: Path) -> None:
    run = bench(tmp_path / "b.json", "20251001-010030", 25.0, 4)  # UTC+1; from 00:00:05 to 00:00:30
    found = of(trace(tmp_path / "t.json", [10.0]), run)["b.json"]
    assert (found.state, found.span) == (Tie.ASSUMED, (at(5), at(30)))
    assert "UTC+1 is the only zone" in found.how


def test_a_benchmark_without_a_date_is_unaligned(tmp_path: Path) -> None:
    found = of(trace(tmp_path / "t.json", [10.0]), bench(tmp_path / "b.json", "yesterday", 25.0, 4))["b.json"]
    assert (found.state, found.how) == (Tie.UNALIGNED, "the run says no date")


# --- pages of /metrics -------------------------------------------------------------------------------------------


def test_pages_that_are_dated_by_their_names_are_one_row(tmp_path: Path) -> None:
    for second in (0, 10, 20):
        page(tmp_path / f"metrics-20251001T0000{second:02}Z.prom", stop=5.0)
    found = list(of(tmp_path, trace(tmp_path.parent / f"{tmp_path.name}.json", [1.0])).values())
    (pages,) = [clock for clock in found if clock.kind == "prometheus"]
    assert (pages.files, pages.state, pages.span) == (3, Tie.ALIGNED, (at(0), at(20)))


def test_pages_without_a_date_lie_where_their_files_were_written(tmp_path: Path) -> None:
    path = page(tmp_path / "m.prom", stop=5.0)
    os.utime(path, ns=(at(3), at(3)))
    found = one(path)
    assert (found.state, found.by_mtime, found.span) == (Tie.ASSUMED, True, (at(3), at(3)))
    assert "no date on its pages" in found.how


# --- the report ---------------------------------------------------------------------------------------------------


def test_the_report_has_a_row_a_file_and_one_line(tmp_path: Path) -> None:
    paths = [
        trace(tmp_path / "t.json", [5.0]),
        log(tmp_path / "s.log", "10-01 00:00:00", "10-01 00:00:10"),
        scrapes(tmp_path / "h.m3p", {0: {"a": 1.0}, 9: {"a": 2.0}}),
    ]
    report = analyze(paths)
    document = json.loads(report_json(report))
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    rows = {Path(row["path"]).name: (row["state"], row["first_ns"], row["last_ns"]) for row in document["clocks"]}
    assert rows == {
        "t.json": ("aligned", at(5), at(5.001)),
        "s.log": ("assumed", at(0), at(10)),
        "h.m3p": ("aligned", at(0), at(9)),
    }
    text = report_text(report, 120, color=False)
    assert "Clock  ● one clock: 2 files on the wall clock; s.log assumed (local time without a zone and a year;" in text
    assert "Differ" not in text


def test_one_kind_of_input_needs_no_line(tmp_path: Path) -> None:
    report = analyze([trace(tmp_path / "t.json", [5.0])])
    assert "Clock" not in report_text(report, 120, color=False)
    section = report.answer.section(ClockSection)
    assert section is not None
    assert len(section.clocks) == 1


def test_what_is_not_on_the_clock_is_said_in_the_line(tmp_path: Path) -> None:
    report = analyze([trace(tmp_path / "t.json", [5.0], base=None), scrapes(tmp_path / "h.m3p", {0: {"a": 1.0}})])
    assert "Clock  ! not one clock: 1 file on the wall clock; t.json not (no baseTimeNanoseconds" in report_text(
        report, 120, color=False
    )


def test_a_trace_and_its_guest_agree_to_a_millisecond_on_an_h200() -> None:
    """The kernel window was taken at the guest's steps 861 to 870: both ends name the same moments."""
    rec = open_recording([ROOT / "samples" / "live-h200-m3-attach"])
    found = clocks(rec)
    assert {clock.state for clock in found} == {Tie.ALIGNED}
    by_file = {clock.file: clock.offset_ns for clock in found}
    traced = rec.steps["start_ns"] + np.array([by_file[file] for file in rec.steps["file"].tolist()])
    rows = rec.tables["step_rows"]
    mine = (rows["role"] == rec.strings.find("worker")) & (rows["step"] >= 861) & (rows["step"] <= 870)
    guests = np.sort(rows["t_start"][mine]) + by_file[int(rows["file"][mine][0])]
    assert len(traced) == len(guests) == 10
    assert np.abs(traced - guests).max() < 1_000_000
