"""Ranks compared by what each wrote down of itself: variables, versions, tuned rows, implementations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from m3probe.model._agreement_said import LIVE, Said, workers
from m3probe.model.recording import Recording
from m3probe.schema.env_names import PER_PROCESS
from m3probe.schema.records import Process

# What a launcher sets for each rank by itself, and what names this one recording.
_OF_A_RANK = re.compile(
    r"M3PROBE.*|(?:CUDA|HIP|ROCR|GPU)_VISIBLE_DEVICES|HIP_DEVICE|VLLM_DP_.*|VLLM_HOST_IP|VLLM_PORT"
    r"|VLLM_LOOPBACK_IP|VLLM_RPC_BASE_PATH|VLLM_.*_PORT|VLLM_RAY_.*|NCCL_ASYNC_ERROR_HANDLING|TORCH_NCCL_.*RANK.*"
    r"|(?:VLLM_|TORCH_)?(?:LOCAL_|GLOBAL_|NODE_|GROUP_)?RANK"
)
_HIDDEN = "(set)"
TUNED = "tuned_table"
_NOT_A_KEY = frozenset({"draft", "least", "most", "rows", "calls"})
"""Facts of one call rather than of the row that was found."""


def environment(rec: Recording) -> Said:
    """Variables of each worker; those that a launcher sets rank by rank, and hidden values, are left out."""
    by_rank: dict[str, dict[str, str]] = {}
    for label, process in _served(rec).items():
        by_rank[label] = {k: repr(v) for k, v in process.env.items() if v != _HIDDEN and not _own(k)}
    return Said(by_rank, "no rank recorded its environment", whole=True)


def _own(name: str) -> bool:
    return name in PER_PROCESS or _OF_A_RANK.fullmatch(name) is not None


def versions(rec: Recording) -> Said:
    """Builds of vLLM, torch and Python, and the GPU, as each worker found them. A trace's header has no such thing."""
    by_rank: dict[str, dict[str, str]] = {}
    for label, process in _served(rec).items():
        said = {
            "vllm": process.vllm,
            "torch": process.torch,
            "python": process.python,
            "m3probe": process.m3probe,
            "gfx": process.gfx,
            "device": process.device_name,
        }
        by_rank[label] = {name: value for name, value in said.items() if value}
    return Said(by_rank, "no rank recorded its versions", absent="not told")


def tuned_tables(rec: Recording) -> Said:
    """What each rank's look-ups in tuned tables ended with: row by row, where both looked for the same."""
    table, strings = rec.tables["dispatches"], rec.strings
    path = strings.find(TUNED)
    by_rank: dict[str, dict[str, str]] = {}
    for file, label in workers(rec).items():
        found: dict[str, set[str]] = {}
        for row in ((table["file"] == file) & (table["path"] == path)).nonzero()[0].tolist():
            facts = _facts(strings[int(table["facts"][row])])
            size, unit = int(table["size"][row]), strings[int(table["unit"][row])]
            key = f"{size:,} {unit} {json.dumps(facts, sort_keys=True)}" if facts else f"{size:,} {unit}"
            found.setdefault(key, set()).add(strings[int(table["variant"][row])] or "not told")
        if found:
            by_rank[label] = _joined(found)
    return Said(by_rank, "no rank looked a tuned table up while it recorded", f"{LIVE}, with AITER's experts in use")


def backends(rec: Recording) -> Said:
    """Implementations: of each module as loaded, of each path at each size, of each collective."""
    by_rank: dict[str, dict[str, str]] = {}
    for file, label in workers(rec).items():
        found: dict[str, set[str]] = {}
        _of_modules(rec, file, found)
        _of_paths(rec, file, found)
        _of_collectives(rec, file, found)
        if found:
            by_rank[label] = _joined(found)
    return Said(by_rank, "no rank recorded what it chose")


def _served(rec: Recording) -> dict[str, Process]:
    """Each worker's last process record by its rank."""
    found: dict[str, Process] = {}
    for one in rec.meta.served:
        process = one.process
        label = f"rank {process.rank}" if process.rank >= 0 else f"pid {process.pid}"
        engine = f" of engine {process.engine}" if process.engine > 0 else ""
        found[label + engine] = process
    return {label: found[label] for label in sorted(found, key=lambda name: (found[name].engine, found[name].rank))}


def _of_modules(rec: Recording, file: int, found: dict[str, set[str]]) -> None:
    table, strings = rec.tables["modules"], rec.strings
    for row in (table["file"] == file).nonzero()[0].tolist():
        kernel, quant = strings[int(table["kernel"][row])], strings[int(table["quant"][row])]
        if kernel or quant:
            found.setdefault(f"module {strings[int(table['name'][row])]}", set()).add(f"{kernel} {quant}".strip())


def _of_paths(rec: Recording, file: int, found: dict[str, set[str]]) -> None:
    table, strings = rec.tables["dispatches"], rec.strings
    left_out = strings.find(TUNED)
    for row in ((table["file"] == file) & (table["path"] != left_out)).nonzero()[0].tolist():
        variant, stage = strings[int(table["variant"][row])], strings[int(table["stage"][row])]
        if not variant:
            continue
        path, size = strings[int(table["path"][row])], int(table["size"][row])
        at = f" at {size:,} {strings[int(table['unit'][row])]}" if size >= 0 else ""
        found.setdefault(f"{path} ({stage}{at})", set()).add(variant)


def _of_collectives(rec: Recording, file: int, found: dict[str, set[str]]) -> None:
    table, strings = rec.tables["collectives"], rec.strings
    for row in (table["file"] == file).nonzero()[0].tolist():
        size, backend = int(table["payload_bytes"][row]), strings[int(table["backend"][row])]
        if size >= 0 and backend:
            key = f"{strings[int(table['op'][row])]} of {size:,} B in {strings[int(table['group'][row])] or 'a group'}"
            found.setdefault(key, set()).add(backend)


def _facts(text: str) -> dict[str, object]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {k: v for k, v in found.items() if k not in _NOT_A_KEY} if isinstance(found, dict) else {}


def _joined(found: Mapping[str, set[str]]) -> dict[str, str]:
    return {key: " and ".join(sorted(values)) for key, values in found.items()}
