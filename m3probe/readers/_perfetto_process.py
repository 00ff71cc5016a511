"""Slices of a Perfetto trace to processes: columns of ``PARTS``, devices by their labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._perfetto_slices import COLUMNS, Slices, Track
from m3probe.readers._process import PARTS, Process, workgroups

Columns = dict[str, Array]
_AGENT = re.compile(r"\b(?P<label>(?:AGENT|GPU|CPU) \[(?P<number>\d{1,9})\])", re.IGNORECASE)
_STREAM = re.compile(r"(?:STREAM|QUEUE) \[\D{0,3}(\d{1,18})\D{0,3}\]", re.IGNORECASE)
_LAST = re.compile(r"([0-9]{1,9})\D*$")
_WORDS = re.compile(r"[a-z]+|[0-9]+")
_SIZES = re.compile(r"\D*(\d{1,10})\D+(\d{1,10})\D+(\d{1,10})\D*")
_ON_DEVICE = ("kernels", "memcpy", "memset")
_GRAPHS = "graph launches (host)"


@dataclass(slots=True)
class Ran:
    """One process: its records, the label of each device, the rank of each where several are numbered."""

    process: Process
    name: str
    pid: int | None
    labels: dict[int, str] = field(default_factory=dict)
    ranks: dict[int | None, int] = field(default_factory=dict)
    host: bool = False


def processes(slices: Slices, builder: RecordingBuilder) -> list[Ran]:
    """Every process with a record, in the order of its first."""
    found: dict[int, tuple[Track, dict[str, list[Columns]]]] = {}
    called = {slices.process_of(uuid)[0] for (part, uuid) in slices.rows if _is_host(part, slices.tracks[uuid])}
    for (part, uuid), rows in slices.rows.items():
        track = slices.tracks.get(uuid, Track())
        key, process = slices.process_of(uuid)
        if track.name.startswith(_GRAPHS) and key in called:
            continue  # the same calls stand among the threads'
        columns = {name: np.frombuffer(rows[name], dtype=np.int64) for name in COLUMNS}
        parts = found.setdefault(key, (process, {}))[1]
        parts.setdefault(part, []).append(_placed(part, columns, track, process, builder))
    ran = []
    for key, (process, parts) in found.items():
        one = Ran(Process(), process.process_name, process.pid, host=key in called)
        for part, many in parts.items():
            joined = {name: np.concatenate([columns[name] for columns in many]) for name in many[0]}
            if part in _ON_DEVICE:
                _label(one, joined, builder)
            one.process.put(part, **{name: joined[name] for name in PARTS[part]})
        _number(one)
        ran.append(one)
    return ran


def _is_host(part: str, track: Track) -> bool:
    return part in ("launches", "ops") and not track.name.startswith(_GRAPHS)


def _placed(part: str, columns: Columns, track: Track, process: Track, builder: RecordingBuilder) -> Columns:
    """The columns of ``PARTS`` of one track; devices still as ids of their labels."""
    count = len(columns["name"])
    made: Columns = {key: columns[key] for key in ("name", "start_ns", "dur_ns")}
    made["correlation"] = np.maximum(columns["link"], 0) if part in _ON_DEVICE else columns["link"]
    pid = track.said.get("pid", process.pid if process.pid is not None else NONE)
    made["pid"] = np.full(count, pid, dtype=np.int64)
    tid = track.said.get("tid", track.tid)
    made["tid"] = np.where(columns["tid"] == NONE, tid, columns["tid"])
    made["collective"] = np.full(count, NONE, dtype=np.int64)
    made["payload_bytes"] = np.maximum(columns["bytes"], NONE)
    if part in _ON_DEVICE:
        agent = _AGENT.search(track.name)
        label = builder.strings.intern(agent["label"]) if agent else NONE
        if "device" in track.said:
            label = builder.strings.intern(f"GPU {track.said['device']}")
        made["device"] = np.where(columns["device"] == NONE, label, columns["device"])
        named = _STREAM.search(track.name)
        stream = track.said.get("stream", int(named[1]) if named else 0)
        made["stream"] = np.where(columns["stream"] == NONE, stream, columns["stream"])
        made["grid"] = _grids(columns, builder, ours="device" in track.said)
    return made


def _grids(columns: Columns, builder: RecordingBuilder, *, ours: bool) -> Array:
    """Rows of dims; a product of sizes is no grid."""
    grid, block = (_sizes(columns[key], builder) for key in ("grid", "group"))
    return workgroups(grid, block, builder, in_items=not ours)


def _sizes(ids: Array, builder: RecordingBuilder) -> Array:
    distinct, where = np.unique(ids, return_inverse=True)
    found = np.full((len(distinct), 3), NONE, dtype=np.int64)
    for row, text in enumerate(builder.strings.of(distinct.tolist())):
        said = _SIZES.fullmatch(text)
        if said:
            found[row] = [int(size) for size in said.groups()]
    result: Array = found[where.reshape(-1)]
    return result


def _label(one: Ran, columns: Columns, builder: RecordingBuilder) -> None:
    """Device ids for labels: the number in it, another where the words differ; -1 where there is none.

    ``AGENT [4]`` of a track and ``Agent-4`` of a record are one.
    """
    taken = {_key(label): number for number, label in one.labels.items()}
    ids = np.unique(columns["device"]).tolist()
    numbers: dict[int, int] = {}
    for text_id in ids:
        label = builder.strings[text_id]
        if _key(label) not in taken:
            found = _LAST.search(label)
            number = int(found[1]) if found else NONE
            if number in one.labels:
                number = 2**30 + len(one.labels)
            taken[_key(label)] = number
            one.labels[number] = label
        numbers[text_id] = taken[_key(label)]
    columns["device"] = _mapped(columns["device"], ids, numbers.values())


def _key(label: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(label.lower()))


def _mapped(values: Array, distinct: list[int], wanted: Iterable[int]) -> Array:
    if not len(values):
        return values
    found: Array = np.array(list(wanted), dtype=np.int64)[np.searchsorted(np.array(distinct), values)]
    return found


def _number(one: Ran) -> None:
    """Ranks of several devices of one process: their places in order, since an agent's number counts processors too."""
    devices = one.process.devices()
    if len(devices) > 1:
        gpus = all(one.labels.get(device, "").upper().startswith("GPU") for device in devices)
        one.ranks = {device: device if gpus else place for place, device in enumerate(devices)}
