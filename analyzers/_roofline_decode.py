"""Decode steps by their parts: the floor of what each family computes, beside the kernel time of that family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._names import sampling_softmax
from m3probe.analyzers._roofline_gemms import Seen
from m3probe.analyzers._roofline_known import Model, window_contexts
from m3probe.analyzers._view import View, kernel_names, rows_named
from m3probe.model.decode_floor import Batch, DecodeFloor, decode_floor
from m3probe.model.floors import Floor, Peaks, Work
from m3probe.model.roofline_report import DecodeFloorRow, FloorPart, RooflineRow
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Evidence, Family, Phase

ATTEND = ("attend_sparse",)
PARTS: dict[Family, tuple[str, ...]] = {
    Family.GEMM: (
        "qkv_dense", "qkv_sparse", "o_proj", "dense_gate_up", "dense_down", "shared_gate_up", "shared_down", "lm_head",
    ),
    Family.MOE_GEMM: ("moe_w13", "moe_w2"),
    Family.ATTENTION: ("attend_dense",),
    Family.SPARSE_ATTENTION: ATTEND,
    Family.INDEXER: ("index_score", "index_topk", "page_table"),
    Family.COMM: ("all_reduce",),
}  # fmt: skip
"""Families whose kernels do the work of these components and of no other."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Timed decode steps: ``batches`` are kinds of them, how many of each and the floor of one; ``context`` the mean."""

    steps: Array
    batches: tuple[tuple[int, Batch, DecodeFloor], ...]
    context: float | None

    def total(self, names: Sequence[str]) -> FloorPart | None:
        """Components summed over all steps; None where one of them is not known or none is there."""
        if any(name in names for _, _, found in self.batches for name, _ in found.left_out):
            return None
        rows = [(count, work, least) for count, _, found in self.batches for work, least in found.of(*names)]
        if not rows:
            return None
        by = Counter[str]()
        for count, _, least in rows:
            by[least.bound_by] += round(count * least.time_ns)
        return FloorPart(
            ", ".join(dict.fromkeys(work.what for _, work, _ in rows)),
            sum(count * work.calls for count, work, _ in rows),
            sum(count * work.bytes for count, work, _ in rows),
            sum(count * work.flops for count, work, _ in rows),
            sum(count * least.time_ns for count, _, least in rows),
            by.most_common(1)[0][0],
            _note(rows),
        )


def _note(rows: Sequence[tuple[int, Work, Floor]]) -> str:
    """What was assumed; of experts the mean over steps."""
    told = dict.fromkeys(text for _, work, least in rows for text in (work.note, least.unknown) if text)
    calls = sum(count * work.calls for count, work, _ in rows if work.experts_hit)
    hit = sum(count * work.calls * work.experts_hit for count, work, _ in rows) / max(calls, 1)
    return "; ".join([*([f"{hit:,.1f} experts hit in each layer"] if calls else []), *told])


def decode_of(view: View, model: Model, peaks: Peaks) -> Decode | str:
    """The floors of the decode steps whose times are known, or why there are none."""
    table = view.rec.steps
    steps = view.timed_steps(Phase.DECODE)
    steps = steps[(table["rows"][steps] > 0) & (table["requests"][steps] > 0)]
    if not len(steps):
        return "no decode step has both a known time and a known number of rows"
    return decode_with(model, peaks, steps, Counter(_kinds(view, steps)))


def decode_with(model: Model, peaks: Peaks, steps: Array, kinds: Mapping[tuple[int, int, int | None], int]) -> Decode:
    """Floors of these kinds of steps: (rows, requests, key tokens of each) -> how many."""
    found = []
    for (rows, requests, tokens), count in kinds.items():
        batch = Batch(rows, requests, tokens, model.distinct(rows * model.rank.dp), model.sent_bits(rows))
        found.append((count, batch, decode_floor(model.config, model.rank, model.formats, batch, peaks)))
    known = [(count, batch.context) for count, batch, _ in found if batch.context]
    every = sum(kinds.values())
    context = sum(count * tokens for count, tokens in known) / every if len(known) == len(found) else None
    return Decode(steps, tuple(found), context)


