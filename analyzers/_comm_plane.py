"""The communication plane: collectives by kernel and operator, their payloads, and the copies they make."""

from __future__ import annotations

import re
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
_HOST_ONLY = re.compile(r"shm_|c10d::|record_param_comms")


@dataclass(frozen=True, slots=True)
class Payload:
    """What one collective carries, as its rank sees it: input bytes (None: not told), dtype, ranks (None)."""

    what: str
    nbytes: int | None
    dtype: str
    ranks: int | None


def comm_lines(view: View) -> tuple[PlaneRow, ...]:
    """Collectives that ran on the device; host operators where no communication kernel was recorded."""
    lines, ran = Lines(), view.ran
    rows = np.flatnonzero(ran.family == _COMM)
    source = _op_rows(view)
    for group in alike(
        rows, ran.name, ran.op, ran.dims, ran.types, view.phase, view.unrecorded, *_collective_columns(view, source)
    ):
        row = int(group[0])
        payload = _payload_of(view, row, int(source[row]))
        backend = classify(view.text(ran.name, row)).category
        lines.add(
            f"{payload.what} ({backend}), {phase_of(group, view.phase)}", len(group),
            nbytes=None if payload.nbytes is None else payload.nbytes * len(group), time_ns=view.time_ns(group),
            dtype=payload.dtype, layout=_said(payload), evidence=view.evidence(group),
        )  # fmt: skip
    if not len(rows):
        _host_collectives(view, lines)
    return lines.rows()


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


def _collective_columns(view: View, source: Array) -> list[Array]:
    ops = view.rec.ops
    if not len(ops):
        return []
    keys = ("collective", "payload_elems", "payload_dtype", "group_size")
    return [np.where(source == NONE, NONE, ops[key][np.maximum(source, 0)]) for key in keys]


def _payload_of(view: View, row: int, op: int) -> Payload:
    ran = view.ran
    if op != NONE:
        said = said_by_collective(view.rec, op)
        if said is not None:
            return said
    name, kernel = view.text(ran.op, row), view.text(ran.name, row)
    return payload_from(name, view.text(ran.dims, row), view.text(ran.types, row)) or Payload(
        _kernel_word(kernel), None, "", None
    )


def said_by_collective(rec: Recording, op: int) -> Payload | None:
    """Payload of an operator that writes collective, elements and dtype (record_param_comms)."""
    ops = rec.ops
    elements = int(ops["payload_elems"][op])
    if ops["collective"][op] == NONE or elements <= 0:
        return None
    word = rec.strings[int(ops["payload_dtype"][op])] if ops["payload_dtype"][op] != NONE else ""
    dtype, size = dtype_of(word)
    ranks = int(ops["group_size"][op])
    name = rec.strings[int(ops["collective"][op])].strip("_")
    return Payload(name, elements * size if size else None, dtype, ranks if ranks > 0 else None)


def payload_from(op: str, dims: str, types: str) -> Payload | None:
    """Payload from the first tensor argument of an operator that is a collective by its name."""
    if not _COLLECTIVE.search(op):
        return None
    first = next((t for t in arguments(dims, types) if t.shape), None)
    what = op.rsplit("::", 1)[-1].strip("_")
    return Payload(what, first.nbytes if first else None, first.dtype if first else "", None)


def _kernel_word(kernel: str) -> str:
    found = _COLLECTIVE.search(kernel)
    return found[0].lower() if found else "collective"


def _host_collectives(view: View, lines: Lines) -> None:
    """Operators of a trace without communication kernels (CPU groups): payloads, and no device time."""
    rec = view.rec
    texts = rec.strings.texts
    names = np.unique(rec.ops["name"])
    wanted = [i for i in names.tolist() if _HOST_ONLY.search(texts[i]) and _COLLECTIVE.search(texts[i])]
    rows = np.flatnonzero(np.isin(rec.ops["name"], wanted))
    for group in alike(rows, rec.ops["name"], rec.ops["dims"], rec.ops["types"]):
        row = int(group[0])
        dims, types = (texts[int(rec.ops[k][row])] if rec.ops[k][row] != NONE else "" for k in ("dims", "types"))
        payload = payload_from(texts[int(rec.ops["name"][row])], dims, types)
        if payload is not None and payload.nbytes is not None:
            lines.add(
                f"{payload.what} (host)", len(group), nbytes=payload.nbytes * len(group), dtype=payload.dtype,
                layout="ranks not told", evidence="ops",
            )  # fmt: skip


def inside_collectives(rec: Recording, launches: Array) -> Array:
    """Mask over launches (rows, -1 allowed): those that a collective operator encloses on their thread."""
    ops, texts = rec.ops, rec.strings.texts
    inside = np.zeros(len(launches), dtype=bool)
    names = [i for i in np.unique(ops["name"]).tolist() if _COLLECTIVE.search(texts[i])]
    rows = np.flatnonzero(np.isin(ops["name"], names))
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
