"""Damaged traces: what is whole is kept, what is not known stays unknown, and every loss is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, step, write_trace

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.pipeline import inspect, report
from m3probe.readers import salvage
from m3probe.readers.repair import value_end
from m3probe.rules import judge, load_rules
from m3probe.schema.verdicts import Outcome, Phase
from m3probe.sources import open_recording

DECODE = "execute_context_0(0)_generation_2(2)"


def good() -> list[dict[str, Any]]:
    """One step with three kernels of 2 us."""
    found = [step(10.0, 50.0, DECODE)]
    for i in range(3):
        found += [launch(20.0 + i, i + 1), kernel(100.0 + 10 * i, 2.0, i + 1, f"k{i}")]
    return found


def read(tmp_path: Path, events: list[Any], **header: Any) -> Recording:
    return open_recording([write_trace(tmp_path / "t.json", events, **header)])


def words(rec: Recording) -> set[str]:
    return {note.word for note in rec.notes}


@pytest.mark.parametrize("name", ["", "null", None])
def test_a_kernel_without_a_name_takes_nobody_elses(tmp_path: Path, name: str | None) -> None:
    events = good()
    events[2] = {**events[2], "name": name} if name is not None else {k: v for k, v in events[2].items() if k != "name"}
    rec = read(tmp_path, [*events, launch(200.0, 9, "zzz_last_string")])
    assert rec.names("kernels")[0] == (name or "")
    assert ("unnamed_kernels" in words(rec)) is (name != "null")


@pytest.mark.parametrize(
    "odd",
    [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 2**63 - 1, "args": {}},
        {"ph": "X", "cat": "Trace", "name": "t", "ts": 1e300, "dur": 1},
        {"ph": "i", "name": "mark", "ts": "abc"},
        {**kernel(1e18, 2.0, 0, "late")},
        {**kernel(1.0, 1e300, 0, "endless")},
        {**kernel(1.0, 10**30, 0, "endless")},
        {**kernel(1.0, 2**63 - 1, 0, "endless")},
        {**kernel(1.0, 1.0, 0, "text"), "ts": "0x10", "dur": "nan"},
    ],
    ids=lambda e: str(e.get("name")),
)
def test_one_odd_time_spoils_nothing_else(tmp_path: Path, odd: dict[str, Any]) -> None:
    rec = read(tmp_path, [odd, *good()])
    timed = rec.kernels["timed"]
    assert rec.kernels["dur_ns"][timed].tolist() == [2000, 2000, 2000]
    assert rec.kernels["start_ns"][timed].tolist() == [100_000, 110_000, 120_000]
    assert len(rec.kernels) == 3 + (odd.get("cat") == "kernel")


@pytest.mark.parametrize("value", ["missing", None, "NaN", "", "x", [1], True, {}])
def test_a_duration_that_is_not_known_is_not_zero(tmp_path: Path, value: Any) -> None:
    events = good()
    if value == "missing":
        del events[2]["dur"]
    else:
        events[2]["dur"] = float("nan") if value == "NaN" else value
    rec = read(tmp_path, events)
    assert rec.kernels["timed"].tolist() == [False, True, True]
    assert len(rec.steps) == 1


def test_a_step_without_a_time_stamp_is_left_out_and_told(tmp_path: Path) -> None:
    second = step(0.0, 5.0, DECODE)
    del second["ts"]
    rec = read(tmp_path, [second, *good()])
    assert rec.steps["start_ns"].tolist() == [10_000]
    assert "undated_annotations" in words(rec)
    assert rec.outcome is Outcome.PARTIAL


@pytest.mark.parametrize(
    "name",
    [
        f"execute_context_1({10**30})_generation_0(0)",
        f"execute_context_{2**63 - 1}(1)_generation_{2**63 - 1}(1)",
        f"execute_context_1({'9' * 5000})_generation_0(0)",
        f"step[DECODE bs={10**30}]",
    ],
)
def test_numbers_beyond_reason_in_a_step_name_are_unknown(tmp_path: Path, name: str) -> None:
    rec = read(tmp_path, [step(10.0, 5.0, name), *good()[1:]])
    assert rec.steps["rows"].tolist() in ([-1], [2])
    assert (rec.steps["requests"] < 2**50).all()
    assert rec.steps["phase"].tolist() != [list(Phase).index(Phase.EMPTY)]


def test_nesting_a_hundred_thousand_deep_is_a_lost_event(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": good()})
    deep = "[" * 100_000 + "]" * 100_000
    event = f'{{"ph":"X","cat":"cpu_op","name":"deep","ts":1,"dur":1,"args":{{"Input Dims":{deep}}}}}'
    path = tmp_path / "t.json"
    path.write_text(text.replace('"traceEvents": [', f'"traceEvents": [{event}, '))
    rec = open_recording([path])
    assert len(rec.kernels) == 3
    path.write_text(text.replace('{"traceEvents"', f'{{"deep": {deep}, "traceEvents"'))
    assert len(open_recording([path]).kernels) == 3


def test_lists_of_objects_inside_and_behind_events_cut_nothing(tmp_path: Path) -> None:
    kids = [{"name": chr(97 + i)} for i in range(5)]
    last = kernel(300.0, 2.0, 0, "last", kids=kids)
    devices = [{"name": f"H{i}", "id": i, "numSms": 132} for i in range(8)]
    document = {
        "traceEvents": [*good(), last],
        "deviceProperties": devices,
        "metadata": {"a": [{"name": 1}, {"pid": 3}]},
    }
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    rec = open_recording([path])
    assert rec.names("kernels") == ["k0", "k1", "k2", "last"]
    assert [d.name for d in rec.meta.devices] == [f"H{i}" for i in range(8)]
    assert rec.outcome is Outcome.OK


@pytest.mark.parametrize("foreign", [None, 5, "text, with a comma", [], [1, {"name": "x"}], True])
@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_value_that_is_no_event_costs_nobody_else(tmp_path: Path, foreign: Any, place: int) -> None:
    events: list[Any] = good()
    events.insert(place, foreign)
    rec = read(tmp_path, events)
    assert rec.names("kernels") == ["k0", "k1", "k2"]
    assert rec.files[0].counts.lost_events == 1
    assert not rec.files[0].counts.truncated


@pytest.mark.parametrize("form", ["object", "array"])
@pytest.mark.parametrize(("after", "refused"), [('{"traceEvents": []}', True), ("[]", True), ("garbage", False)])
def test_what_follows_the_end_is_told(tmp_path: Path, form: str, after: str, refused: bool) -> None:
    path = tmp_path / "t.json"
    text = json.dumps(good() if form == "array" else {"traceEvents": good()})
    path.write_text(f"{text}\n{after}")
    if refused:
        with pytest.raises(UnreadableInput, match="two writers"):
            open_recording([path])
    else:
        rec = open_recording([path])
        assert (len(rec.kernels), words(rec), rec.outcome) == (3, {"trailing"}, Outcome.PARTIAL)


@pytest.mark.parametrize("spoil", ["checksum", "length", "byte"])
def test_a_damaged_gzip_gives_what_it_holds(tmp_path: Path, spoil: str) -> None:
    data = bytearray(gzip.compress(json.dumps({"traceEvents": good() * 40}).encode()))
    place = {"checksum": -8, "length": -4, "byte": len(data) * 2 // 3}[spoil]
    data[place] ^= 0xFF
    path = tmp_path / "t.json.gz"
    path.write_bytes(bytes(data))
    rec = open_recording([path])
    assert rec.outcome is Outcome.PARTIAL
    assert rec.files[0].counts.truncated
    assert len(rec.kernels) == 120 if spoil != "byte" else 0 < len(rec.kernels) < 120


def test_when_no_event_can_be_decoded_the_reason_is_not_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph":"X","name":"a"b","ts":1},{"ph":"X","name":"c"d","ts":1}]}')
    with pytest.raises(UnreadableInput, match="none of the 2 events can be decoded"):
        open_recording([path])


@pytest.mark.parametrize(
    "header",
    [
        {"distributedInfo": {"rank": 2**63 - 1, "world_size": 10**30}},
        {"distributedInfo": {"rank": -(2**63), "world_size": -1}},
        {"deviceProperties": [{"id": 0, "name": "x", "numSms": True, "totalGlobalMem": 10**40, "warpSize": -5}]},
    ],
)
def test_header_numbers_beyond_reason_are_unknown(tmp_path: Path, header: dict[str, Any]) -> None:
    rec = read(tmp_path, good(), **header)
    assert rec.files[0].rank in (None, 0)
    assert rec.files[0].world_size in (None, 1)
    for device in rec.meta.devices:
        assert (device.units, device.memory_bytes, device.warp_size) == (-1, -1, -1)


@pytest.mark.parametrize("grid", [[-1, 1, 1], [0, 0, 0], [1, 2, 3, 4], "x", [1e99, 1, 1], [10**100, 1, 1], [1], None])
def test_a_grid_that_cannot_be_is_not_known(tmp_path: Path, grid: Any) -> None:
    events = [*good(), kernel(300.0, 2.0, 0, "k", grid=grid), op(5.0, 1.0, "aten::mm", dims=grid)]
    assert read(tmp_path, events).kernels["grid"].tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize(
    "event",
    [
        '{"zkey":1,"ph":"X","cat":"kernel","name":"k"x","ts":1,"dur":1}',
        '{"ph":"X","cat":"kernel","name":"k\xff","ts":1,"dur":1}',
        '{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":NaN}',
        '{"ph":"X","cat":"kernel","name":"a\\q","ts":1,"dur":1}',
    ],
    ids=["quotes", "utf8", "nan", "backslash"],
)
def test_every_event_needs_repair_and_each_is_counted(tmp_path: Path, event: str) -> None:
    count = 5_000
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [' + b",\n".join([event.encode("latin-1")] * count) + b"]}")
    if event.startswith('{"zkey"'):
        with pytest.raises(UnreadableInput, match="events can be decoded"):
            open_recording([path])
        return
    rec = open_recording([path])
    counts = rec.files[0].counts
    assert len(rec.kernels) == count
    assert sum(note.count for note in rec.notes) == count
    assert counts.lost_events == 0


def test_a_share_over_unknown_durations_is_inconclusive(tmp_path: Path) -> None:
    # every GEMM lost its duration: its share is not 0
    events = [step(10.0, 50.0, DECODE)]
    for i, name in enumerate(["nvjet_tst_64x8", "nvjet_tst_64x8", "copy_kernel"]):
        events += [launch(20.0 + i, i + 1), kernel(100.0 + 10 * i, 2.0, i + 1, name)]
        if name.startswith("nvjet"):
            del events[-1]["dur"]
    rec = read(tmp_path, events)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nfamily = "gemm"\nmax_share = 0.5\n')
    judgement = judge(load_rules(rules), rec, report(rec).answer)
    assert judgement.exit_code == 4
    facts = inspect(rec).facts
    assert (facts["kernels_without_time"], facts["kernel_time_ns"], facts["trust"]) == (2, 2000, "degraded")


@pytest.mark.parametrize("head", ["", '{"traceEvents":'])
def test_brackets_that_never_close_are_read_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    looked = []

    def counted(data: bytes, start: int, stop: int) -> int:
        looked.append(stop - start)
        return value_end(data, start, stop)

    monkeypatch.setattr(salvage, "value_end", counted)
    path = tmp_path / "t.json"
    path.write_text(head + "[" * 100_000)
    with pytest.raises(UnreadableInput):
        open_recording([path])
    assert sum(looked) <= 100_000
