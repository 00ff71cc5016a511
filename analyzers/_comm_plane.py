"""The communication plane: collectives by kernel and operator, their payloads, and the copies they make.

A payload is what this rank puts in. It is read from ``record_param_comms`` (elements and dtype, or its first tensor:
PyTorch hands it the inputs), else from the arguments of the collective's operator.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._tally import Lines, View, alike, phase_of
from m3probe.analyzers._tensors import arguments, dtype_of
from m3probe.kernels.grammar import classify
from m3probe.model.recording import Recording
from m3probe.model.report import PlaneRow
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, Family

_COMM = FAMILIES.index(Family.COMM)
_COLLECTIVE = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|symm_mem|_collective", re.IGNORECASE
)
_HOST_ONLY = re.compile(r"shm_|c10d::")
_RECORDS = "record_param_comms"
# c10d::_allgather_base_, _reduce_scatter_base_ and alltoall_base_ take (output, input, ...), every other form its input.
_OUTPUT_FIRST = re.compile(r"(all_?gather|reduce_?scatter|all_?to_?all)_base", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Payload:
    """What one collective carries, as its rank sees it: input bytes (None: not told), dtype, ranks (None)."""

    what: str
    nbytes: int | None
    dtype: str
    ranks: int | None


@dataclass(frozen=True, slots=True)
class Comm:
    """``lines`` of the plane; ``untold``: collectives without a payload, counted by reason."""

    lines: tuple[PlaneRow, ...]
    untold: Counter[str]


def comm_plane(view: View) -> Comm:
    """Collectives that ran on the device; host operators where no communication kernel was recorded."""
    lines, ran = Lines(), view.ran
    untold: Counter[str] = Counter()
    rows = np.flatnonzero(ran.family == _COMM)
    own = _op_rows(view)
    around = _collective_around(view.rec, own, rows)
    words = (ran.name, ran.op, ran.dims, ran.types, ran.launch == NONE, view.replayed, view.phase, view.unrecorded)
    for group in alike(rows, *words, *_columns(view.rec, own, _SAID), *_columns(view.rec, around, _ARGUMENTS)):
        row = int(group[0])
        payload = _payload_of(view, row, int(own[row]), int(around[row]))
        if payload.nbytes is None:
            untold[_why(view, row, int(around[row]))] += len(group)
        backend = classify(view.text(ran.name, row)).category
        lines.add(
            f"{payload.what} ({backend}), {phase_of(group, view.phase)}", len(group),
            nbytes=None if payload.nbytes is None else payload.nbytes * len(group), time_ns=view.time_ns(group),
            dtype=payload.dtype, layout=_said(payload), evidence=view.evidence(group),
        )  # fmt: skip
    if not len(rows):
        _host_collectives(view, lines)
    return Comm(lines.rows(), untold)


_SAID = ("collective", "payload_elems", "payload_dtype", "group_size")
_ARGUMENTS = ("name", "dims", "types")


def _said(payload: Payload) -> str:
    each = "payload not told" if payload.nbytes is None else f"{payload.nbytes:,} B a call"
    return f"{each}, {payload.ranks} ranks" if payload.ranks else f"{each}, ranks not told"


def _op_rows(view: View) -> Array:
    """Row of ops of each execution, -1 for census rows and unlinked kernels."""
    kernel = view.ran.kernel
    if not len(view.rec.kernels):
        return np.full(len(kernel), NONE)
    found: Array = np.where(kernel == NONE, NONE, view.rec.kernels["op"][np.maximum(kernel, 0)])
    return found


def _columns(rec: Recording, source: Array, keys: tuple[str, ...]) -> list[Array]:
    if not len(rec.ops):
        return []
    return [np.where(source == NONE, NONE, rec.ops[key][np.maximum(source, 0)]) for key in keys]


def _payload_of(view: View, row: int, op: int, around: int) -> Payload:
    """By record_param_comms' own words, its first tensor, the innermost operator, the collective around it."""
    ran = view.ran
    said = said_by_collective(view.rec, op) if op != NONE else None
    if said is not None:
        return said
    name, dims, types = (view.text(column, row) for column in (ran.op, ran.dims, ran.types))
    outer = payload_from(*_op_text(view.rec, around)) if around != NONE else None
    if name == _RECORDS:
        first = next((t for t in arguments(dims, types) if t.nbytes is not None), None)
        what = outer.what if outer else _kernel_word(view.text(ran.name, row))
        if first is not None:
            return Payload(what, first.nbytes, first.dtype, None)
    unknown = Payload(_kernel_word(view.text(ran.name, row)), None, "", None)
    return payload_from(name, dims, types) or outer or unknown


def _op_text(rec: Recording, op: int) -> tuple[str, str, str]:
    """(name, dims, types) of an operator; "" where one was not recorded."""
    name, dims, types = (rec.strings[int(rec.ops[key][op])] for key in _ARGUMENTS)
    return name, dims, types


def _why(view: View, row: int, around: int) -> str:
    """Why a collective has no payload."""
    if around == NONE:
        return view.why_silent(row)
    return f"inside {view.rec.strings[int(view.rec.ops['name'][around])]}, which shows no size"


