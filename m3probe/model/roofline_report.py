"""Rows of the roofline: what ran beside the least time that it can take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """One GEMM shape of a phase, or one part of a decode step; figures are means of one execution.

    Args:
        what: operator (``aten::mm``), or the family of a part (``moe_gemm``).
        part: True for a part of a decode step, of which one execution is one step.
        shape: M x N x K, or what the part is made of.
        count: executions whose time is known.
        bytes: least bytes of one.
        floor_ns: least time of one on this device.
        observed_ns: kernel time of one.
        ratio: observed over floor; below 1 something that was assumed is wrong.
        bound_by: ``memory``, ``compute`` or ``link``; "" without a floor.
        note: what was assumed, or why a figure is not known.
    """

    phase: str
    what: str
    part: bool
    shape: str
    dtype: str
    count: int
    flops: float | None
    bytes: float | None
    floor_ns: float | None
    observed_ns: float | None
    ratio: float | None
    bound_by: str
    evidence: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class FloorPart:
    """One component of a decode step: sums over its calls."""

    what: str
    calls: int
    bytes: float
    flops: float
    floor_ns: float
    bound_by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DecodeFloorRow:
    """The mean decode step beside the least time that it can take.

    Args:
        rows: computed in a step, mean.
        context: key tokens of a request, mean; None where not known.
        floor_ns: sum over the parts, one after another; parts that are left out count nothing.
        overlapped_ns: if memory, matrix units and links worked side by side without a pause.
        step_ns: the steps' own time, mean; ``busy_ns`` that with GPU work.
        left_out: component -> why its floor is not known.
    """

    steps: int
    rows: float
    requests: float
    context: float | None
    bytes: float
    floor_ns: float
    overlapped_ns: float
    step_ns: float | None
    busy_ns: float | None
    parts: tuple[FloorPart, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ControlPlaneRow:
    """Choosing blocks beside attending to them, of one decode step; None where not known.

    ``crossover_tokens``: context from which the index reads at least what the attend reads.
    """

    choose_ns: float | None
    attend_ns: float | None
    choose_bytes: float | None
    attend_bytes: float | None
    context: float | None
    crossover_tokens: float | None
    parts_ns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Roofline:
    """``device`` is None where it is not one whose peaks are known; ``unknown`` says what could not be told, and why."""

    device: str | None
    certain: bool | None
    bytes_per_s: float | None
    peak_tflops: Mapping[str, float]
    rows: tuple[RooflineRow, ...]
    decode: DecodeFloorRow | None
    control_plane: ControlPlaneRow | None
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RooflineSection:
    """How far from the least time."""

    roofline: Roofline
