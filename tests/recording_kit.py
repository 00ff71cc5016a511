"""Recordings written by hand, so that every figure of a report can be worked out beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.pipeline import report
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, frame
from m3probe.schema.roles import Role, Stage
from m3probe.sources import open_recording

SECOND = 1_000_000_000


def process(role: Role = Role.WORKER, rank: int = 0, world: int = 1, **values: Any) -> records.Process:
    """Who writes; ranks belong to workers alone."""
    known = {"rank": rank, "world_size": world, "tp": world} if role is Role.WORKER else {}
    return records.Process(role=role, roles=(role,), pid=100 + rank, vllm="0.32.0", **{**known, **values})


def end(**values: Any) -> records.End:
    return records.End(mono_ns=10 * SECOND, reason="detached", **values)


def write(path: Path, found: Iterable[object], *, ends: bool = True, **process_values: Any) -> Path:
    """One process's file: its process record first, unless the records bring their own."""
    held = list(found)
    if not any(isinstance(record, records.Process) for record in held):
        held.insert(0, process(**process_values))
    held += [end()] if ends and not any(isinstance(record, records.End) for record in held) else []
    path.write_bytes(MAGIC + b"".join(frame(record) for record in held))
    return path


def read(tmp_path: Path, *found: object, **process_values: Any) -> Recording:
    """The recording of one worker."""
    return open_recording([write(tmp_path / "worker.m3p", found, **process_values)])


def judged(tmp_path: Path, *found: object, **process_values: Any) -> Report:
    return report(read(tmp_path, *found, **process_values))


def path(found: Report, name: str) -> PathRow:
    """The report's row of one fast path."""
    section = found.answer.section(PathsSection)
    assert section is not None
    return next(row for row in section.paths if row.id == name)


def count(phase: str = "decode", steps: int = 1, rows: int = 1, **values: Any) -> records.StepCount:
    """Worker steps of one kind, ``rows`` of tokens each; a decode step has a request for each row."""
    known = {
        "mode": "NONE",
        "descriptor": -1,
        "padded_rows": rows,
        "rows_sum": rows * steps,
        "requests_sum": rows * steps if phase == "decode" else steps,
        "role": Role.WORKER,
    }
    return records.StepCount(phase=phase, count=steps, **{**known, **values})


def replayed(
    descriptor: int, steps: int, rows: int, padded: int, mode: str = "FULL", **values: Any
) -> records.StepCount:
    """Decode steps that replayed a captured batch."""
    known = {"mode": mode, "descriptor": descriptor, "padded_rows": padded, "replays": steps}
    return count("decode", steps, rows, **{**known, **values})


def steps(*counts: records.StepCount, second: int = 1, **values: Any) -> records.StepCounts:
    return records.StepCounts(mono_ns=second * SECOND, first=0, steps=counts, **values)


def batch(number: int, padded_rows: int, mode: str = "FULL") -> records.Descriptor:
    return records.Descriptor(id=number, mode=mode, padded_rows=padded_rows, requests=padded_rows, runner="v1")


def linear(name: str, n: int, k: int, **values: Any) -> records.Module:
    known = {"dtype": "bfloat16", "weight_bytes": 2 * n * k, "layer": 0}
    return records.Module(name=name, cls="Linear", kind="linear", N=n, K=k, **{**known, **values})


def experts(n: int, k: int, w2: tuple[int, int], number: int, top_k: int, **facts: Any) -> records.Module:
    """Routed experts of one layer; bytes in BF16."""
    told = {"experts": number, "local_experts": number, "top_k": top_k, "w2": list(w2), **facts}
    size = 2 * number * (n * k + w2[0] * w2[1])
    return records.Module(
        name="model.layers.0.mlp.experts",
        cls="FusedMoE",
        kind="moe",
        layer=0,
        N=n,
        K=k,
        dtype="bfloat16",
        weight_bytes=size,
        facts=told,
    )


def call(name: str, variant: str = "", **values: Any) -> records.Dispatch:
    """A branch taken in an eager decode step."""
    known = {"seam": "test", "phase": "decode", "stage": Stage.EAGER}
    return records.Dispatch(path=name, variant=variant, **{**known, **values})


def captured(name: str, variant: str = "", *, descriptor: int, **values: Any) -> records.Dispatch:
    """A branch taken while a batch was captured."""
    return call(name, variant, descriptor=descriptor, stage=Stage.CAPTURE, phase="unknown", **values)
