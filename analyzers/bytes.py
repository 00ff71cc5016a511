"""Question 3: what moves on each byte plane, in which dtype and layout, and could metadata move instead?

Every byte count is proven by operator arguments or by the copy engine's records; what neither shows is listed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._basis import basis, removable_share
from m3probe.analyzers._between import Copies, copies_between
from m3probe.analyzers._comm_plane import Comm, comm_plane, inside_collectives
from m3probe.analyzers._compute_plane import compute_lines, direction, transfer_lines
from m3probe.analyzers._ledger_bytes import comm_rows, compute_rows, move_rows, state_rows
from m3probe.analyzers._state_plane import INDEX, KV, State, state_plane
from m3probe.analyzers._tally import View, view
from m3probe.model.executed import executed
from m3probe.model.findings import Bound, Evidence, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BytePlanes, BytesSection, PlaneRow
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, PHASES, Family, Phase


def judge(rec: Recording, so_far: Answer) -> Answer:
    """The three planes and what was found on them."""
    seen = view(rec, executed(rec))
    state = state_plane(seen)
    in_comm = inside_collectives(rec, rec.transfers["launch"])
    in_comm |= np.isin(rec.transfers["name"], [i for i, d in _directions(rec).items() if d.endswith("PtoP")])
    comm = comm_plane(seen)
    copied = transfer_lines(rec, np.flatnonzero(in_comm), " in collectives")
    between = copies_between(seen, state.inserts, state.block_bytes)
    compute = compute_lines(seen, ~in_comm)
    planes = BytePlanes(
        compute=(*compute, *compute_rows(rec)),
        state=(*state.lines, *state_rows(rec), *move_rows(rec)),
        comm=(*comm.lines, *copied, *comm_rows(rec)),
        not_provable=tuple(_not_provable(seen, state, compute, comm, between)),
    )
    trusted = not so_far.hiding
    found = [*_written(seen, state, trusted=trusted), *_comm_copies(rec, in_comm, comm.lines, trusted=trusted)]
    found += _between(seen, between, state, trusted=trusted)
    return Answer((BytesSection(planes),), tuple(found))


ANALYZER = Analyzer(title="What moves on each byte plane?", order=40, judge=judge)


def _directions(rec: Recording) -> dict[int, str]:
    return {i: direction(rec.strings[i]) for i in np.unique(rec.transfers["name"]).tolist()}


def _not_provable(
    seen: View, state: State, compute: tuple[PlaneRow, ...], comm: Comm, between: Copies
) -> Iterator[str]:
    """What this input cannot show, each with its reason."""
    unseen = int(seen.rec.unseen_replays.sum())
    if unseen:
        yield f"all bytes of {unseen:,} graph launches: no kernel records and no census"
    yield from state.untold
    if state.inserts.any() and state.block_bytes is None:
        yield "copies of a KV block between insert and attend: no cache argument shows how large a block is"
    if between.unsized:
        yield f"bytes of {between.unsized:,} copies between insert and attend: no operator shows what they copied"
    if not any(row.what.startswith(INDEX) for row in state.lines) and _ran(seen, Family.INDEXER):
        yield "index cache writes: selectors ran, and no operator shows the index cache"
    if state.scaled or any("fp8" in row.dtype or "mxfp" in row.dtype for row in state.lines):
        yield "layout of FP8 scales: arguments show the scaled data alone"
    if any(row.what.startswith("MoE GEMM") and (not row.dtype or row.dtype.endswith("?")) for row in compute):
        yield "dtype and layout of expert weights: operator and kernel names show activations alone"
    if _ran(seen, Family.ATTENTION) or _ran(seen, Family.SPARSE_ATTENTION):
        yield "bytes read by attention: which pages it read is data, not an argument"
    if not comm.lines and not len(seen.rec.tables["collectives"]):
        yield "communication: no collective in this input; its absence proves nothing about other ranks or other steps"
    if comm.untold:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in comm.untold.most_common())
        yield f"payloads of {comm.untold.total():,} collectives: {reasons}"
    yield from _moves(seen.rec)


def _moves(rec: Recording) -> Iterator[str]:
    if not len(rec.tables["kv_moves"]):
        yield "KV transfer between engines, and offload: no profiler record tells it from any other copy"


def _ran(seen: View, family: Family) -> bool:
    return bool((seen.ran.family == FAMILIES.index(family)).any())


def _written(seen: View, state: State, *, trusted: bool) -> Iterator[Finding]:
    """One fact per phase: bytes written to the caches per step."""
    phases = dict.fromkeys(phase for _, phase in state.per_step)
    for phase in phases:
        told = [(what, *state.per_step[what, phase]) for what in (KV, INDEX) if (what, phase) in state.per_step]
        text = " and ".join(_per_step(what, total, steps) for what, total, steps in told)
        here = np.flatnonzero(state.inserts & (seen.phase == PHASES.index(Phase(phase))))
        hidden = any(row.what == f"{KV}, {phase}" and row.bytes is None for row in state.lines)
        more = "; other writes of this phase are not told" if hidden else ""
        yield Finding(
            id=f"bytes.cache_writes.{phase}",
            question="bytes",
            verdict="measured",
            claim=f"{phase}: {text}{more}",
            where=phase,
            evidence=_shown(seen, here, "launches that write a cache"),
            advice="Compare with layers x rows x heads x head_dim x 2 of the model at this parallel layout.",
            trusted=trusted,
        )


def _per_step(what: str, total: int, steps: int) -> str:
    if not steps:
        return f"{what} {total:,} B"
    return f"{what} {total // steps:,} B per step" if total % steps == 0 else f"{what} {total:,} B in {steps:,} steps"


def _bound(rec: Recording, kernels: Array, transfers: Array) -> Bound | None:
    """At most the step time in which nothing but these copies runs; None where no copy belongs to those steps."""
    base = basis(rec)
    if base is None or not base.chosen(rec, kernels, transfers).any():
        return None
    return removable_share(rec, kernels, base, transfers)


def _comm_copies(rec: Recording, in_comm: Array, comm: tuple[PlaneRow, ...], *, trusted: bool) -> Iterator[Finding]:
    """Copies inside collective operators: staging that a registered or symmetric buffer would spare."""
    table = rec.transfers
    rows = np.flatnonzero(in_comm & (table["kind"] == 0) & (table["payload_bytes"] > 0))
    if not len(rows):
        return
    moved, dur = int(table["payload_bytes"][rows].sum()), table["dur_ns"][rows]
    payload = sum(row.bytes for row in comm if row.bytes is not None)
    beside = f", beside {payload:,} B of payload" if payload else ""
    time_ns = int(dur[dur > 0].sum())
    yield Finding(
        id="bytes.comm_copies",
        question="bytes",
        verdict="moved",
        claim=f"{len(rows):,} copies inside collectives moved {moved:,} B in {time_ns:,} ns{beside}",
        where="communication plane",
        evidence=(evidence("transfers", rows, f"{moved:,} B"),),
        advice="Let the producer write into the collective's buffer, or let the consumer read from it.",
        bound=_bound(rec, np.empty(0, dtype=np.int64), rows),
        trusted=trusted,
    )


def _shown(seen: View, rows: Array, what: str) -> tuple[Evidence, ...]:
    """Rows of what ran as evidence: those recorded, and those that the census alone proves."""
    kernel, census = seen.ran.kernel[rows], seen.ran.census[rows]
    both = (("kernels", kernel[kernel >= 0]), ("graphs", census[kernel < 0]))
    return tuple(evidence(table, ids, f"{len(ids):,} {what}") for table, ids in both if len(ids))


def _between(seen: View, copies: Copies, state: State, *, trusted: bool) -> Iterator[Finding]:
    count = len(copies.transfers) + len(copies.ran)
    if not count:
        return
    kernels = seen.ran.kernel[copies.ran]
    time = f" in {copies.time_ns:,} ns" if copies.time_ns is not None else ""
    moved = evidence("transfers", copies.transfers, f"{len(copies.transfers):,} copies")
    yield Finding(
        id="bytes.metadata_could_move",
        question="bytes",
        verdict="metadata_could_move",
        claim=(
            f"{count:,} copies of at least one KV block ({state.block_bytes:,} B) between cache insert and attend "
            f"moved {copies.nbytes:,} B{time} in {copies.steps:,} steps"
        ),
        where="state plane",
        evidence=((moved,) if moved.count else ()) + _shown(seen, copies.ran, "copy kernels"),
        advice="Hand the attend page ids instead: a block of 128 tokens is eight ids of a 16-token page (vLLM PR 47287).",
        bound=_bound(seen.rec, kernels[kernels != NONE], copies.transfers),
        trusted=trusted,
    )