def said_by_collective(rec: Recording, op: int) -> Payload | None:
    """Payload of an operator that writes collective, elements and dtype (record_param_comms)."""
    ops = rec.ops
    elements = int(ops["payload_elems"][op])
    if ops["collective"][op] == NONE or elements <= 0:
        return None
    dtype, size = dtype_of(rec.strings[int(ops["payload_dtype"][op])])
    ranks = int(ops["group_size"][op])
    name = rec.strings[int(ops["collective"][op])].strip("_")
    return Payload(name, elements * size if size else None, dtype, ranks if ranks > 0 else None)


def payload_from(op: str, dims: str, types: str) -> Payload | None:
    """Payload from the first tensor argument of an operator that is a collective by its name."""
    if not _COLLECTIVE.search(op):
        return None
    args = arguments(dims, types)[1 if _OUTPUT_FIRST.search(op) else 0 :]
    first = next((t for t in args if t.shape), None)
    what = op.rsplit("::", 1)[-1].strip("_")
    return Payload(what, first.nbytes if first else None, first.dtype if first else "", None)


def _kernel_word(kernel: str) -> str:
    found = _COLLECTIVE.search(kernel)
    return found[0].lower() if found else "collective"


def _host_collectives(view: View, lines: Lines) -> None:
    """Operators of a trace without communication kernels (CPU groups): payloads, and no device time."""
    rec = view.rec
    strings = rec.strings
    wanted = [i for i in _collective_names(rec) if _HOST_ONLY.search(strings[i])]
    rows = np.flatnonzero(np.isin(rec.ops["name"], wanted))
    for group in alike(rows, rec.ops["name"], rec.ops["dims"], rec.ops["types"]):
        row = int(group[0])
        payload = payload_from(*_op_text(rec, row))
        if payload is not None and payload.nbytes is not None:
            lines.add(
                f"{payload.what} (host)", len(group), nbytes=payload.nbytes * len(group), dtype=payload.dtype,
                layout="ranks not told", evidence="ops",
            )  # fmt: skip


def _collective_names(rec: Recording) -> list[int]:
    """Ids of operator names that are a collective's."""
    return [i for i in np.unique(rec.ops["name"]).tolist() if _COLLECTIVE.search(rec.strings[i])]


def _collective_around(rec: Recording, source: Array, rows: Array) -> Array:
    """For each op row in ``source[rows]`` the innermost collective operator that encloses it or is it; -1 elsewhere."""
    ops = rec.ops
    found = np.full(len(source), NONE, dtype=np.int64)
    asked = rows[source[rows] != NONE]
    outer = np.flatnonzero(np.isin(ops["name"], _collective_names(rec)))
    if not len(asked) or not len(outer):
        return found
    inner, place = np.unique(source[asked], return_inverse=True)
    both = np.concatenate([outer, inner])
    answer = np.full(len(inner), NONE, dtype=np.int64)
    for thread in alike(np.arange(len(both)), *(ops[key][both] for key in ("file", "pid", "tid"))):
        mine, theirs = thread[thread >= len(outer)] - len(outer), both[thread[thread < len(outer)]]
        answer[mine] = _innermost(rec, inner[mine], theirs)
    found[asked] = answer[place]
    return found


def _innermost(rec: Recording, inner: Array, outer: Array) -> Array:
    """Of ``outer`` (op rows of one thread, properly nested) the last begun that still runs at each inner's start."""
    start, dur = rec.ops["start_ns"], rec.ops["dur_ns"]
    outer = outer[np.lexsort((-dur[outer], start[outer]))]
    at = np.searchsorted(start[outer], start[inner], side="right") - 1
    while True:
        past = (at >= 0) & ((start + dur)[outer[np.maximum(at, 0)]] < (start + dur)[inner])
        if not past.any():
            break
        at[past] -= 1
    return np.where(at >= 0, outer[np.maximum(at, 0)], NONE) if len(outer) else np.full(len(inner), NONE)


def inside_collectives(rec: Recording, launches: Array) -> Array:
    """Mask over launches (rows, -1 allowed): those that a collective operator encloses on their thread."""
    ops = rec.ops
    inside = np.zeros(len(launches), dtype=bool)
    rows = np.flatnonzero(np.isin(ops["name"], _collective_names(rec)))
    if not len(rows) or not len(launches):
        return inside
    known = np.flatnonzero(launches != NONE)
    at = launches[known]
    for group in alike(rows, ops["file"], ops["pid"], ops["tid"]):
        first = int(group[0])
        mine = np.ones(len(known), dtype=bool)
        for key in ("file", "pid", "tid"):
            mine &= rec.launches[key][at] == ops[key][first]
        order = group[np.argsort(ops["start_ns"][group], kind="stable")]
        ends = np.maximum.accumulate(ops["start_ns"][order] + ops["dur_ns"][order])
        start = rec.launches["start_ns"][at[mine]]
        place = np.searchsorted(ops["start_ns"][order], start, side="right") - 1
        inside[known[mine]] = (place >= 0) & (start < ends[np.maximum(place, 0)])
    return inside
