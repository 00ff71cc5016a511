"""Make a rocprofv3 database (rocpd, layout A) of any size: decode steps, each a ROCTX range with its launches and kernels.

    make_rocpd.py OUT.db --target-mb 1000

Tables and columns are those of rocm-systems 0c5fd9b (rocpd_tables.sql, without its foreign keys), rows those that its
writer gives a run under ``--kernel-trace --hip-trace --marker-trace``: an event for every call and dispatch, six
arguments for every launch. All is a function of the row's number, so that every total can be worked out: step s has
``KERNELS`` dispatches of 1,000 to 40,000 ns, 40 us apart, on the queue 1 of the GPU with node id 4.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UUID = "00001a2b-0000-7000-8000-0000000000aa"
PID = 4242
AGENT = 4
KERNELS = 40
STEP_NS = 2_000_000
FIRST_NS = 10**15
NAMES = (
    ("Cijk_Alik_Bljk_BBS_BH_MT128x128x64.kd", "Cijk_Alik_Bljk_BBS_BH_MT128x128x64"),
    ("_ZN4vllm15rms_norm_kernelEv.kd", "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)"),
    ("_gqa_sparse_decode_kernel.kd", "_gqa_sparse_decode_kernel"),
    ("_ZN4vllm18act_and_mul_kernelEv.kd", "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)"),
)
STRINGS = (
    "HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY", "hipLaunchKernel",
    "roctxRangePushA", "hipMemcpyAsync", "MEMORY_COPY_DEVICE_TO_HOST",
)  # fmt: skip
ARGS = (
    ("const void*", "function_address", "0x7f0000001000"), ("dim3", "numBlocks", "{z=1, y=1, x=448}"),
    ("dim3", "dimBlocks", "{z=1, y=1, x=256}"), ("void**", "args", "0x7ffd00001000"),
    ("size_t", "sharedMemBytes", "0"), ("hipStream_t", "stream", "0x55d000002000"),
)  # fmt: skip
_TEXT = {"tag", "value", "guid", "string", "type", "name", "product_name", "kernel_name", "display_name", "extdata"}
TABLES = {
    "metadata": "tag value",
    "string": "guid string",
    "info_node": "guid hash machine_id system_name hostname release version hardware_name domain_name",
    "info_process": "guid nid ppid pid init fini start end command environment extdata",
    "info_thread": "guid nid ppid pid tid name start end extdata",
    "info_agent": "guid nid pid type absolute_index logical_index type_index uuid name model_name vendor_name "
    "product_name user_name extdata",
    "info_kernel_symbol": "guid nid pid code_object_id kernel_name display_name kernel_object kernarg_segment_size "
    "kernarg_segment_alignment group_segment_size private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count "
    "extdata",
    "event": "guid category_id stack_id parent_stack_id correlation_id call_stack line_info extdata",
    "arg": "guid event_id position type name value extdata",
    "region": "guid nid pid tid start end name_id event_id extdata",
    "kernel_dispatch": "guid nid pid tid agent_id kernel_id dispatch_id queue_id stream_id start end "
    "private_segment_size group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y "
    "grid_size_z region_name_id event_id extdata",
    "memory_copy": "guid nid pid tid start end name_id dst_agent_id dst_address src_agent_id src_address size queue_id "
    "stream_id region_name_id event_id extdata",
}


def kernel_ns(number: int) -> int:
    """Duration of a dispatch, from its number over the whole run."""
    return 1_000 + number * 7_919 % 39_001


def make_rocpd(out: Path, target_mb: float, args: bool = True) -> dict[str, int]:
    """Write whole steps until the file holds ``target_mb`` times 10^6 bytes; what is in it."""
    out.unlink(missing_ok=True)
    db = sqlite3.connect(out)
    for words in ("journal_mode=OFF", "synchronous=OFF", "page_size=4096"):
        db.execute(f"PRAGMA {words}")
    _schema(db)
    _fixed(db)
    steps = 0
    while not steps or _bytes(db) < target_mb * 1e6:
        for step in range(steps, steps + 50):
            for table, rows in _step(step, args).items():
                _insert(db, table, rows)
        steps += 50
    db.commit()
    db.close()
    dispatches = steps * KERNELS
    time_ns = sum(kernel_ns(number) for number in range(dispatches))
    return {"steps": steps, "kernels": dispatches, "kernel_time_ns": time_ns, "bytes": out.stat().st_size}


def _bytes(db: sqlite3.Connection) -> int:
    pages: int = db.execute("PRAGMA page_count").fetchone()[0]
    return pages * 4096


def _schema(db: sqlite3.Connection) -> None:
    suffix = "_" + UUID.replace("-", "_")
    for table, columns in TABLES.items():
        typed = [f'"{name}" {_type(name)}' for name in columns.split()]
        db.execute(
            f'CREATE TABLE "rocpd_{table}{suffix}" (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, {", ".join(typed)})'
        )
        db.execute(f'CREATE VIEW rocpd_{table} AS SELECT * FROM "rocpd_{table}{suffix}"')


def _type(name: str) -> str:
    if name == "guid":
        return f'TEXT DEFAULT "{UUID}" NOT NULL'
    if name in {"extdata", "call_stack", "line_info", "environment"}:
        return 'JSONB DEFAULT "{}" NOT NULL'
    return "TEXT" if name in _TEXT else "INTEGER"


def _insert(db: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    marks = ", ".join("?" * len(names))
    suffix = "_" + UUID.replace("-", "_")
    columns = ", ".join(f'"{name}"' for name in names)
    db.executemany(
        f'INSERT INTO "rocpd_{table}{suffix}" ({columns}) VALUES ({marks})', [tuple(row.values()) for row in rows]
    )


def _fixed(db: sqlite3.Connection) -> None:
    owner = {"nid": 1, "pid": PID}
    _insert(db, "metadata", [{"tag": "schema_version", "value": "3"}, {"tag": "guid", "value": UUID}])
    _insert(db, "string", [{"id": i, "string": text} for i, text in enumerate(STRINGS, 1)])
    _insert(db, "info_process", [{"id": PID, "nid": 1, "ppid": 1, "pid": PID, "command": "vllm serve"}])
    _insert(db, "info_thread", [{"id": PID, **owner, "tid": PID}])
    agents = [("CPU", 0, 0, "cpu")] + [("GPU", AGENT + i, i, "gfx950") for i in range(8)]
    said = [
        {
            "id": node,
            **owner,
            "type": kind,
            "absolute_index": node,
            "logical_index": node,
            "type_index": index,
            "name": name,
        }
        for kind, node, index, name in agents
    ]
    _insert(db, "info_agent", said)
    symbols = [
        {"id": i, **owner, "code_object_id": 1, "kernel_name": raw, "display_name": shown}
        for i, (raw, shown) in enumerate(NAMES, 1)
    ]
    _insert(db, "info_kernel_symbol", symbols)


def _step(step: int, args: bool) -> dict[str, list[dict[str, Any]]]:
    """Rows of one step: ids are functions of the step, 100 of them each."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("event", "region", "kernel_dispatch", "memory_copy")}
    base, start = 1 + step * 100, FIRST_NS + step * STEP_NS
    said = json.dumps({"message": "execute_context_0(0)_generation_32(32)"})
    rows["event"].append(_event(base, 2, base, said))
    rows["region"].append(_region(base, start, STEP_NS - 100_000, 6, base))
    for number in range(KERNELS):
        call, at = base + 1 + number, start + 1_000 + number * 10_000
        whole = step * KERNELS + number
        rows["event"] += [_event(call, 1, call), _event(base + 50 + number, 3, call)]
        rows["region"].append(_region(call, at, 3_000, 5, call))
        rows["kernel_dispatch"].append(_dispatch(whole, start + 40_000 * number + 50_000, base + 50 + number))
    rows["event"] += [_event(base + 91, 1, base + 91), _event(base + 92, 4, base + 91)]
    rows["region"].append(_region(base + 91, start + 500_000, 5_000, 7, base + 91))
    rows["memory_copy"].append(_copy(start + STEP_NS - 200_000, base + 92))
    if args:
        calls = range(base + 1, base + 1 + KERNELS)
        rows["arg"] = [row for call in calls for row in _args(call)]
    return rows


