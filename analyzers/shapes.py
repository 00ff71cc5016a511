"""Question 1: which local M, N, K reach this rank, per phase, and do they fill the device?"""

from __future__ import annotations

from m3probe.analyzers._gemm import GemmGroup, gemms
from m3probe.analyzers._gemm_ops import BATCHED, GROUPED, LINEAR, GemmShape
from m3probe.analyzers._gemm_tiles import named_tile
from m3probe.analyzers._layout import Layout, layout, model_match
from m3probe.analyzers._shape_findings import layout_findings, moe_findings, opaque_findings
from m3probe.analyzers._starved import Launch, starved_findings
from m3probe.model import tiles
from m3probe.model.executed import executed
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, ShapeRow, ShapesSection
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import PHASES

MXFP8_LINEAR = "_mxfp8_linear_kernel"
"""vLLM's native MXFP8 linear (rocm_native.py): its tile is the selector's and no part of its name."""


def judge(rec: Recording, so_far: Answer) -> Answer:
    """The histogram, the layout it proves, and findings; evidence is ``census`` where a graph's capture told it."""
    ex = executed(rec)
    found = gemms(rec, ex)
    model = layout(rec, ex, found.shaped)
    units = device_units(rec)
    launches = [_launch(group, units) for group in found.shaped]
    rows = [_row(launch, model) for launch in launches]
    rows.sort(key=lambda row: (PHASES.index(row.phase), row.op, row.M, row.N, row.K))
    launches += [_launch(group, units) for group in found.opaque]
    return Answer(
        (ShapesSection(tuple(rows), model_match(model) if model else None),),
        (
            *(layout_findings(model, found.shaped, found.opaque) if model else ()),
            *starved_findings(rec, launches, trusted=not so_far.hiding),
            *moe_findings(rec, ex, found, model),
            *opaque_findings(found),
        ),
    )


ANALYZER = Analyzer(title="Which local shapes run?", order=20, judge=judge)


def device_units(rec: Recording) -> int | None:
    """Compute units or multiprocessors of the devices; None when unknown or when devices differ."""
    units = {device.units for device in rec.meta.devices}
    only = units.pop() if len(units) == 1 else 0
    return only if only > 0 else None


def _launch(group: GemmGroup, units: int | None) -> Launch:
    """What the group's kernel launches, by the tile in its name, else by the tile that the selector gives."""
    shape, named = group.shape, named_tile(group.kernel)
    text = f"{named.text} (from the kernel name)" if named else ""
    programs = k_loops = None
    selected = _selected(shape) if shape and shape.kind == LINEAR else None
    if named and shape and shape.kind != GROUPED:
        programs = -(-shape.M // named.block_m) * -(-shape.N // named.block_n) * shape.groups
    if named and shape:
        k_loops = -(-shape.K // named.block_k)
    if shape and isinstance(selected, tiles.Tile):
        size = f"{selected.block_m}x{selected.block_n}x{selected.block_k}"
        own = MXFP8_LINEAR in group.kernel
        said = f"{size} (vLLM's MXFP8 selector)" if own else f"the MXFP8 native selector would choose {size}"
        text = f"{text}; {said}" if text else said
        if not named:
            programs, k_loops = tiles.programs(shape.M, shape.N, selected), tiles.k_loops(shape.K, selected)
    elif isinstance(selected, str):
        text = f"{text}; {selected}" if text else selected
    ran = named is not None or MXFP8_LINEAR in group.kernel
    return Launch(group, text, programs, k_loops, units, ran)


def _selected(shape: GemmShape) -> tiles.Tile | str:
    """The selector's tile, or why the native kernel would not run."""
    refusal = tiles.native_refusal(shape.K)
    return (
        f"the MXFP8 native selector would refuse: {refusal}"
        if refusal
        else tiles.select_tile(shape.M, shape.N, shape.K)
    )


def _row(launch: Launch, model: Layout | None) -> ShapeRow:
    group, shape = launch.group, launch.group.shape
    assert shape is not None
    return ShapeRow(
        phase=str(group.phase),
        op="moe" if shape.kind == GROUPED else group.op,
        M=shape.M,
        N=shape.N,
        K=shape.K,
        count=group.count,
        predicted=model.predicted(shape) if model else None,
        module=_module(shape, model),
        dtype=shape.dtype,
        tile=launch.tile,
        programs=launch.programs,
        units=launch.units,
        k_loops=launch.k_loops,
        grid=group.grid,
        evidence=str(group.evidence),
    )


def _module(shape: GemmShape, model: Layout | None) -> str:
    """Layer names of the matched layout, and what M, N, K alone do not say."""
    parts = [model.module(shape) or shape.part if model else shape.part]
    if shape.kind == BATCHED:
        parts.append(f"each of a batch of {shape.groups}")
    if shape.kind == GROUPED:
        parts.append(f"{shape.groups} local experts, M before routing")
    return ", ".join(part for part in parts if part)
