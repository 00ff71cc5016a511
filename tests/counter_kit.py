"""Tables of counters for tests, as rocprofv3 writes them, and recounts of them by the csv module alone."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEADER_62 = [
    "Correlation_Id",
    "Dispatch_Id",
    "Agent_Id",
    "Queue_Id",
    "Process_Id",
    "Thread_Id",
    "Grid_Size",
    "Kernel_Id",
    "Kernel_Name",
    "Workgroup_Size",
    "LDS_Block_Size",
    "Scratch_Size",
    "VGPR_Count",
    "SGPR_Count",
    "Counter_Name",
    "Counter_Value",
]
HEADER_7 = [*HEADER_62[:13], "Accum_VGPR_Count", *HEADER_62[13:], "Start_Timestamp", "End_Timestamp"]
AGENTS = (
    "Node_Id,Logical_Node_Id,Agent_Type,Name,Product_Name,Cu_Count,Wave_Front_Size\n"
    "0,0,CPU,EPYC,EPYC,0,0\n1,1,GPU,{gfx},{product},{units},64\n"
)


def row(dispatch: int, counter: str, value: Any, kernel: str = "gemm", **more: Any) -> dict[str, Any]:
    """One row: 256 work-items in each of 320 workgroups, 20 us."""
    cells = {
        "Correlation_Id": dispatch,
        "Dispatch_Id": dispatch,
        "Agent_Id": "Agent 1",
        "Queue_Id": 1,
        "Process_Id": 100,
    }
    cells |= {"Thread_Id": 100, "Grid_Size": 320 * 256, "Kernel_Id": 7, "Kernel_Name": kernel, "Workgroup_Size": 256}
    cells |= {"LDS_Block_Size": 0, "Scratch_Size": 0, "VGPR_Count": 64, "Accum_VGPR_Count": 0, "SGPR_Count": 32}
    cells |= {"Start_Timestamp": 1000 * dispatch, "End_Timestamp": 1000 * dispatch + 20_000}
    return {**cells, "Counter_Name": counter, "Counter_Value": value, **more}


def write(path: Path, rows: Sequence[Mapping[str, Any]], header: Sequence[str] = HEADER_7) -> Path:
    """A counter_collection file."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, header, extrasaction="ignore", quoting=csv.QUOTE_NONNUMERIC)
        table.writeheader()
        table.writerows(rows)
    return path


def counted(folder: Path, values: Mapping[str, float], gfx: str = "", units: int = 256, **more: Any) -> Path:
    """One dispatch with these counters, and the table of its device where an architecture is given."""
    path = write(folder / "100_counter_collection.csv", [row(1, name, value, **more) for name, value in values.items()])
    if gfx:
        product = {"gfx950": "AMD Instinct MI350X", "gfx942": "AMD Instinct MI300X"}.get(gfx, "")
        (folder / "100_agent_info.csv").write_text(AGENTS.format(gfx=gfx, product=product, units=units))
    return folder if gfx else path


def results(path: Path, records: Sequence[Mapping[str, Any]], names: Mapping[int, str], **tool: Any) -> Path:
    """rocprofv3's JSON of one process with one GPU and one kernel."""
    gpu = {"id": {"handle": 2**63 + 5}, "type": 2, "name": "gfx950", "gfx_target_version": 90500, "cu_count": 256}
    gpu |= {"wave_front_size": 64, "product_name": "AMD Instinct MI350X"}
    counters = [{"id": {"handle": handle}, "name": name} for handle, name in names.items()]
    said = {
        "metadata": {"pid": 77},
        "agents": [gpu],
        "counters": counters,
        "kernel_symbols": [{"kernel_id": 7, "formatted_kernel_name": "gemm"}],
        "callback_records": {"counter_collection": records},
        "buffer_records": {"kernel_dispatch": []},
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [said | tool]}))
    return path


def record(dispatch: int, values: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """One record of the JSON: 4096 x 2 work-items in groups of 64, 800 ns."""
    info = {"agent_id": {"handle": 2**63 + 5}, "queue_id": {"handle": 1}, "kernel_id": 7, "dispatch_id": dispatch}
    info |= {"workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 4096, "y": 2, "z": 1}}
    data = {"start_timestamp": 1000, "end_timestamp": 1800, "dispatch_info": info}
    values_of = [{"counter_id": {"handle": handle}, "value": value} for handle, value in values]
    return {"thread_id": 1, "arch_vgpr_count": 8, "sgpr_count": 16, "dispatch_data": data, "records": values_of}


def recount(folder: Path, columns_of: Sequence[str]) -> dict[str, float]:
    """Sums of counters over the wide tables of a folder by csv alone: each counter from the first table that has it."""
    sums: Counter[str] = Counter()
    seen: set[str] = set()
    for path in sorted(folder.glob("*.csv")):
        if path.name.startswith(("sysinfo", "pmc_dispatch")):
            continue
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        fresh = [
            name for name in rows[0] if name not in seen and "[" not in name and name.startswith(tuple(columns_of))
        ]
        for one in rows:
            for name in fresh:
                sums[name] += float(one[name])
        seen.update(rows[0])
    return dict(sums)
