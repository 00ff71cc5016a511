"""Recordings of guests: whole frames are read up to wherever a file ends, and every loss is told."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec
import pytest
from builders import kernel, launch, step, write_trace
from recording_kit import SECOND, batch, count, end, linear, process, read, replayed, steps, write

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.pipeline import inspect
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, frame
from m3probe.schema.gates import Cosine, GateFacts
from m3probe.schema.roles import Role
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording


def words(rec: Recording) -> list[str]:
    return [note.word for note in rec.notes]


def test_records_become_rows_of_their_tables(tmp_path: Path) -> None:
    rec = read(
        tmp_path,
        linear("model.layers.0.qkv", 768, 512),
        batch(0, 8),
        steps(replayed(0, steps=10, rows=5, padded=8), draft_replays={1: 30}),
        records.Sample(mono_ns=SECOND, values={"waiting": 3.0}, labels={"engine": "0"}),
    )
    modules, counts, drafts = (rec.tables[name] for name in ("modules", "step_counts", "draft_replays"))
    assert (modules["N"].tolist(), modules["K"].tolist(), modules["weight_bytes"].tolist()) == ([768], [512], [786_432])
    assert rec.strings[int(modules["name"][0])] == "model.layers.0.qkv"
    assert (counts["count"].tolist(), counts["rows_sum"].tolist(), counts["replays"].tolist()) == ([10], [50], [10])
    assert (drafts["descriptor"].tolist(), drafts["count"].tolist()) == ([1], [30])
    assert rec.strings[int(rec.tables["samples"]["name"][0])] == "waiting{engine=0}"
    assert rec.outcome is Outcome.OK


def test_unknown_stays_unknown(tmp_path: Path) -> None:
    rec = read(
        tmp_path,
        records.Descriptor(id=0, mode="FULL", padded_rows=8),
        records.Request(mono_ns=SECOND),
        records.Verified(module="m", state="cannot verify"),
    )
    assert rec.tables["descriptors"]["uniform"].tolist() == [-1]
    assert rec.tables["requests"]["queued_ns"].tolist() == [-1]
    assert rec.tables["verified"]["cosine"].tolist() != rec.tables["verified"]["cosine"].tolist()  # nan


def test_the_last_process_record_holds(tmp_path: Path) -> None:
    first = records.Process(role=Role.UNKNOWN, pid=7)
    rec = open_recording([write(tmp_path / "w.m3p", [first, process(rank=1, world=2, ep=2)])])
    assert (rec.files[0].rank, rec.files[0].world_size, rec.meta.tp, rec.meta.ep) == (1, 2, 2, 2)
    assert len(rec.tables["processes"]) == 1


def test_a_killed_process_leaves_a_readable_prefix_and_no_loss_is_claimed(tmp_path: Path) -> None:
    whole = MAGIC + frame(process()) + frame(steps(count(steps=3)))
    (tmp_path / "w.m3p").write_bytes(whole + frame(steps(count(steps=4)))[:-5])
    rec = open_recording([tmp_path / "w.m3p"])
    assert rec.tables["step_counts"]["count"].tolist() == [3]
    assert words(rec) == ["no_end"]
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_a_damaged_frame_ends_the_file_and_is_a_loss(tmp_path: Path) -> None:
    bad = bytearray(frame(steps(count(steps=4))))
    bad[-1] ^= 0xFF
    (tmp_path / "w.m3p").write_bytes(MAGIC + frame(process()) + bytes(bad) + frame(end()))
    rec = open_recording([tmp_path / "w.m3p"])
    assert len(rec.tables["step_counts"]) == 0
    assert words(rec) == ["damaged"]
    assert rec.outcome is Outcome.PARTIAL


def test_a_huge_length_is_damage_and_no_allocation(tmp_path: Path) -> None:
    (tmp_path / "w.m3p").write_bytes(MAGIC + frame(process()) + struct.pack("<II", 0xFFFFFFFF, 0) + b"x" * 64)
    rec = open_recording([tmp_path / "w.m3p"])
    assert words(rec) == ["damaged"]


def test_records_of_a_later_version_are_counted_and_left_out(tmp_path: Path) -> None:
    payload = msgspec.msgpack.encode({"k": "of next year", "x": 1})
    wrong = msgspec.msgpack.encode({"k": "clock", "mono_ns": "noon"})
    later = b"".join(struct.pack("<II", len(p), zlib.crc32(p)) + p for p in (payload, wrong))
    (tmp_path / "w.m3p").write_bytes(MAGIC + frame(process()) + later + frame(end()))
    rec = open_recording([tmp_path / "w.m3p"])
    assert [(note.word, note.count, note.lossy) for note in rec.notes] == [("unknown_records", 2, False)]


@pytest.mark.parametrize(
    "content", [b"", MAGIC, b"no recording at all", MAGIC + frame(end()), MAGIC + frame(process(format=99))]
)
def test_a_file_without_a_process_or_head_or_of_a_later_format_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.m3p").write_bytes(content)
    with pytest.raises(UnreadableInput):
        open_recording([tmp_path / "w.m3p"])


def test_a_recording_that_lost_its_head_is_not_passed_over_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a.m3p", [], rank=0)
    (tmp_path / "b.m3p").write_bytes(b"\0" * 100)
    rec = open_recording([tmp_path])
    assert [(note.word, note.lossy) for note in rec.notes] == [("unread", True)]


def test_dropped_records_and_failed_hooks_make_it_partial(tmp_path: Path) -> None:
    rec = read(tmp_path, end(dropped={"dispatch": 12}, failed_hooks={"ran_quick": 3}))
    assert [(note.word, note.count) for note in rec.notes] == [("dropped", 12), ("failed_hook", 3)]
    assert rec.outcome is Outcome.PARTIAL


def test_what_could_not_be_seen_is_a_warning_and_what_was_dropped_a_loss(tmp_path: Path) -> None:
    unseen = records.Note(word="routing_graphs", text="rows routed by replayed graphs are not seen", lossy=True)
    assert read(tmp_path, unseen, records.Note(word="x", text="by the way")).outcome is Outcome.OK_WITH_WARNINGS
    lost = records.Note(word="steps_lost", text="7 steps were not counted", lossy=True)
    assert read(tmp_path, unseen, lost).outcome is Outcome.PARTIAL


def test_a_clock_that_jumps_is_told_and_costs_nothing(tmp_path: Path) -> None:
    clocks = [
        records.Clock(mono_ns=n * SECOND, wall_ns=n * SECOND + late) for n, late in ((1, 0), (2, 0), (3, 90 * SECOND))
    ]
    rec = read(tmp_path, *clocks)
    assert words(rec) == ["clock_jump"]
    assert "90.0 s" in rec.notes[0].text
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_a_late_probe_is_said(tmp_path: Path) -> None:
    rec = read(tmp_path, process(late=True))
    assert words(rec) == ["late"]


def test_facts_for_gates_are_joined_over_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        facts = GateFacts(experts=8, cosines=(Cosine(f"layer.{rank}", 0.9999),))
        write(tmp_path / f"w{rank}.m3p", [records.Gate(facts=facts)], rank=rank, world=2)
    gates = open_recording([tmp_path]).meta.gates
    assert gates.experts == 8
    assert gates.cosines == (Cosine("layer.0", 0.9999), Cosine("layer.1", 0.9999))


def test_a_folder_with_a_trace_beside_the_guests_reads_both(tmp_path: Path) -> None:
    write(tmp_path / "w.m3p", [steps(count(steps=5))])
    write_trace(
        tmp_path / "rank0.json",
        [step(10.0, 50.0, "execute_context_0(0)_generation_2(2)"), launch(20.0, 1), kernel(30.0, 2.0, 1, "k")],
    )
    rec = open_recording([tmp_path])
    assert sorted(f.kind for f in rec.files) == ["kineto", "m3probe"]
    assert (len(rec.kernels), int(rec.tables["step_counts"]["count"].sum())) == (1, 5)


def test_a_census_of_a_guest_is_the_graphs_table(tmp_path: Path) -> None:
    kernels = (
        records.CensusKernel("k_a", op="aten::mm", dims="[[4,8],[8,16]]", grid=(4, 1, 1)),
        records.CensusKernel("k_b"),
    )
    rec = read(tmp_path, batch(0, 4), records.Census(descriptor=0, piece=0, kernels=kernels))
    graphs = rec.graphs
    assert rec.strings.of(graphs["name"].tolist()) == ["k_a", "k_b"]
    assert (graphs["position"].tolist(), graphs["padded_rows"].tolist()) == ([0, 1], [4, 4])
    assert rec.dims[int(graphs["grid"][0])] == (4, 1, 1)


def test_a_missing_rank_degrades_trust(tmp_path: Path) -> None:
    for rank in (0, 2):
        write(tmp_path / f"w{rank}.m3p", [steps(count(steps=5))], rank=rank, world=4)
    inspected = inspect(open_recording([tmp_path]))
    assert inspected.facts["trust"] == "degraded"
    assert inspected.facts["missing_ranks"] == [1, 3]
    assert any("1, 3 missing: 2 of 4" in note.text for note in inspected.warnings)


def test_inspect_says_who_recorded_what(tmp_path: Path) -> None:
    write(tmp_path / "w0.m3p", [steps(count(steps=5)), steps(count("prefill", 2, 64), second=4)], rank=0, world=2)
    write(tmp_path / "w1.m3p", [steps(count(steps=5), count("empty", 9))], rank=1, world=2)
    write(tmp_path / "e.m3p", [], role=Role.ENGINE)
    facts = inspect(open_recording([tmp_path])).facts
    assert facts["processes"] == {"engine": 1, "worker": 2}
    assert facts["steps_counted"] == {"rank 0": 7, "rank 1": 5}
    assert facts["phases_counted"] == {"decode": 10, "prefill": 2}
    assert (facts["seconds"], facts["ended_in_order"]) == (3.0, True)
    assert facts["records"] == {"processes": 3, "step_counts": 4}
    assert "events_x" not in facts
