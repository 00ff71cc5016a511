"""Exports as tests make them, and independent readers of what they wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tree import ROOT

from m3probe import exporting, pipeline
from m3probe.model.export_report import ExportReport
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Report

GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"


def unjudged(rec: Recording) -> Report:
    """A report without an answer, for what is exported of the recording alone."""
    outcome, notes = pipeline.reading(rec)
    return Report(outcome, notes, Answer())


def export(paths: Path | Sequence[Path], to: str, out: Path, *, judged: bool = True, **more: Any) -> ExportReport:
    """What the command line does after its words are read."""
    named = [paths] if isinstance(paths, Path) else list(paths)
    asked = exporting.asked(to, named, out, **more)
    rec = pipeline.read(named)
    return asked.write(rec, pipeline.report(rec) if judged else unjudged(rec))


def raw_events(path: Path) -> list[dict[str, Any]]:
    """Events of a trace, by the standard library alone."""
    text = path.read_bytes()
    found: list[dict[str, Any]] = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)["traceEvents"]
    return found


def ns(us: float) -> int:
    """Microseconds as written, in whole ns: kineto writes three decimals."""
    return round(us * 1000)


@dataclass
class Seen:
    """One track of a Perfetto file: (start, end, name, args), and values of a counter."""

    name: str
    group: str
    slices: list[tuple[int, int, str, dict[str, Any]]] = field(default_factory=list)
    instants: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    values: list[tuple[int, float]] = field(default_factory=list)
    unit: str = ""


def perfetto(path: Path) -> dict[tuple[str, str], Seen]:
    """Tracks by (group, name), by the message classes of the ``perfetto`` package and rules of its documentation."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    groups: dict[int, str] = {}
    tracks: dict[int, Seen] = {}
    stacks: dict[int, list[tuple[int, str, dict[str, Any]]]] = {}
    texts: dict[str, dict[int, str]] = {"names": {}, "keys": {}, "values": {}}
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            texts["names"][entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            texts["keys"][entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            texts["values"][entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            told = packet.track_descriptor
            if told.HasField("process"):
                groups[told.uuid] = told.process.process_name
            else:
                tracks[told.uuid] = Seen(told.name, groups[told.parent_uuid], unit=told.counter.unit_name)
        if packet.HasField("track_event"):
            _event(packet, tracks, stacks, texts)
    assert not any(stacks.values()), "a slice begins and never ends"
    return {(track.group, track.name): track for track in tracks.values()}


def _event(
    packet: Any, tracks: dict[int, Seen], stacks: dict[int, list[Any]], texts: dict[str, dict[int, str]]
) -> None:
    event = packet.track_event
    track, stack = tracks[event.track_uuid], stacks.setdefault(event.track_uuid, [])
    if event.type == event.TYPE_SLICE_END:
        start, name, args = stack.pop()
        track.slices.append((start, packet.timestamp, name, args))
        return
    if event.type == event.TYPE_COUNTER:
        track.values.append((packet.timestamp, event.double_counter_value))
        return
    args = {
        texts["keys"][note.name_iid]: texts["values"][note.string_value_iid]
        if note.HasField("string_value_iid")
        else note.int_value
        for note in event.debug_annotations
    }
    name = texts["names"][event.name_iid]
    if event.type == event.TYPE_INSTANT:
        track.instants.append((packet.timestamp, name, args))
    else:
        assert event.type == event.TYPE_SLICE_BEGIN
        stack.append((packet.timestamp, name, args))
