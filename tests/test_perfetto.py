"""Perfetto traces: what rocprofv3 writes, packet by packet; our own export read back; all others refused."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import perfetto_kit as kit
import pytest
from tree import ROOT

from m3probe import exporting
from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.pipeline import inspect, report
from m3probe.readers._perfetto_stream import packets_in
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
GRAPHS = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"


def words(rec: Recording) -> set[str]:
    return {note.word for note in rec.notes}


# --- rocprofv3 -------------------------------------------------------------------------------------------------


def test_kernels_of_two_agents_are_two_ranks_of_one_process(tmp_path: Path) -> None:
    rec = open_recording([kit.written(tmp_path / "501_results.pftrace", kit.rocprofv3())])
    assert [(f.kind, f.pid, f.device, f.rank) for f in rec.files] == [
        ("perfetto", 501, "Agent-4", 0),
        ("perfetto", 501, "Agent-5", 1),
    ]
    kernels = rec.kernels
    assert rec.names("kernels") == ["first", "second"]
    # 1,000,000 + 1,000 + 4 x 500 + 500 + 5,500 + 1,000: every time stamp is a difference to the one before
    assert kernels["start_ns"].tolist() == [1_010_000, 1_012_000]
    assert kernels["dur_ns"].tolist() == [2_000, 3_000]
    assert kernels["device"].tolist() == [4, 5]
    assert kernels["stream"].tolist() == [2, 9]
    assert [rec.dims[row] if row >= 0 else None for row in kernels["grid"].tolist()] == [None, (2, 2, 1)]
    assert rec.outcome is Outcome.OK_WITH_WARNINGS or rec.outcome is Outcome.OK


def test_correlations_link_to_calls_and_ranges_to_steps(tmp_path: Path) -> None:
    rec = open_recording([kit.written(tmp_path / "a.pftrace", kit.rocprofv3())])
    assert (rec.kernels["launch"] != NONE).all()
    assert (rec.kernels["step"] != NONE).all()
    assert rec.names("steps") == ["execute_context_0(0)_generation_4(4)"] * 2  # one on each of the two ranks
    assert rec.steps["dur_ns"].tolist() == [9_000, 9_000]
    assert rec.transfers["payload_bytes"].tolist() == [4096]
    assert rec.names("launches").count("hipLaunchKernel") == 2


def test_own_times_count_where_they_are_written(tmp_path: Path) -> None:
    slice_ = kit.begin(5, kit.QUEUE_4, "kernel_dispatch", "k", agent="GPU-3", begin_ns=70, end_ns=95)
    rec = open_recording([kit.written(tmp_path / "a.pftrace", [kit.clock(1), *kit.tracks(), slice_])])
    assert (rec.kernels["start_ns"].tolist(), rec.kernels["dur_ns"].tolist()) == ([70], [25])
    assert rec.files[0].device == "GPU-3"


@pytest.mark.parametrize(
    ("packets", "word"),
    [
        ([kit.begin(5, kit.QUEUE_4, "kernel_dispatch", "open")], "unended"),
        ([kit.packet(previous_packet_dropped=1)], "dropped_packets"),
        ([kit.packet(compressed_packets=b"x")], "compressed_packets"),
        ([kit.packet(trace_stats={"buffer_stats": [{"chunks_discarded": 3}]})], "full_buffer"),
        ([kit.end(1, kit.COPIES)], ""),
    ],
)
def test_every_loss_is_told(tmp_path: Path, packets: list[object], word: str) -> None:
    rec = open_recording([kit.written(tmp_path / "a.pftrace", [*kit.rocprofv3(), *packets])])
    assert (words(rec) - {"pftrace_holds"}) == ({word} if word else set())
    assert (rec.outcome is Outcome.PARTIAL) is bool(word)
    assert len(rec.kernels) == 2 + (word == "unended")
    assert int(rec.kernels["timed"].sum()) == 2


def test_a_clock_that_was_never_told_gives_no_time(tmp_path: Path) -> None:
    packets = [p for p in kit.rocprofv3() if not p.HasField("clock_snapshot")]
    for one in packets:
        one.timestamp_clock_id = 70
    rec = open_recording([kit.written(tmp_path / "a.pftrace", packets)])
    assert "undated" in words(rec)
    assert not rec.kernels["timed"].any()


@pytest.mark.parametrize("at", [2**61, 2**63, 2**64 - 1])
def test_times_beyond_reason_are_unknown(tmp_path: Path, at: int) -> None:
    bad = kit.begin(0, kit.QUEUE_4, "kernel_dispatch", "late", begin_ns=at, end_ns=at)
    bad.timestamp, bad.timestamp_clock_id = at, 6
    rec = open_recording([kit.written(tmp_path / "a.pftrace", [*kit.rocprofv3(), bad])])
    assert rec.kernels["timed"].tolist() == [True, False, True]


@pytest.mark.parametrize("suffix", ["pftrace", "pftrace.gz", "bin"])
@pytest.mark.parametrize("left", [3, 40, 200])
def test_a_cut_file_gives_what_it_holds(tmp_path: Path, suffix: str, left: int) -> None:
    data = kit.pb.Trace(packet=kit.rocprofv3()).SerializeToString()[:-left]
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    rec = open_recording([path])
    assert rec.outcome is Outcome.PARTIAL
    assert rec.files[0].counts.truncated


def test_bytes_that_are_no_packet_end_the_file(tmp_path: Path) -> None:
    path = kit.written(tmp_path / "a.pftrace", kit.rocprofv3())
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\xff" * 100)
    rec = open_recording([path])
    assert len(rec.kernels) == 2
    assert any(f"byte {whole:,}" in note.text for note in rec.notes if note.word == "truncated")


def test_a_packet_that_is_no_message_is_counted(tmp_path: Path) -> None:
    path = kit.written(tmp_path / "a.pftrace", kit.rocprofv3())
    path.write_bytes(path.read_bytes() + b"\x0a\x03\xff\xff\xff")
    rec = open_recording([path])
    assert (len(rec.kernels), rec.files[0].counts.lost_events) == (2, 1)


# --- our own export --------------------------------------------------------------------------------------------


def exported(tmp_path: Path, source: Path, *, host: bool) -> tuple[Recording, Recording]:
    rec = open_recording([source])
    out = tmp_path / "out.pftrace"
    exporting.asked("perfetto", [source], out, host=host).write(rec, report(rec))
    return rec, open_recording([out])


def by(rec: Recording, column: str) -> dict[int, tuple[int, int]]:
    """{value: (kernels, ns)}."""
    values, dur = rec.kernels[column], rec.kernels["dur_ns"]
    return {v: (int((values == v).sum()), int(dur[values == v].sum())) for v in np.unique(values).tolist()}


@pytest.mark.parametrize("source", [SAMPLE, GRAPHS], ids=["eager", "graph"])
def test_an_export_read_back_is_the_recording(tmp_path: Path, source: Path) -> None:
    rec, back = exported(tmp_path, source, host=True)
    for column in ("device", "stream", "step", "correlation", "family", "in_graph"):
        assert by(back, column) == by(rec, column), column
    assert (back.files[0].rank, back.files[0].base_time_ns) == (rec.files[0].rank, 0)
    here = inspect(rec).facts
    there = inspect(back).facts
    for key in (
        "kernels",
        "kernel_time_ns",
        "steps",
        "step_list",
        "step_kernels",
        "launches",
        "graph_launches",
        "memcpys",
    ):
        assert there[key] == here[key], key
    first = rec.kernels["start_ns"][rec.kernels["timed"]].min() + (rec.files[0].base_time_ns or 0)
    assert back.kernels["start_ns"].min() == first


def test_an_export_without_the_host_says_so(tmp_path: Path) -> None:
    rec, back = exported(tmp_path, GRAPHS, host=False)
    assert by(back, "stream") == by(rec, "stream")
    assert inspect(back).facts["step_list"] == inspect(rec).facts["step_list"]
    assert "no_host" in words(back)
    assert back.kernels["in_graph"].sum() == rec.kernels["in_graph"].sum() > 0
    assert (back.kernels["step"][~back.kernels["in_graph"]] == NONE).all()


def test_a_loss_stays_one_when_it_is_read_again(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(SAMPLE.read_bytes())[:-20_000])
    rec, back = exported(tmp_path, cut, host=False)
    assert (rec.outcome, back.outcome) == (Outcome.PARTIAL, Outcome.PARTIAL)
    assert "exported_partial" in words(back)


# --- others ----------------------------------------------------------------------------------------------------


def test_a_trace_of_something_else_is_refused(tmp_path: Path) -> None:
    ftrace = kit.packet(timestamp=5, ftrace_events={"cpu": 1})
    event = kit.packet(timestamp=9, track_event={"type": 1, "track_uuid": 8, "name": "draw", "categories": ["gfx"]})
    with pytest.raises(UnreadableInput, match=r"no GPU slices in it \(it holds 1 track events, 2 ftrace_events\)"):
        open_recording([kit.written(tmp_path / "a.perfetto-trace", [ftrace, ftrace, event])])


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kit.written(tmp_path / "a.pftrace", kit.rocprofv3())
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(UnreadableInput, match=r"m3probe\[export\]"):
        open_recording([path])


@pytest.mark.parametrize(
    "head",
    [
        b"\x0a\x04\x12\x02ab" * 40,  # a list of messages without what a trace packet has (XSpace begins so)
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n",
        b'\n{"traceEvents": [{"ph": "X", "name": "P@", "ts": 1}]}' + b" " * 200,
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a",
        b"",
    ],
)
def test_other_bytes_are_no_packets(head: bytes) -> None:
    assert not packets_in(head)


@pytest.mark.parametrize("size", [30, 60, 200, 10_000])
def test_packets_are_told_by_any_beginning(size: int) -> None:
    assert packets_in(kit.pb.Trace(packet=kit.rocprofv3()).SerializeToString()[:size])
