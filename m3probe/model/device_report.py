"""Where the time of each device goes, and what an input cannot answer: the same for every format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device of one rank, over the whole recording; needs neither steps nor calls of the host.

    Args:
        rank: None where the format tells none.
        device: its number; ``label`` as the format writes it (``Agent 4``, a handle), or empty.
        kernel_count: of them ``comm_count`` collectives.
        kernel_time_ns: plain sum of their durations.
        span_ns: first start to last end of kernels, copies and fills.
        busy_ns: union of these.
        idle_share: 1 - busy / span; None where kernels may be missing.
        comm_ns: union of the collectives' time.
        exposed_ns: the part of it in which nothing else runs on the device.
        overlap_share: 1 - exposed / comm; None without collectives, and where kernels may be missing.
    """

    rank: int | None
    device: int
    label: str
    kernel_count: int
    kernel_time_ns: int
    span_ns: int
    busy_ns: int
    idle_share: float | None
    comm_count: int
    comm_ns: int
    exposed_ns: int | None
    overlap_share: float | None


@dataclass(frozen=True, slots=True)
class UnansweredRow:
    """What one question lacks in this input (``lacks``), and the option that would have it recorded (``record``)."""

    question: str
    lacks: str
    record: str


@dataclass(frozen=True, slots=True)
class DevicesSection:
    """Time of each device, and what the profiler that recorded it left unanswered."""

    device_time: tuple[DeviceRow, ...]
    unanswered: tuple[UnansweredRow, ...] = ()
