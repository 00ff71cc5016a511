"""Facts of tables of counters, as ``inspect`` prints them (docs/inspect.md explains each)."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.analyzers._inventory_kernels import printable
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE

Facts = dict[str, Any]
ROLE = "counters"


def counter_facts(rec: Recording) -> Facts:
    """Of all such tables together; {} where there is none."""
    files = [file for file in rec.files if file.role == ROLE]
    if not files:
        return {}
    counted, times = rec.tables["counted"], rec.tables["counted"]["time_ns"]
    agents = list(dict.fromkeys(rec.strings.of(counted["agent"].tolist())))
    facts: Facts = {"dispatches": len(counted), "table_rows": sum(file.counts.events_x for file in files)}
    facts["counters"] = _sums(rec)
    if len(counted):
        facts["distinct_kernel_names"] = len(np.unique(counted["name"]))
    if (times != NONE).any() and not len(rec.kernels):
        facts["kernel_time_ns"] = int(times[times != NONE].sum())
    if any(agents):
        facts["agents"] = [printable(label.removeprefix("Agent ")) for label in agents if label]
    return facts | _hosts(rec)


def _sums(rec: Recording) -> dict[str, int | float]:
    """Counter -> sum of its values, whole where it is."""
    table = rec.tables["counter_values"]
    ids, at = np.unique(table["counter"], return_inverse=True)
    sums = np.bincount(at, weights=table["value"], minlength=len(ids)) if len(ids) else np.empty(0)
    pairs = zip(ids.tolist(), sums.tolist(), strict=True)
    return {printable(rec.strings[i]): int(total) if total.is_integer() else total for i, total in pairs}


def _hosts(rec: Recording) -> Facts:
    """What the tables say of the device; left out where several differ."""
    facts: Facts = {}
    for key in ("gfx", "units", "wave_size", "compute_partition", "memory_partition", "rocm"):
        said = {getattr(host, key) for host in rec.meta.counter_hosts} - {None, ""}
        facts |= {key: said.pop()} if len(said) == 1 else {}
    return facts
