"""Readings of GPUs, as ``inspect`` prints them; None where the tool does not tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import Array, Table

Facts = dict[str, Any]
_LISTED = {
    "socket_power_w": "power_w",
    "used_vram_mb": "used_mb",
    "junction_c": "junction_c",
    "clock_mhz": "clock_mhz",
    "cap_w": "cap_w",
}


def device_facts(rec: Recording) -> Facts:
    """Of all readings together; {} where there is none."""
    table = rec.tables["device_samples"]
    if not len(table):
        return {}
    first = _first(table)
    facts: Facts = {"gpus": len(first)}
    documents = len(np.unique(np.column_stack([table["file"], table["reading"]]), axis=0))
    written = sum(note.count for note in rec.notes if note.quiet and note.word == "documents")
    facts |= {"documents": written} if written else {}
    facts["gfx_activity_pct"] = _known(table["busy_pct"][first])
    for key, column in _LISTED.items():
        values = table[column][first]
        facts |= {key: _known(values)} if not np.isnan(values).all() else {}
    if "socket_power_w" in facts:
        facts["power_w"] = facts["socket_power_w"]
    if documents > 1 and len(first) == 1:
        busy = table["busy_pct"]
        facts |= {"samples": documents, "gfx_activity_pct_by_sample": _known(busy)}
        facts["mean_gfx_activity_pct"] = None if np.isnan(busy).all() else float(np.nanmean(busy))
    return facts | _words(rec, table, first)


def _first(table: Table) -> Array:
    """The first row of each GPU of each file, by the GPU's number."""
    keys = np.column_stack([table["file"], table["gpu"]])
    _, rows = np.unique(keys, axis=0, return_index=True)
    return np.asarray(rows)


def _known(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _words(rec: Recording, table: Table, first: Array) -> Facts:
    facts: Facts = {}
    for key, column in (("partitions", "partition"), ("throttle_reasons", "throttle")):
        words = [rec.strings[index] or None for index in table[column][first].tolist()]
        facts |= {key: words} if any(words) else {}
    held = table["throttled"][first]
    return facts | ({"throttled": _known(held)} if not np.isnan(held).all() else {})