def _event(number: int, category: int, stack: int, extdata: str = "{}") -> dict[str, Any]:
    ids = {"id": number, "category_id": category, "stack_id": stack, "parent_stack_id": 0, "correlation_id": 0}
    return {**ids, "extdata": extdata}


def _region(number: int, start: int, dur: int, name: int, event: int) -> dict[str, Any]:
    place = {"id": number, "nid": 1, "pid": PID, "tid": PID}
    return {**place, "start": start, "end": start + dur, "name_id": name, "event_id": event}


def _dispatch(whole: int, start: int, event: int) -> dict[str, Any]:
    place = {"id": whole + 1, "nid": 1, "pid": PID, "tid": PID, "agent_id": AGENT, "kernel_id": 1 + whole % len(NAMES)}
    grid = (448 * 256, 1 + whole % 3, 1)
    sizes = dict(zip(("grid_size_x", "grid_size_y", "grid_size_z"), grid, strict=True))
    sizes |= dict(zip(("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"), (256, 1, 1), strict=True))
    more = {"dispatch_id": whole + 1, "queue_id": 1, "stream_id": 0, "start": start, "end": start + kernel_ns(whole)}
    return {**place, **more, "private_segment_size": 0, "group_segment_size": 0, **sizes, "event_id": event}


def _copy(start: int, event: int) -> dict[str, Any]:
    place = {"nid": 1, "pid": PID, "tid": PID, "start": start, "end": start + 8_000, "name_id": 8}
    return {**place, "dst_agent_id": 0, "src_agent_id": AGENT, "size": 128, "stream_id": 0, "event_id": event}


def _args(call: int) -> Iterator[dict[str, Any]]:
    for position, (kind, name, value) in enumerate(ARGS):
        yield {"event_id": call, "position": position, "type": kind, "name": name, "value": value}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a rocprofv3 database of any size.")
    parser.add_argument("out", type=Path, metavar="OUT", help="where to write, .db")
    parser.add_argument("--target-mb", type=float, default=1000, metavar="MB", help="stop at 10^6 bytes times this")
    parser.add_argument(
        "--no-args", action="store_true", help="leave out the arguments of calls: more dispatches a byte"
    )
    given = parser.parse_args()
    print(json.dumps(make_rocpd(given.out, given.target_mb, not given.no_args)))


if __name__ == "__main__":
    main()
