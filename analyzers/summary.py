"""What ran: totals, families, phases and steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._steptime import StepTimes, step_times
from m3probe.analyzers._whole import whole
from m3probe.hardware import identify
from m3probe.model.executed import executed
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, FamilyRow, PhaseRow, StepRow, Summary, SummarySection
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """The totals of docs/words.md, over all ranks."""
    times = step_times(rec)
    return Answer((SummarySection(_meta(rec), _summary(rec, times), _steps(rec, times)),))


ANALYZER = Analyzer(title="What ran?", order=10, judge=judge)


def _summary(rec: Recording, times: StepTimes) -> Summary:
    known = bool(len(figures.timed(rec)))
    return Summary(
        kernel_count=len(rec.kernels),
        kernel_time_ns=figures.kernel_time_ns(rec) if known else None,
        busy_union_ns=figures.busy_union_ns(rec) if known else None,
        gpu_span_ns=figures.gpu_span_ns(rec) if known else None,
        graph_launches=int(rec.graph_launches.sum()),
        devices=tuple(np.unique(rec.kernels["device"]).tolist()),
        families=_families(rec),
        phases=_phases(rec, times),
    )


def _families(rec: Recording) -> tuple[FamilyRow, ...]:
    """Executions by family; those known from the census alone have no time.

    Where kernels are missing no share is stated: what was lost is not spread over the families like what was kept.
    """
    ran = executed(rec)
    count = np.bincount(ran.family, minlength=len(FAMILIES))
    untimed = np.bincount(ran.family[ran.kernel == NONE], minlength=len(FAMILIES))
    rows = figures.timed(rec)
    time = np.zeros(len(FAMILIES), dtype=np.int64)
    np.add.at(time, rec.kernels["family"][rows], rec.kernels["dur_ns"][rows])
    total = int(time.sum()) if whole(rec) else 0
    found = [
        FamilyRow(
            family=str(family),
            count=int(count[i]),
            time_ns=int(time[i]) if len(rows) and not untimed[i] else None,
            share=int(time[i]) / total if total else None,
            unrecorded=int(untimed[i]),
        )
        for i, family in enumerate(FAMILIES)
        if count[i]
    ]
    return tuple(sorted(found, key=lambda row: (-(row.time_ns or 0), -row.count, row.family)))


def _phases(rec: Recording, windows: StepTimes) -> tuple[PhaseRow, ...]:
    counts = figures.step_kernel_counts(rec)
    times = figures.step_kernel_time_ns(rec)
    timed = bool(len(figures.timed(rec)))
    found = []
    for index, phase in enumerate(PHASES):
        steps = np.flatnonzero(rec.steps["phase"] == index)
        if len(steps):
            short = int(windows.short[steps].sum())
            time = int(times[steps].sum()) if timed and not short else None
            idle = windows.idle_share(steps)
            spent = int(windows.window_ns[steps].sum()) if idle is not None else None
            found.append(PhaseRow(str(phase), len(steps), int(counts[steps].sum()), time, idle, short, spent))
    return tuple(found)


def _steps(rec: Recording, windows: StepTimes) -> tuple[StepRow, ...]:
    counts = figures.step_kernel_counts(rec).tolist()
    times = figures.step_kernel_time_ns(rec).tolist()
    ranks = figures.rank_of_steps(rec).tolist()
    known = (~windows.short & bool(len(figures.timed(rec)))).tolist()
    timed = (windows.seen & ~windows.short).tolist()
    spans = list(zip(*(column.tolist() for column in _spans(windows)), strict=True))
    steps = rec.steps
    columns = [steps[key].tolist() for key in ("phase", "rows", "requests", "graph_mode")]
    found = []
    for i, (phase, rows, requests, mode) in enumerate(zip(*columns, strict=True)):
        found.append(
            StepRow(
                rank=None if ranks[i] == NONE else ranks[i],
                name=rec.strings[int(steps["name"][i])],
                phase=str(PHASES[phase]),
                rows=None if rows == NONE else rows,
                requests=None if requests == NONE else requests,
                kernel_count=counts[i],
                kernel_time_ns=times[i] if known[i] else None,
                graph_mode=str(GRAPH_MODES[mode]),
                **(dict(zip(SPANS, spans[i], strict=True)) if timed[i] else {}),
            )
        )
    return tuple(found)


SPANS = ("gpu_start_ns", "gpu_end_ns", "step_time_ns", "idle_ns")


def _spans(windows: StepTimes) -> tuple[Array, Array, Array, Array]:
    return windows.begin_ns, windows.last_ns, windows.window_ns, windows.window_ns - windows.busy_ns


def _meta(rec: Recording) -> dict[str, Any]:
    device = rec.meta.devices[0] if rec.meta.devices else None
    return {
        "files": [{"path": f.path, "kind": f.kind, "role": f.role, "rank": f.rank} for f in rec.files],
        "versions": dict(rec.meta.versions),
        "flags": dict(rec.meta.flags),
        "backend": rec.meta.backend or None,
        "world_size": max((f.world_size or 0 for f in rec.files), default=0) or None,
        "device": None if device is None else _device(rec),
        "model": rec.meta.model.name if rec.meta.model else None,
        "tp": rec.meta.tp,
        "ep": rec.meta.ep,
    }


def _device(rec: Recording) -> dict[str, Any]:
    said = rec.meta.devices[0]
    found = identify(
        said.name,
        said.units,
        said.compute_major,
        said.compute_minor,
        said.warp_size,
        memory_bytes=max(said.memory_bytes, 0),
    )
    return {
        "name": said.name or None,
        "identified_as": found.name if found else None,
        "certain": found.certain if found else None,
        "units": said.units if said.units > 0 else None,
        "memory_bytes": said.memory_bytes if said.memory_bytes > 0 else None,
    }
