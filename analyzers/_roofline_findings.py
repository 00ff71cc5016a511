"""What the roofline finds: time above the floor, time below it (something assumed is wrong), and the step as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from m3probe.analyzers._basis import Basis, removable_share
from m3probe.analyzers._roofline_gemms import Seen
from m3probe.analyzers._view import View, ms, percent
from m3probe.model.findings import Bound, Finding, evidence
from m3probe.model.roofline_report import DecodeFloorRow, RooflineRow
from m3probe.model.tables import Array

SHOWN = 4
"""Headroom findings of a report: those with the most time above their floor."""
LEAST = 0.001
"""Below this share of step time no headroom is told."""
_MEMORY = (
    "It waits for memory: fewer bytes (weights or caches in a narrower format), or a kernel that comes nearer to the "
    "memory's peak (more loads in flight, programs enough for all units)"
)
_BY = {
    "memory": _MEMORY,
    "compute": "It computes: a narrower format, larger tiles, or the library's tuned kernel for this shape",
    "link": "It waits for the links between ranks: a quantised all-reduce, or fewer and larger ones",
}
_PARTS = {
    "moe_gemm": "Look at the MoE backend that ran (question paths) and whether its table is tuned for this shape. ",
    "gemm": "Look at the shapes below and at their tiles (question shapes). ",
    "sparse_attention": "Look at which sparse attention path ran (question paths). ",
    "attention": "Look at which attention backend ran (question paths): a few long requests need split keys. ",
    "indexer": "Look at how often blocks are chosen (question repeats). ",
    "comm": "A rank that waits for a late one spends that time here too: hold ranks against each other first. ",
}


def headroom(view: View, base: Basis | None, seen: Sequence[Seen], *, certain: bool = True) -> Iterator[Finding]:
    """Time above the floor of what ran in the steps that bounds are shares of, the most time first.

    Args:
        certain: the device is known; the peaks of one that may be another are worth less.
    """
    above = [s for s in seen if base and s.row.phase == base.where and s.floor_ns and s.row.ratio and s.row.ratio > 1]
    above.sort(key=lambda s: (s.floor_ns or 0.0) - (s.observed_ns or 0))
    told = 0
    for one in above:
        bound = _bound(view, base, one) if base else None
        if bound and bound.high >= LEAST and told < SHOWN:
            told += 1
            yield replace(_headroom(view, one, bound), confidence="medium" if certain else "low")


def _bound(view: View, base: Basis, one: Seen) -> Bound:
    whole = removable_share(view.rec, one.kernels, base)
    assert one.floor_ns is not None
    share = 1 - one.floor_ns / (one.observed_ns or 1)
    kept = f"({whole.arithmetic[0]}) * (1 - {one.floor_ns:,.0f} ns / {one.observed_ns:,} ns)"
    return replace(
        whole,
        high=whole.high * share,
        formula=f"{whole.formula} x (1 - least time / kernel time)",
        arithmetic=(kept,),
    )


def _headroom(view: View, one: Seen, bound: Bound) -> Finding:
    row = one.row
    name = row.what if row.part else f"{row.what} {row.shape}"
    each = "per step" if row.part else "per call"
    assumed = f" ({row.note})" if row.note else ""
    return Finding(
        id=f"roofline.headroom.{_slug(row)}",
        question="roofline",
        verdict="above_floor",
        claim=f"{name} takes {_us(row.observed_ns)} {each}, {row.ratio:,.2f} x the {_us(row.floor_ns)} that its "
        f"{_size(row)} need at the least{assumed}",
        where=row.phase,
        evidence=(
            evidence(
                "kernels",
                one.kernels,
                f"{one.observed_ns:,} ns in {row.count:,} {_unit(row)}",
                f"{one.floor_ns:,.0f} ns",
            ),
        ),
        advice=f"{_PARTS.get(row.what, '')}{_BY[row.bound_by]}",
        bound=bound,
        trusted=view.trusted,
    )


def below_floor(view: View, seen: Sequence[Seen]) -> Iterator[Finding]:
    """A time that no device of these peaks can reach: a contradiction, never an efficiency above 100 %."""
    for one in seen:
        row = one.row
        if row.ratio is None or row.ratio >= 1:
            continue
        yield Finding(
            id=f"roofline.below_floor.{_slug(row)}.{row.phase}",
            question="roofline",
            verdict="contradiction",
            claim=f"{row.what} {row.shape} takes {_us(row.observed_ns)}, less than the {_us(row.floor_ns)} that its "
            f"{_size(row)} would need: something assumed of it is wrong",
            where=row.phase,
            evidence=(evidence("kernels", one.kernels, f"{one.observed_ns:,} ns", f"at least {one.floor_ns:,.0f} ns"),),
            advice=f"Its operands came from a cache, are of another format or shape, or the device is another one: {_doubt(row)}",
            confidence="low",
            trusted=view.trusted,
        )


def _doubt(row: RooflineRow) -> str:
    if row.note:
        return f"check first: {row.note}"
    return f"check the format ({row.dtype or 'of its weights'}) and whether {row.bytes or 0:,.0f} B fit a cache"


def step_finding(view: View, row: DecodeFloorRow, steps: tuple[str, Array], notes: Sequence[str]) -> Iterator[Finding]:
    """The mean decode step beside its floor: how far, and which part makes most of the floor.

    Args:
        steps: table and rows that show it.
    """
    if not row.step_ns or not row.parts:
        return
    largest = max(row.parts, key=lambda part: part.floor_ns)
    context = f", {row.context:,.0f} tokens each" if row.context else ""
    lost = (
        f"; not in it: {', '.join(row.left_out)} ({'; '.join(dict.fromkeys(row.left_out.values()))})"
        if row.left_out
        else ""
    )
    busy = "" if row.busy_ns is None else f" ({ms(row.busy_ns)} with GPU work)"
    yield Finding(
        id="roofline.decode_floor",
        question="roofline",
        verdict="above_floor" if row.step_ns > row.floor_ns else "contradiction",
        claim=f"A decode step of {row.rows:,.0f} rows{context} takes {ms(row.step_ns)}{busy}; its "
        f"{row.bytes / 1e9:,.2f} GB and its operations need {ms(row.floor_ns)} at the least: {row.step_ns / row.floor_ns:,.1f} x. "
        f"{largest.what} is {percent(largest.floor_ns / row.floor_ns)} of the least time{lost}",
        where="decode",
        evidence=(evidence(*steps, f"{ms(row.step_ns)} per step", f"at least {ms(row.floor_ns)}", count=row.steps),),
        advice="No kernel brings the step below its floor: more rows per step share the same weights, narrower formats "
        f"move fewer bytes, more ranks hold fewer each{''.join(f'. {note}' for note in notes)}",
        confidence="medium",
        trusted=view.trusted,
    )


def _slug(row: RooflineRow) -> str:
    if row.part:
        return row.what
    return "_".join(row.shape.replace(" x ", "x").replace(",", "").split())


def _unit(row: RooflineRow) -> str:
    return "steps" if row.part else "calls"


def _us(time_ns: float | None) -> str:
    return f"{(time_ns or 0) / 1e3:,.1f} us"


def _size(row: RooflineRow) -> str:
    return f"{(row.bytes or 0) / 1e6:,.2f} MB and {(row.flops or 0) / 1e9:,.2f} GFLOP"