def _kinds(view: View, steps: Array) -> Iterator[tuple[int, int, int | None]]:
    """(rows, requests, key tokens of each) of the steps; tokens by their annotations, else by guests in the same window."""
    table = view.rec.steps
    told = window_contexts(view.rec)
    for step in steps.tolist():
        requests, decoding = int(table["requests"][step]), int(table["gen_reqs"][step])
        said = int(table["gen_seq_len_sum"][step])
        mean = said / decoding if said > 0 and decoding > 0 else told.get(decoding)
        yield int(table["rows"][step]), requests, None if mean is None else round(mean)


def part_rows(view: View, decode: Decode) -> list[Seen]:
    """One per family with kernels in these steps, of those that do one thing each."""
    found = []
    inside = view.rows_in(decode.steps) & ~rows_named(view, sampling_softmax(kernel_names(view)))
    for family, names in PARTS.items():
        rows = np.flatnonzero(inside & (view.ex.family == FAMILIES.index(family)))
        if len(rows):
            found.append(_part(view, decode, family, rows, decode.total(names)))
    return found


def _part(view: View, decode: Decode, family: Family, rows: Array, total: FloorPart | None) -> Seen:
    steps, spent = len(decode.steps), view.time_ns(rows)
    observed = spent / steps if spent else None
    least = total.floor_ns / steps if total else None
    lost = {why: None for _, _, floor in decode.batches for name, why in floor.left_out if name in PARTS[family]}
    row = RooflineRow(
        phase=str(Phase.DECODE),
        what=str(family),
        part=True,
        shape=total.what if total else ", ".join(PARTS[family]),
        dtype="",
        count=steps,
        flops=total.flops / steps if total else None,
        bytes=total.bytes / steps if total else None,
        floor_ns=least,
        observed_ns=observed,
        ratio=observed / least if observed and least else None,
        bound_by=total.bound_by if total else "",
        evidence=str(Evidence.KERNELS),
        note=total.note if total else "; ".join(lost) or "the model has no such part",
    )
    return Seen(row, view.kernels_of(rows), total.floor_ns if total else None, spent or None)


def decode_row(decode: Decode, times: tuple[float | None, float | None]) -> DecodeFloorRow:
    """The mean step and its floor; ``times``: of a step, and of that with GPU work, in ns."""
    n = sum(count for count, _, _ in decode.batches)

    def mean(values: Sequence[float]) -> float:
        return sum(count * value for (count, _, _), value in zip(decode.batches, values, strict=True)) / n

    floors = [found for _, _, found in decode.batches]
    names = dict.fromkeys(work.what for found in floors for work, _ in found.rows)
    parts = [part for part in (decode.total((name,)) for name in names) if part]
    return DecodeFloorRow(
        steps=n,
        rows=mean([batch.rows for _, batch, _ in decode.batches]),
        requests=mean([batch.requests for _, batch, _ in decode.batches]),
        context=decode.context,
        bytes=mean([found.bytes for found in floors]),
        floor_ns=mean([found.floor_ns for found in floors]),
        overlapped_ns=mean([found.overlapped_ns for found in floors]),
        step_ns=times[0],
        busy_ns=times[1],
        parts=tuple(
            FloorPart(p.what, round(p.calls / n), p.bytes / n, p.flops / n, p.floor_ns / n, p.bound_by, p.note)
            for p in parts
        ),
        left_out={name: why for found in floors for name, why in found.left_out},
    )


def step_times_ns(view: View, decode: Decode) -> tuple[float | None, float | None]:
    """Mean time of a step, and of that with GPU work."""
    n, windows = len(decode.steps), int(view.time.window_ns[decode.steps].sum())
    return (windows / n, int(view.time.busy_ns[decode.steps].sum()) / n) if windows else (None, None)
