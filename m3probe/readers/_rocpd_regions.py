"""rocpd's regions by their event's category: calls of the runtime, ranges of the program, RCCL's calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._collectives import collectives
from m3probe.readers._process import Process, spans
from m3probe.readers._rocpd_tables import Tables
from m3probe.readers._sqlite_columns import Growing, in_int32, names_of, or_else
from m3probe.readers._sqlite_dump import Dump, constant

Parts = dict[str, dict[str, Array]]

_BY_CATEGORY = (("MARKER", "annotations"), ("RCCL", "ops"), ("HIP", "launches"), ("HSA", "launches"))
_BY_NAME = ((re.compile("_*(?:hip|hsa)"), "launches"), (re.compile("nccl|mscclpp"), "ops"))
_ORDER = ("launches", "ops", "annotations", "other")
_COLUMNS = ("pid", "tid", "start_ns", "dur_ns", "name_id", "event_id", "correlation")


def read(tables: Tables, builder: RecordingBuilder, dump: Dump) -> Parts:
    """Columns of each part, with ``pid`` the id of the process."""
    most = tables.most_rows("rocpd_region")
    whole = {part: Growing(_COLUMNS, most) for part in _ORDER}
    for part, columns in _split(tables):
        whole[part].add(columns)
    parts = {part: growing.columns() for part, growing in whole.items()}
    whole.clear()
    others = len(parts.pop("other")["pid"])
    dump.note(
        "other_regions", f"{others:,} region(s) of other kinds (KFD, OMPT, decoders) are not used", others, quiet=True
    )
    used = np.unique(np.concatenate([columns["name_id"] for columns in parts.values()])).tolist()
    strings = names_of(tables.texts("rocpd_string", "string", used), builder.strings)
    for columns in parts.values():
        columns["name"] = strings.of("name", columns.pop("name_id")).astype(np.int32)
        events = columns.pop("event_id")
        if columns is parts["annotations"] and len(events):
            messages = names_of(_messages(tables, events), builder.strings)
            columns["name"] = messages.of("name", events, columns["name"])
    return parts


def put(process: Process, found: Parts, pid: int, builder: RecordingBuilder) -> None:
    """The host's parts of one process."""
    for part, columns in found.items():
        del columns["pid"]
        correlation = columns.pop("correlation")
        if part == "launches":
            columns["correlation"] = correlation
        elif part == "ops":
            columns["collective"] = collectives(columns["name"], builder)
        process.put(part, **columns, pid=constant(pid, len(columns["name"])))


def _split(tables: Tables) -> Iterator[tuple[str, dict[str, Array]]]:
    words: dict[int, str] | None = None
    for block in tables.placed("rocpd_region", ("name_id", "event_id")):
        if words is None:
            words = {key: _part_of_category(word) for key, word in tables.categories().items()}
        start, dur = spans(block["start"], block["end"])
        columns = {
            "pid": in_int32(block["pid"]).astype(np.int32),
            "tid": or_else(block["tid"], NONE),
            "start_ns": start,
            "dur_ns": dur,
            "name_id": block["name_id"],
            "event_id": block["event_id"],
            "correlation": tables.correlation(block["event_id"]),
        }
        part = _parts(tables, words, block)
        for number, name in enumerate(_ORDER):
            mask = part == number
            if mask.any():
                yield name, columns if mask.all() else {key: values[mask] for key, values in columns.items()}


def _parts(tables: Tables, words: dict[int, str], block: dict[str, Array]) -> Array:
    """Index into ``_ORDER`` of each region: by its category, else by its name."""
    category = tables.category(block["event_id"])
    distinct, where = np.unique(category, return_inverse=True)
    known = np.array([_ORDER.index(words[key]) if key in words else NONE for key in distinct.tolist()], dtype=np.int64)
    found: Array = known[where.reshape(-1)]
    unclear = found == NONE
    if unclear.any():
        names = block["name_id"][unclear]
        distinct, where = np.unique(names, return_inverse=True)
        texts = tables.texts("rocpd_string", "string", distinct.tolist())
        by_name = [_ORDER.index(_part_of_name(texts.get(key, ""))) for key in distinct.tolist()]
        found[unclear] = np.array(by_name, dtype=np.int64)[where.reshape(-1)]
    return found


def _part_of_category(word: str) -> str:
    return next((part for start, part in _BY_CATEGORY if word.startswith(start)), "other")


def _part_of_name(name: str) -> str:
    return next((part for start, part in _BY_NAME if start.match(name)), "annotations")


class _Extra(msgspec.Struct):
    message: str = ""


def _messages(tables: Tables, events: Array) -> dict[int, str]:
    """Event -> the text that the program gave its range."""
    found = {}
    for event, text in tables.texts("rocpd_event", "extdata", events.tolist()).items():
        try:
            said = msgspec.json.decode(text, type=_Extra).message
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
        if said:
            found[event] = said
    return found
