"""Perfetto traces as rocprofv3 and others write them, a few packets each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pb = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the extra export is not installed"
)

PROCESS, THREAD, QUEUE_4, QUEUE_5, COPIES = 1, 2, 3, 4, 5


def packet(**said: Any) -> Any:
    return pb.TracePacket(**{"trusted_packet_sequence_id": 7, **said})


def clock(at_ns: int) -> Any:
    """Time zero of a sequence whose time stamps are told as differences, as the writer's library makes it."""
    snapshot = {
        "clocks": [{"clock_id": 6, "timestamp": at_ns}, {"clock_id": 64, "timestamp": at_ns, "is_incremental": True}]
    }
    return packet(
        timestamp=at_ns,
        timestamp_clock_id=6,
        sequence_flags=1,
        clock_snapshot=snapshot,
        trace_packet_defaults={"timestamp_clock_id": 64},
    )


def track(uuid: int, name: str, **said: Any) -> Any:
    return packet(track_descriptor={"uuid": uuid, "name": name, "parent_uuid": PROCESS, **said})


def tracks() -> list[Any]:
    """A process with a thread, a queue on each of two agents, and one for copies."""
    return [
        packet(track_descriptor={"uuid": PROCESS, "process": {"pid": 501, "process_name": "python3"}}),
        track(THREAD, "THREAD 1 (502)"),
        track(QUEUE_4, "COMPUTE AGENT [4] QUEUE [0] GPU"),
        track(QUEUE_5, "COMPUTE AGENT [5] QUEUE [0] GPU"),
        track(COPIES, "COPY to AGENT [4] THREAD [1] (GPU)"),
    ]


def begin(after_ns: int, uuid: int, category: str, name: str, **notes: Any) -> Any:
    """The begin of a slice, ``after_ns`` behind the packet before it."""
    event: dict[str, Any] = {"type": 1, "track_uuid": uuid, "categories": [category], "name": name}
    event["debug_annotations"] = [
        {"name": key, "string_value" if isinstance(value, str) else "uint_value": value} for key, value in notes.items()
    ]
    return packet(timestamp=after_ns, track_event=event)


def end(after_ns: int, uuid: int) -> Any:
    return packet(timestamp=after_ns, track_event={"type": 2, "track_uuid": uuid})


def written(path: Path, packets: list[Any]) -> Path:
    path.write_bytes(pb.Trace(packet=packets).SerializeToString())
    return path


def rocprofv3() -> list[Any]:
    """A step of 9 us that launches one kernel on each agent and a copy; times in ns from 1,000,000."""
    return [
        clock(1_000_000),
        *tracks(),
        begin(0, THREAD, "marker_api", "execute_context_0(0)_generation_4(4)", corr_id=1, tid=502),
        begin(1_000, THREAD, "hip_api", "hipLaunchKernel", corr_id=11, tid=502),
        end(500, THREAD),
        begin(500, THREAD, "hip_api", "hipLaunchKernel", corr_id=12, tid=502),
        end(500, THREAD),
        begin(500, THREAD, "hip_api", "hipMemcpyAsync", corr_id=13, tid=502),
        end(500, THREAD),
        end(5_500, THREAD),
        begin(1_000, QUEUE_4, "kernel_dispatch", "first", corr_id=11, agent="Agent-4", queue=2, grid_size=4096),
        end(2_000, QUEUE_4),
        begin(0, QUEUE_5, "kernel_dispatch", "second", corr_id=12, agent="Agent-5", queue=9, grid_size="(512, 2, 1)", workgroup_size="(256, 1, 1)"),
        end(3_000, QUEUE_5),
        begin(0, COPIES, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", corr_id=13, dst_agent="Agent-4", copy_bytes=4096),
        end(700, COPIES),
    ]  # fmt: skip
