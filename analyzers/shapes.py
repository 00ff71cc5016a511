"""Question 1: which local M, N, K reach this rank, per phase, and do they fill the device?"""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.analyzers._gemm import Calls, GemmGroup, gemms
from m3probe.analyzers._gemm_ops import BATCHED, GROUPED, LINEAR, GemmShape
from m3probe.analyzers._gemm_tiles import named_tile
from m3probe.analyzers._layout import Layout, layout, model_match
from m3probe.analyzers._ledger_shapes import shape_rows
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
    launches = {id(group): _launches(group, units) for group in (*found.shaped, *found.opaque)}
    rows = [_row(group, launches[id(group)], model) for group in found.shaped]
    rows += shape_rows(rec)
    rows.sort(key=lambda row: (PHASES.index(row.phase), row.op, row.M, row.N, row.K))
    trusted = not so_far.hiding
    return Answer(
        (ShapesSection(tuple(rows), model_match(model) if model else None),),
        (
            *(layout_findings(model, found.shaped, found.opaque) if model else ()),
            *starved_findings(rec, [x for some in launches.values() for x in some], trusted=trusted),
            *moe_findings(rec, ex, found, model, trusted=trusted),
            *opaque_findings(rec, found, trusted=trusted),
        ),
    )


ANALYZER = Analyzer(title="Which local shapes run?", order=20, judge=judge)


def device_units(rec: Recording) -> int | None:
    """Compute units or multiprocessors of the devices; None when unknown or when devices differ."""
    units = {device.units for device in rec.meta.devices}
    only = units.pop() if len(units) == 1 else 0
    return only if only > 0 else None


def _launches(group: GemmGroup, units: int | None) -> list[Launch]:
    """One per kernel and grid that the calls ran, those of most calls first."""
    return [_launch(group, calls, units) for calls in group.launches()]


def _launch(group: GemmGroup, calls: Sequence[Calls], units: int | None) -> Launch:
    """By the tile in the kernel's name; by the selector's for the one kernel that asks it."""
    shape, kernel = group.shape, calls[0].kernel
    named, text = named_tile(kernel), ""
    programs = k_loops = None
    if named:
        # MT256x48x64 says by itself where it stands
        text = f"{named.text}, name" if named.text[0].isdigit() else named.text
    if named and shape and shape.kind != GROUPED:
        programs = -(-shape.M // named.block_m) * -(-shape.N // named.block_n) * shape.groups
    if named and shape:
        k_loops = -(-shape.K // named.block_k)
    if shape and shape.kind == LINEAR and not named and MXFP8_LINEAR in kernel:
        tile = _selected(shape)
        if isinstance(tile, tiles.Tile):
            text = f"{_size(tile)} (MXFP8 selector)"
            programs, k_loops = tiles.programs(shape.M, shape.N, tile), tiles.k_loops(shape.K, tile)
    return Launch(group.phase, shape, tuple(calls), text, programs, k_loops, units)


def _size(tile: tiles.Tile) -> str:
    return f"{tile.block_m}x{tile.block_n}x{tile.block_k}"


def _selected(shape: GemmShape) -> tiles.Tile | str:
    """The selector's tile, or why the native kernel would not run."""
    if tiles.native_refusal(shape.K):
        return f"MXFP8 selector refuses K {shape.K:,}"
    return tiles.select_tile(shape.M, shape.N, shape.K)


def _tile(shape: GemmShape, launches: Sequence[Launch]) -> str:
    """What ran, then behind ``; `` what the selector would take where it was not asked."""
    counts: dict[str, int] = {}
    for launch in launches:
        text = launch.tile or "not named"
        counts[text] = counts.get(text, 0) + launch.count
    several = ", ".join(f"{text.removesuffix(', name')} x {count:,}" for text, count in counts.items())
    grids = len(_grids(launches))
    one = launches[0].tile + (f", {grids} grids" if launches[0].tile and grids > 1 else "")
    parts = [f"several: {several}" if len(counts) > 1 else one]
    if shape.kind == LINEAR and not all(MXFP8_LINEAR in x.calls[0].kernel for x in launches):
        tile = _selected(shape)
        if isinstance(tile, tiles.Tile):
            programs, loops = tiles.programs(shape.M, shape.N, tile), tiles.k_loops(shape.K, tile)
            parts += [f"{_size(tile)} (MXFP8 selector would)", f"{programs:,} programs, {loops:,} K loops"]
        else:
            parts.append(tile)
    return "; ".join(part for part in parts if part)


def _grids(launches: Sequence[Launch]) -> set[tuple[int, ...]]:
    """Recorded grids."""
    return {x.grid for x in launches if x.grid is not None}


def _row(group: GemmGroup, launches: Sequence[Launch], model: Layout | None) -> ShapeRow:
    """Figures of the launch stand only where all calls of the shape share them."""
    shape, first = group.shape, launches[0]
    assert shape is not None
    grids = _grids(launches)
    shared = len(grids) <= 1 and len({x.programs for x in launches}) == 1
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
        tile=_tile(shape, launches),
        programs=first.programs if shared else None,
        units=first.units,
        k_loops=first.k_loops if len({x.k_loops for x in launches}) == 1 else None,
        grid=grids.pop() if len(grids) == 1 else None,
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
