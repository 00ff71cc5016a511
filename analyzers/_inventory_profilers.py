"""Facts of the databases of rocprofv3, RPD and nsys (words of docs/inspect.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.analyzers._inventory_kernels import calls
from m3probe.model.recording import Recording

ROCPD, RPD, NSYS = "rocpd-sqlite", "rpd-sqlite", "nsys-sqlite"


def profiler_facts(rec: Recording) -> dict[str, Any]:
    """Facts of these kinds alone; nothing for other inputs."""
    kinds = {file.kind for file in rec.files} & {ROCPD, RPD, NSYS}
    if not kinds:
        return {}
    facts: dict[str, Any] = {"calls": calls(rec)}
    if ROCPD in kinds:
        facts |= {"gpus": len(rec.meta.devices), "schema_version": rec.meta.versions.get("rocpd_schema")}
    elif RPD in kinds:
        facts["schema_version"] = rec.meta.versions.get("rpd_schema_version")
    return facts | (_nsys(rec) if NSYS in kinds else {})


def _nsys(rec: Recording) -> dict[str, Any]:
    kernels, wholes = rec.kernels, rec.tables["whole_graphs"]
    by_device = {
        str(device): int(kernels["dur_ns"][kernels["timed"] & (kernels["device"] == device)].sum())
        for device in np.unique(kernels["device"]).tolist()
    }
    facts: dict[str, Any] = {"kernel_time_ns_by_device": by_device, "kernel_detail": not len(wholes)}
    if len(wholes):
        facts["graph_time_ns"] = int(wholes["dur_ns"][wholes["timed"]].sum())
        if not rec.graph_launches.any():
            facts["graph_launches"] = len(wholes)
    return facts
