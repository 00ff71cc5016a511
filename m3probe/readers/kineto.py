"""torch-profiler (kineto) and other Chrome traces: one file -> rows of a recording."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from m3probe.model.recording import MOST_RANKS, Device, EventCounts, Meta, RecordingBuilder, SourceFile, time_or_none
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Progress, Reader
from m3probe.readers import _capture, _exported, _steps
from m3probe.readers._gather import Gather
from m3probe.readers._notes import notes_of
from m3probe.readers._rows import Rows, plausible
from m3probe.readers.stream import TraceStream

_RANK_IN_NAME = re.compile(r"rank[_-]?([0-9]+)")
_CAPTURE_FILE = re.compile(r"graph_capture|(?:^|[\\/])capture_traces[\\/]")


def sniff(_path: Path, head: bytes) -> bool:
    """A Chrome trace: an object that names traceEvents (or kineto's keys), or an array of events."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return b'"ph"' in text[:65536]
    kineto = b'"traceEvents"' in text or (b'"schemaVersion"' in text and b"rocprofiler-sdk-tool" not in text)
    return text.startswith(b"{") and (kineto or b'"deviceProperties"' in text)


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add one trace file to ``builder``.

    Raises:
        UnreadableInput: not a trace, no events, or two writers in one file.
    """
    stream = TraceStream(path)
    gather = Gather(builder)
    collecting = gc.isenabled()
    gc.disable()  # events hold no cycles; the collector would walk millions of live objects
    try:
        for events in stream:
            gather.add(events)
            progress(path, stream.bytes_read, stream.size_bytes)
    finally:
        if collecting:
            gc.enable()
    file = _source_file(path, stream, gather, builder, in_folder)
    notes = notes_of(file, stream, gather)  # may refuse the file: nothing of it is kept then
    builder.files.append(file)
    builder.note(notes)
    builder.meta = _meta(builder.meta, stream.header)
    if file.role == "capture":
        _capture.add_census(gather, builder, len(builder.files) - 1)
    elif file.role == "rank":
        Rows(gather, builder, len(builder.files) - 1).add()


READER = Reader(title="torch-profiler (kineto) trace", sniff=sniff, read=read)


# --- the file ------------------------------------------------------------------------------------


def _source_file(
    path: Path, stream: TraceStream, gather: Gather, builder: RecordingBuilder, in_folder: bool
) -> SourceFile:
    info = stream.header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    named = _RANK_IN_NAME.search(path.name)
    role = _role(path, gather, builder)
    rank = _int(info.get("rank"), int(named.group(1)) if named else None)
    damage, before = stream.damage, _exported.losses(stream.header)
    counts = EventCounts(
        events_x=gather.events_x + stream.python_functions,
        gpu_annotations=gather.count("gpu_annotations"),
        annotation_gpu_span_ns=_sum_ns(gather.column("gpu_annotations", "dur_ns")),
        profiler_steps=_profiler_steps(gather, builder),
        non_finite_args=damage.non_finite,
        python_functions=gather.python_functions + stream.python_functions,
        lost_events=damage.lost + before.events,
        repaired_events=damage.guessed,
        truncated=stream.truncated or before.cut,
    )
    return SourceFile(
        path=str(path),
        kind="kineto",
        role=role,
        rank=None if role == "frontend" or rank is None or not 0 <= rank < MOST_RANKS else rank,
        world_size=world if (world := _int(info.get("world_size"), None)) and 0 < world <= MOST_RANKS else None,
        base_time_ns=time_or_none(_int(stream.header.get("baseTimeNanoseconds"), None)),
        size_bytes=stream.size_bytes,
        counts=counts,
        in_folder=in_folder,
    )


def _role(path: Path, gather: Gather, builder: RecordingBuilder) -> str:
    if ".async_llm" in path.name:
        return "frontend"
    if _CAPTURE_FILE.search(f"{path.parent.name}/{path.name}"):
        return "capture"
    texts = builder.strings.texts
    annotations = {texts[i] for i in set(gather.column("annotations", "name").tolist()) if i >= 0}
    captures = any(_steps.CAPTURE.fullmatch(a) for a in annotations)
    serves = any(_steps.parse(a) is not None for a in annotations)
    return "capture" if captures and not serves else "rank"


def _profiler_steps(gather: Gather, builder: RecordingBuilder) -> int:
    texts = builder.strings.texts
    names = gather.column("annotations", "name").tolist()
    return sum(i >= 0 and texts[i].startswith(_steps.PROFILER_STEP) for i in names)


def _sum_ns(durations: Array) -> int:
    return int(durations[plausible(durations)].sum())


def _int(value: Any, default: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


_VERSION_KEYS = (
    "vllm_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
)
_FLAG_KEYS = ("record_shapes", "with_stack", "with_flops", "with_modules", "profile_memory")


def _meta(meta: Meta, header: dict[str, Any]) -> Meta:
    found = header.get("deviceProperties")
    devices = tuple(_device(d) for d in found if isinstance(d, dict)) if isinstance(found, list) else ()
    info = header.get("distributedInfo")
    backend = str(info.get("backend", "")) if isinstance(info, dict) else ""
    return replace(
        meta,
        versions={**meta.versions, **{k: str(header[k]) for k in _VERSION_KEYS if k in header}},
        flags={**meta.flags, **{k: str(header[k]) for k in _FLAG_KEYS if k in header}},
        devices=meta.devices or devices,
        backend=meta.backend or backend,
    )


def _device(said: dict[str, Any]) -> Device:
    def number(key: str) -> int:
        value = _int(said.get(key), NONE)
        return value if value is not None and 0 <= value < 2**62 else NONE

    return Device(
        index=number("id"),
        name=str(said.get("name", "")),
        units=number("numSms"),
        compute_major=number("computeMajor"),
        compute_minor=number("computeMinor"),
        warp_size=number("warpSize"),
        memory_bytes=number("totalGlobalMem"),
    )
