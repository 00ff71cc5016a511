"""Facts of rocprofv3's files: agents, processes, totals (docs/inspect.md explains each)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from m3probe.analyzers._inventory_kernels import calls, printable
from m3probe.model.recording import Recording, SourceFile

Facts = dict[str, Any]
_CSV, _JSON = "rocprofv3-csv", "rocprofv3-json"
_BESIDE = ("_api_trace.csv", "_api_trace.csv.gz", "_copy_trace.csv", "_copy_trace.csv.gz", "agent_info.csv")
"""Ends of names of tables that hold no kernel row."""


def rocprof_facts(rec: Recording) -> Facts:
    """Facts of all such files together; {} where there is none."""
    facts: Facts = {}
    if any(f.kind == _CSV and f.role == "summary" for f in rec.files):
        facts |= _totals(rec)
    kinds = {f.kind for f in rec.files if f.role == "rank"}
    if kinds & {_CSV, _JSON}:
        facts |= {"calls": calls(rec)}
    if _CSV in kinds:
        facts |= _tables(rec)
    if _JSON in kinds:
        facts |= _results(rec)
    return facts


def _totals(rec: Recording) -> Facts:
    tables = [table for table in rec.meta.kernel_tables if rec.files[table.file].kind == _CSV]
    percents = [table.percent_sum for table in tables if table.percent_sum is not None]
    facts: Facts = {
        "kind_detected": "stats",
        "calls_total": sum(row.calls for table in tables for row in table.rows),
    }
    facts |= {"percentages_sum": round(sum(percents), 6)} if percents else {}
    if all(f.role == "summary" for f in rec.files):
        rows = [row for table in tables for row in table.kernels]
        facts["kernel_time_ns"] = sum(row.self_ns for row in rows)
        facts["distinct_kernel_names"] = len({row.name for row in rows})
    return facts


def _of(rec: Recording, kind: str) -> Iterator[tuple[SourceFile, int, int]]:
    """(file, kernels, kernel_time_ns) of each file of a kind."""
    kernels = rec.kernels
    for i, file in enumerate(rec.files):
        if file.kind == kind and file.role == "rank":
            here = kernels["file"] == i
            yield file, int(here.sum()), int(kernels["dur_ns"][here & kernels["timed"]].sum())


def _tables(rec: Recording) -> Facts:
    found = list(_of(rec, _CSV))
    labels = list(dict.fromkeys(f.device for f, kernels, _ in found if kernels and f.device))
    times = _summed(found, lambda f: f.device.removeprefix("Agent ").removeprefix("GPU "))
    facts: Facts = {"agents": [printable(label.removeprefix("Agent ")) for label in labels]}
    facts |= {"kernel_time_ns_by_agent": times} if len(labels) > 1 else {}
    for word in ("threads", "guids"):
        said = [note.count for note in rec.notes if note.word == word and note.quiet]
        facts |= {word: sum(said)} if said else {}
    traces = [one for one in found if not one[0].path.endswith(_BESIDE)]
    if any(f.in_folder for f, _, _ in traces):
        facts |= _folder(traces)
    return facts


def _folder(traces: list[tuple[SourceFile, int, int]]) -> Facts:
    rows: Counter[str] = Counter()
    pids: Counter[str] = Counter()
    labels: dict[str, set[str]] = {}
    for file, kernels, _ in traces:
        rows[file.path] += kernels
        if file.pid is not None:
            pids[str(file.pid)] += kernels
        labels.setdefault(Path(file.path).name, set()).update({file.device} - {""})
    one = {name: next(iter(said)) for name, said in labels.items() if len(said) == 1}
    facts: Facts = {"files": len(rows), "files_with_kernels": sum(count > 0 for count in rows.values())}
    facts |= {"kernels_by_pid": dict(pids)} if pids else {}
    facts |= {"kernel_time_ns_by_file": _summed(traces, lambda f: Path(f.path).name)}
    return facts | {"agent_by_file": {name: _label(label) for name, label in one.items()}}


def _label(label: str) -> Facts:
    """``Agent 7`` is a place among all agents, ``GPU 3`` one among the GPUs: the numbers do not mean one device."""
    word, _, number = label.rpartition(" ")
    scheme = {"Agent": "node", "": "node", "GPU": "gpu"}.get(word, "")
    return {"label": printable(label), "index": int(number) if number.isdecimal() else None, "scheme": scheme}


def _results(rec: Recording) -> Facts:
    found = list(_of(rec, _JSON))
    gfx = rec.meta.versions.get("gfx")
    return {
        "kernel_time_ns_by_agent_handle": _summed([one for one in found if one[0].device], lambda f: f.device),
        "hip_api_records": sum(name.startswith(("hip", "__hip")) for name in rec.names("launches")),
        "gpus": len(rec.meta.devices),
        **({"gfx": gfx} if gfx else {}),
    }


def _summed(found: list[tuple[SourceFile, int, int]], key: Callable[[SourceFile], str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for file, _, ns in found:
        total[printable(key(file))] += ns
    return dict(total)
