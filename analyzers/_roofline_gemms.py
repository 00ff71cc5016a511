"""GEMM calls with a shape, each beside the least time that its shape and formats allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._gemm import Calls, GemmGroup
from m3probe.analyzers._gemm_ops import GROUPED, GemmShape
from m3probe.analyzers._layout import Layout
from m3probe.model import floors
from m3probe.model.floors import Peaks, Work, floor, format_word
from m3probe.model.roofline_report import RooflineRow
from m3probe.model.tables import Array


@dataclass(frozen=True, slots=True)
class Seen:
    """A row, the kernels that it rests on, and the floor of them all."""

    row: RooflineRow
    kernels: Array
    floor_ns: float | None
    observed_ns: int | None


def gemm_rows(groups: Sequence[GemmGroup], model: Layout | None, peaks: Peaks) -> Iterator[Seen]:
    """One per shape and phase; calls without a time are left out of the count, the floor and the time."""
    for group in groups:
        if group.shape is None:
            continue
        timed = [part for part in group.calls if part.time_ns]
        work, note = _work(group.shape, model)
        yield _seen(group, _text(group.shape, model), timed, (work, note), peaks)


def _seen(group: GemmGroup, text: str, timed: Sequence[Calls], worked: tuple[Work | None, str], peaks: Peaks) -> Seen:
    (work, note), shape = worked, group.shape
    assert shape is not None
    count = sum(part.count for part in timed)
    spent = sum(part.time_ns or 0 for part in timed) if count else None
    least = floor(work, peaks) if work else None
    observed = spent / count if spent is not None else None
    found = least.time_ns if least else None
    notes = [note, least.unknown if least else "", "" if count else "no call has a time: known from a census alone"]
    row = RooflineRow(
        phase=str(group.phase),
        what="grouped GEMM" if shape.kind == GROUPED else group.op,
        part=False,
        shape=text,
        dtype=shape.dtype,
        count=count,
        flops=work.flops if work else None,
        bytes=work.bytes if work else None,
        floor_ns=found,
        observed_ns=observed,
        ratio=observed / found if observed and found else None,
        bound_by=least.bound_by if least else "",
        evidence=str(group.evidence),
        note="; ".join(text for text in notes if text),
    )
    kernels = np.concatenate([part.launched for part in timed]) if timed else np.empty(0, dtype=np.int64)
    return Seen(row, kernels, found * count if found and count else None, spent)


def _text(shape: GemmShape, model: Layout | None) -> str:
    batch = f"{shape.groups} x " if shape.groups > 1 and shape.kind != GROUPED else ""
    module = model.module(shape) if model else ""
    name = module or shape.part
    return f"{batch}{shape.M} x {shape.N} x {shape.K}{f' {name}' if name else ''}"


def _work(shape: GemmShape, model: Layout | None) -> tuple[Work | None, str]:
    """The least work of one call, or None and why it is not known."""
    words = shape.dtype.split(" x ")
    kinds = [format_word(word) for word in words]
    if None in kinds:
        return None, f"operand formats {shape.dtype or 'not recorded'}: not known, so neither are bytes"
    activation, weight = str(kinds[0]), str(kinds[-1])
    if shape.kind != GROUPED:
        # BF16 is what vLLM's linear layers give back, from FP8 operands too; FP32 stays FP32
        out = "fp32" if weight == "fp32" else "bf16"
        return floors.gemm(shape.M, shape.N, shape.K, weight, activation, out, shape.groups), ""
    if model is None or not shape.part:
        return None, "how many experts a row chooses is not known, so neither are the experts that were read"
    config = model.config
    if shape.groups not in (config.num_experts, config.num_experts + config.shared_experts):
        return None, f"{shape.groups} local experts of {config.num_experts}: which rows reach them is routing's to tell"
    always = shape.groups - config.num_experts
    hit = floors.distinct_experts(config.num_experts, config.top_k, shape.M, always)
    routed = shape.M * (config.top_k + always)
    work = floors.grouped_gemm(shape.M, routed, shape.N, shape.K, hit, weight, shape.part, activation)
    return work, f"{hit:,.1f} experts hit, as if evenly chosen"
