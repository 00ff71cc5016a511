"""What is in these traces: the facts that ``inspect`` prints (docs/inspect.md explains each)."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._checks import Check, checks, missing_ranks
from m3probe.analyzers._inventory_kernels import kernel_facts
from m3probe.analyzers._inventory_live import live_facts
from m3probe.analyzers._inventory_profilers import profiler_facts
from m3probe.analyzers._ledger import is_live
from m3probe.analyzers.trust import trust_of
from m3probe.model.recording import KERNEL_FREE, Recording
from m3probe.model.tables import NONE
from m3probe.schema.verdicts import PHASES

Facts = dict[str, Any]

_INCONCLUSIVE = {"no_kernels", "graph_launches_without_kernels", "missing_rank", "capture_as_serving", "frontend_only"}


def inventory(rec: Recording) -> tuple[Facts, list[Check]]:
    """(facts, checks) of a recording made of traces."""
    found = checks(rec)
    facts: Facts = {"trust": trust_of(found).verdict}
    if any(check.word in _INCONCLUSIVE or check.hides_kernels for check in found):
        facts["fast_path_verdict"] = "inconclusive"
    if is_live(rec):
        facts |= live_facts(rec)
        if all(f.role == "guest" or f.role in KERNEL_FREE for f in rec.files):
            return facts, found
    facts |= _counts(rec)
    facts |= kernel_facts(rec)
    facts |= _launches(rec)
    facts |= _transfers(rec)
    facts |= _steps(rec)
    facts |= _ranks(rec)
    facts |= profiler_facts(rec)
    return facts, found


def _counts(rec: Recording) -> Facts:
    ranks = [f.counts for f in rec.files if f.role == "rank"]
    facts: Facts = {
        "events_x": sum(c.events_x for c in ranks),
        "cpu_ops": len(rec.ops),
        "runtime_calls": len(rec.launches),
        "gpu_annotations": sum(c.gpu_annotations for c in ranks),
    }
    if facts["gpu_annotations"]:
        facts["annotation_gpu_span_ns"] = sum(c.annotation_gpu_span_ns for c in ranks)
    optional = {
        "python_functions": sum(c.python_functions for c in ranks),
        "profiler_steps": sum(c.profiler_steps for c in ranks),
        "non_finite_args": sum(c.non_finite_args for c in ranks),
        "events_lost": sum(c.lost_events for c in ranks),
        "events_repaired_by_guessing": sum(c.repaired_events for c in ranks),
    }
    facts |= {key: value for key, value in optional.items() if value}
    if any(c.truncated for c in ranks):
        facts["truncated"] = True
    if len(rec.launches):
        facts["host_pids"] = np.unique(rec.launches["pid"]).tolist()
    return facts


def _launches(rec: Recording) -> Facts:
    launches, kernels = rec.launches, rec.kernels
    is_launch = launches["kind"] > 0
    is_graph = rec.graph_launches
    facts: Facts = {
        "launches": int(is_launch.sum()),
        "graph_launches": int(is_graph.sum()),
    }
    # a device-side copy or fill can answer a launch too, but a launch's child is a kernel
    childless = is_launch & (launches["kernels"] == 0)
    shared = (launches["kind"] == 1) & (launches["kernels"] > 1)
    for key, mask in (("launches_without_kernel", childless), ("correlations_shared_by_plain_launch", shared)):
        if mask.any():
            facts[key] = int(mask.sum())
    if is_graph.any():
        order = np.flatnonzero(is_graph)
        order = order[np.lexsort((launches["start_ns"][order], launches["file"][order]))]
        facts["kernels_per_graph_launch"] = launches["kernels"][order].tolist()
        in_graph = kernels["in_graph"]
        facts["graph_kernels"] = int(in_graph.sum())
        facts["eager_kernels"] = int((~in_graph).sum())
        facts["graph_kernel_time_ns"] = int(kernels["dur_ns"][in_graph & kernels["timed"]].sum())
        bare = int((is_graph & (launches["kernels"] == 0)).sum())
        facts |= {"graph_launches_without_kernel": bare} if bare else {}
    return facts | _early(rec)


def _early(rec: Recording) -> Facts:
    kernels = rec.kernels
    rows = np.flatnonzero((kernels["launch"] != NONE) & kernels["timed"])
    lead = kernels["start_ns"][rows] - rec.launches["start_ns"][kernels["launch"][rows]]
    early = int((lead < 0).sum())
    if not early:
        return {}
    pairs = zip(kernels["correlation"][rows].tolist(), lead.tolist(), strict=True)
    return {"kernels_before_launch": early, "launch_to_start_ns": {str(key): value for key, value in pairs}}


def _transfers(rec: Recording) -> Facts:
    copies = rec.transfers["kind"] == 0
    facts: Facts = {"memcpys": int(copies.sum()), "memsets": int((~copies).sum())}
    if copies.any():
        facts["memcpy_time_ns"] = int(rec.transfers["dur_ns"][copies].sum())
    return facts


_STEP_KEYS = ("ctx_reqs", "ctx_tokens", "gen_reqs", "gen_tokens", "ctx_seq_len_sum", "gen_seq_len_sum", "ctx_sq_sum")


def _steps(rec: Recording) -> Facts:
    steps = rec.steps
    facts: Facts = {"steps": len(steps)}
    if not len(steps):
        return facts
    columns = {key: steps[key].tolist() for key in ("requests", "rows", *_STEP_KEYS)}
    facts["step_list"] = [
        {"phase": str(PHASES[phase])}
        | {key: None if columns[key][i] == NONE else columns[key][i] for key in ("requests", "rows")}
        | {key: columns[key][i] for key in _STEP_KEYS if columns[key][i] != NONE}
        for i, phase in enumerate(steps["phase"].tolist())
    ]
    facts["step_kernels"] = figures.step_kernel_counts(rec).tolist()
    facts["step_kernel_time_ns"] = figures.step_kernel_time_ns(rec).tolist()
    facts["kernels_inside_annotation_window"] = _inside_annotations(rec)
    return facts


def _inside_annotations(rec: Recording) -> int:
    total = 0
    for file in np.unique(rec.steps["file"]).tolist():
        here = rec.steps["file"] == file
        start = rec.steps["start_ns"][here]
        end = start + rec.steps["dur_ns"][here]
        kernels = rec.kernels["start_ns"][(rec.kernels["file"] == file) & rec.kernels["timed"]]
        at = np.searchsorted(start, kernels, side="right") - 1
        total += int(((at >= 0) & (kernels < end[np.maximum(at, 0)])).sum())
    return total


def _ranks(rec: Recording) -> Facts:
    files = [(i, f) for i, f in enumerate(rec.files) if f.role == "rank"]
    facts: Facts = {}
    ranks = sorted({f.rank for _, f in files if f.rank is not None})
    worlds = [f.world_size for _, f in files if f.world_size is not None]
    missing = missing_ranks(rec)
    facts |= {"ranks": ranks} if ranks else {}
    facts |= {"world_size": max(worlds)} if worlds else {}
    facts |= {"missing_ranks": list(missing.first), "missing_rank_count": missing.count} if missing.count else {}
    if not any(f.in_folder for _, f in files) and len(rec.files) < 2:
        return facts
    roles = [f.role for f in rec.files]
    facts |= {"frontend_files": roles.count("frontend")} if "frontend" in roles else {}
    facts |= {"capture_files": roles.count("capture")} if "capture" in roles else {}
    return facts | _by_rank(rec)


def _by_rank(rec: Recording) -> Facts:
    kernels = rec.kernels
    counts: dict[str, int] = {}
    times: dict[str, int] = {}
    first: dict[str, int] = {}
    for i, f in enumerate(rec.files):
        if f.role != "rank" or f.rank is None:
            continue
        here = kernels["file"] == i
        good = here & kernels["timed"]
        key = str(f.rank)
        counts[key] = counts.get(key, 0) + int(here.sum())
        times[key] = times.get(key, 0) + int(kernels["dur_ns"][good].sum())
        if good.any() and f.base_time_ns is not None:
            start = f.base_time_ns + int(kernels["start_ns"][good].min())
            first[key] = min(first.get(key, start), start)
    facts: Facts = {"kernels_by_rank": counts, "kernel_time_ns_by_rank": times}
    return facts | ({"first_kernel_abs_ns": first} if first else {})
