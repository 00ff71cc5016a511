"""The compute plane: dtypes of GEMMs and experts as operators and kernel names say, quantisation, and copies."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from m3probe.analyzers._tally import Lines, View, alike, phase_of, phases
from m3probe.analyzers._tensors import arguments, json_list, strides_of
from m3probe.model.recording import Recording
from m3probe.model.report import PlaneRow
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, PHASES, Family

_ROWS = {family: FAMILIES.index(family) for family in (Family.GEMM, Family.MOE_GEMM, Family.QUANT, Family.COPY)}
_TRTLLM = {
    "bfloat16": "bf16",
    "fp16": "fp16",
    "e4m3": "fp8_e4m3",
    "mxe4m3": "mxfp8",
    "e2m1": "nvfp4",
    "mxe2m1": "mxfp4",
}
_MATMUL_OGS = re.compile(r"matmul_ogs_[a-z]+_([a-z]+\d+)x([a-z]+\d+)x([a-z]+\d+)_", re.IGNORECASE)
_TRTLLM_BMM = re.compile(
    r"^bmm_[a-z0-9]+?_((?:mx)?(?:bfloat16|fp16|e4m3|e2m1))((?:mx)?(?:bfloat16|fp16|e4m3|e2m1))?_", re.IGNORECASE
)
_FLYDSL = re.compile(r"_a((?:mx)?fp\d+|bf16|i8)_w((?:mx)?fp\d+|bf16|i8|i4)_", re.IGNORECASE)
# Operators whose weight stands in the arguments: (position of the activation, of the weight, weight is [K, N]).
_WEIGHT_AT = {"mm": (0, 1), "matmul": (0, 1), "addmm": (1, 2), "linear": (0, 1)}


def compute_lines(view: View, moved: Array) -> tuple[PlaneRow, ...]:
    """GEMM, expert, quantisation and copy kernels, then the copies of the engine that ``moved`` marks as compute's."""
    lines, ran = Lines(), view.ran
    for family, index in _ROWS.items():
        rows = np.flatnonzero(ran.family == index)
        for group in alike(rows, ran.name, ran.op, ran.dims, ran.types, ran.strides, view.phase, view.unrecorded):
            _add(view, lines, family, group)
    _transfers(view.rec, np.flatnonzero(moved), lines, "")
    return lines.rows()


def _add(view: View, lines: Lines, family: Family, group: Array) -> None:
    ran, row = view.ran, int(group[0])
    kernel, op = view.text(ran.name, row), view.text(ran.op, row)
    dims, types = view.text(ran.dims, row), view.text(ran.types, row)
    dtype, layout, nbytes = "", "", None
    if family in (Family.GEMM, Family.MOE_GEMM):
        dtype, layout = operand_dtypes(kernel, op, dims, types), weight_layout(op, dims, view.text(ran.strides, row))
    elif family is Family.QUANT:
        dtype = " / ".join(dict.fromkeys(t.dtype for t in arguments(dims, types) if t.shape))
    elif op.rsplit("::", 1)[-1] == "copy_":
        for destination in arguments(dims, types)[:1]:
            nbytes, dtype = destination.nbytes, destination.dtype
            layout = "bytes written, by the operator's destination"
    lines.add(
        f"{_WORDS[family]}, {phase_of(group, view.phase)}", len(group),
        nbytes=None if nbytes is None else nbytes * len(group), time_ns=view.time_ns(group),
        dtype=dtype, layout=layout, evidence=view.evidence(group),
    )  # fmt: skip


_WORDS = {
    Family.GEMM: "GEMM",
    Family.MOE_GEMM: "MoE GEMM",
    Family.QUANT: "quantise",
    Family.COPY: "copy kernel",
}


@lru_cache(maxsize=4096)
def operand_dtypes(kernel: str, op: str, dims: str, types: str) -> str:
    """``activation x weight``; ``?`` for one that neither kernel name nor operator tells, "" when both are unknown.

    A name that holds both wins: an operator around a quantised GEMM shows the unpacked activation. Orders in names:
    triton_kernels output x activation x weight; trtllm-gen output, weight, activation; FlyDSL a.., w...
    """
    if found := _MATMUL_OGS.search(kernel):
        return f"{found[2].lower()} x {found[3].lower()}"
    if found := _TRTLLM_BMM.match(kernel):
        weight = _TRTLLM[found[1].lower()]
        return f"{_TRTLLM[found[2].lower()] if found[2] else weight} x {weight}"
    if found := _FLYDSL.search(kernel):
        return f"{found[1].lower()} x {found[2].lower()}"
    args = arguments(dims, types)
    at = _WEIGHT_AT.get(op.rsplit("::", 1)[-1])
    if at and max(at) < len(args) and args[at[1]].shape:
        return f"{args[at[0]].dtype} x {args[at[1]].dtype}"
    first = next((t for t in args if len(t.shape) > 1), None)
    return f"{first.dtype} x ?" if first else ""


@lru_cache(maxsize=4096)
def weight_layout(op: str, dims: str, strides: str) -> str:
    """Which size of a GEMM's weight is contiguous; "" where the operator does not show it."""
    base = op.rsplit("::", 1)[-1]
    at, args, said = _WEIGHT_AT.get(base), arguments(dims, ""), json_list(strides)
    if at is None or at[1] >= min(len(args), len(said)):
        return ""
    steps = strides_of(said[at[1]])
    if len(args[at[1]].shape) != 2 or len(steps) != 2:
        return ""
    across, along = ("N", "K") if base == "linear" else ("K", "N")
    if steps[1] == 1:
        return f"weight: {along} contiguous"
    return f"weight: {across} contiguous" if steps[0] == 1 else "weight: strided"


def direction(name: str) -> str:
    """``memcpy DtoD`` (HtoD, DtoH, PtoP), ``memcpy``, ``memset``: what a record says of itself."""
    found = re.search(r"\b([DHP])to([DHP])\b", name)
    if found:
        return f"memcpy {found[1]}to{found[2]}"
    return "memset" if name.lower().startswith("memset") else "memcpy"


def _transfers(rec: Recording, rows: Array, lines: Lines, where: str) -> None:
    table = rec.transfers
    phase = phases(rec, table["step"])
    for group in alike(rows, table["name"], phase, table["payload_bytes"] < 0):
        told = bool(table["payload_bytes"][group[0]] >= 0)
        dur = table["dur_ns"][group]
        lines.add(
            f"{direction(rec.strings[int(table['name'][group[0]])])}{where}, {PHASES[int(phase[group[0]])]}",
            len(group),
            nbytes=int(table["payload_bytes"][group].sum()) if told else None,
            time_ns=int(dur[dur >= 0].sum()) if (dur >= 0).any() else None,
            evidence="transfers",
        )


def transfer_lines(rec: Recording, rows: Array, where: str) -> tuple[PlaneRow, ...]:
    """Copies and fills of the copy engine as lines of a plane; bytes None where the trace does not tell them."""
    lines = Lines()
    _transfers(rec, rows, lines, where)
    return lines.rows()
