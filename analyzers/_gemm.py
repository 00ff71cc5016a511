"""GEMM calls of a recording, grouped by phase, operator and shape; and the GEMM kernels whose shape nobody wrote down.

A call is one execution of an operator, however many kernels it launches (a split-K GEMM and its reduction are one).
The census has kernels and no operator rows: there each kernel that computes counts, those that only finish do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from m3probe.analyzers._gemm_ops import GemmShape, is_gemm_op, shapes_of
from m3probe.analyzers._gemm_tiles import finishes_another
from m3probe.model.executed import Executed
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, PHASES, Evidence, Family, Phase

_GEMM = FAMILIES.index(Family.GEMM)
_MOE = FAMILIES.index(Family.MOE_GEMM)
# Families whose kernels inside a GEMM operator can be the GEMM itself (a router GEMM is moe_route); the rest prepare
# operands: copies, quantisation, bias.
_COMPUTES = np.isin(
    np.arange(len(FAMILIES)),
    [FAMILIES.index(f) for f in (Family.GEMM, Family.MOE_GEMM, Family.MOE_ROUTE, Family.OTHER, Family.UNKNOWN)],
)
# Different operators for one thing: linear calls matmul calls mm, and which of them is innermost is PyTorch's choice.
_SAME = {"aten::linear": "aten::mm", "aten::matmul": "aten::mm", "aten::addmm": "aten::mm"}
ROWS_KEPT = 5


@dataclass(slots=True)
class GemmGroup:
    """Calls of one shape in one phase.

    ``shape`` is None where no operator told it (then a call is one kernel); ``time_ns`` sums all kernels of the calls
    that have a time, None when none has; ``rows`` are a few rows of ``table`` (kernels or graphs).
    """

    phase: Phase
    shape: GemmShape | None
    evidence: Evidence
    table: str
    count: int = 0
    time_ns: int | None = None
    rows: list[int] = field(default_factory=list)
    kernels: Counter[tuple[str, tuple[int, ...] | None]] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)

    @property
    def op(self) -> str:
        """Operator of most calls, "" where none is known."""
        return self.ops.most_common(1)[0][0]

    @property
    def kernel(self) -> str:
        """Name of the kernel that most calls ran."""
        return self.kernels.most_common(1)[0][0][0]

    @property
    def grid(self) -> tuple[int, ...] | None:
        """Workgroups of the launch that most calls made; None when not recorded."""
        return self.kernels.most_common(1)[0][0][1]


@dataclass(frozen=True, slots=True)
class Gemms:
    """``shaped``: what the histogram shows; ``opaque``: calls without a shape, by phase, operator, kernel and grid.

    ``opaque_moe`` are grouped GEMMs without a shape; ``why`` counts the calls of ``opaque`` by reason.
    """

    shaped: tuple[GemmGroup, ...]
    opaque: tuple[GemmGroup, ...]
    opaque_moe: tuple[GemmGroup, ...]
    why: Counter[str]


def gemms(rec: Recording, ex: Executed) -> Gemms:
    """All GEMM calls that the evidence proves."""
    shaped: dict[object, GemmGroup] = {}
    opaque: dict[object, GemmGroup] = {}
    opaque_moe: dict[object, GemmGroup] = {}
    why: Counter[str] = Counter()
    for alike in _alike(rec, ex):
        found = alike.shapes()
        for shape in found:
            key = (alike.phase, _SAME.get(alike.op, alike.op), shape)
            alike.add_to(shaped, key, shape, alike.time_ns if len(found) == 1 else None)
        if not found:
            place = (alike.phase, alike.op, alike.kernel, alike.grid)
            alike.add_to(opaque_moe if alike.moe else opaque, place, None, alike.time_ns)
            if not alike.moe:
                why[alike.why_unshaped] += len(alike.ids)
    return Gemms(tuple(shaped.values()), tuple(opaque.values()), tuple(opaque_moe.values()), why)


@dataclass(frozen=True, slots=True)
class _Alike:
    """Calls alike in phase, operator, arguments, kernel, grid and evidence."""

    phase: Phase
    evidence: Evidence
    table: str
    op: str
    dims: str
    types: str
    kernel: str
    grid: tuple[int, ...] | None
    gemm_op: bool
    moe: bool
    in_graph: bool
    ids: Array
    time_ns: int | None

    def shapes(self) -> tuple[GemmShape, ...]:
        """Shapes of one call; () when its operator is no GEMM or does not show them."""
        return shapes_of(self.op, self.dims, self.types) if self.gemm_op else ()

    @property
    def why_unshaped(self) -> str:
        if self.in_graph and self.evidence is Evidence.KERNELS:
            return "replayed from a graph without a census"
        return f"their operator ({self.op}) shows no shape" if self.op else "launched outside any recorded operator"

    def add_to(
        self, groups: dict[object, GemmGroup], key: object, shape: GemmShape | None, time_ns: int | None
    ) -> None:
        """Merge into the group of ``key``; what rests on the census in part rests on the census."""
        group = groups.setdefault(key, GemmGroup(self.phase, shape, self.evidence, self.table))
        group.count += len(self.ids)
        group.ops[self.op] += len(self.ids)
        group.kernels[self.kernel, self.grid] += len(self.ids)
        if self.evidence is Evidence.CENSUS:
            group.evidence = Evidence.CENSUS
        if time_ns is not None:
            group.time_ns = (group.time_ns or 0) + time_ns
        if self.table == group.table:
            group.rows = sorted([*group.rows, *self.ids[:ROWS_KEPT].tolist()])[:ROWS_KEPT]


def _alike(rec: Recording, ex: Executed) -> Iterator[_Alike]:
    texts = rec.strings.texts
    gemm_op = _marked(ex.op, texts, is_gemm_op)
    router = _marked(ex.name, texts, lambda name: "router_gemm" in name)
    chosen = np.flatnonzero(gemm_op | router | (ex.family == _GEMM) | (ex.family == _MOE))
    rows, gemm_op = ex.at(chosen), gemm_op[chosen]
    calls, time_ns = _calls(rec, rows, gemm_op, _marked(rows.name, texts, finishes_another))
    rows, gemm_op = rows.at(calls), gemm_op[calls]
    recorded, census = rows.kernel != NONE, rows.census != NONE
    in_graph = census.copy()
    in_graph[recorded] |= rec.kernels["in_graph"][rows.kernel[recorded]]
    words = (rows.op, rows.dims, rows.types, rows.name)
    flags = (census, recorded, in_graph, gemm_op, rows.family == _MOE)
    for part in _equal(_phase(rec, rows), rows.grid, *words, *flags):
        first = part[0]
        known = time_ns[part] >= 0
        op, dims, types, kernel = (texts[ids[first]] if ids[first] >= 0 else "" for ids in words)
        grid = rec.dims[int(rows.grid[first])] if rows.grid[first] >= 0 else None
        yield _Alike(
            phase=PHASES[int(_phase(rec, rows.at(part[:1]))[0])],
            evidence=Evidence.CENSUS if census[first] else Evidence.KERNELS,
            table="kernels" if recorded[first] else "graphs",
            op=op,
            dims=dims,
            types=types,
            kernel=kernel,
            grid=grid,
            gemm_op=bool(gemm_op[first]),
            moe=bool(rows.family[first] == _MOE),
            in_graph=bool(in_graph[first]),
            ids=(rows.kernel if recorded[first] else rows.census)[part],
            time_ns=int(time_ns[part][known].sum()) if known.any() else None,
        )


def _marked(ids: Array, texts: list[str], test: Callable[[str], bool]) -> Array:
    """``test`` of every row's text, asked once per distinct id; False for rows without one."""
    distinct, place = np.unique(ids, return_inverse=True)
    marks = np.array([i >= 0 and test(texts[i]) for i in distinct.tolist()], dtype=bool)
    return marks[place]


def _phase(rec: Recording, rows: Executed) -> Array:
    """Index into PHASES of each row; unknown outside all steps."""
    found = np.full(len(rows), PHASES.index(Phase.UNKNOWN), dtype=np.int64)
    inside = rows.step >= 0
    found[inside] = rec.steps["phase"][rows.step[inside]]
    return found


def _equal(*columns: Array) -> Iterator[Array]:
    """Row indices of each distinct combination of the columns' values, ascending."""
    keys = np.stack([column.astype(np.int64) for column in columns], axis=1)
    if not len(keys):
        return
    order = np.lexsort(keys.T[::-1])
    cuts = np.flatnonzero((keys[order][1:] != keys[order][:-1]).any(axis=1)) + 1
    yield from np.split(order, cuts)


def _calls(rec: Recording, rows: Executed, gemm_op: Array, finishes: Array) -> tuple[Array, Array]:
    """Rows that stand for one call each, ascending, and the time of the whole call (-1: none known)."""
    op_row = np.full(len(rows), NONE, dtype=np.int64)
    recorded = (rows.census == NONE) & (rows.kernel != NONE)
    op_row[recorded] = rec.kernels["op"][rows.kernel[recorded]]
    computes = _COMPUTES[rows.family] & ~finishes
    by_op = gemm_op & (op_row != NONE)
    # An operator's kernel that computes stands for the call, whatever it launched before; stable, so in launch order.
    order = np.flatnonzero(by_op)
    order = order[np.lexsort((~computes[order], op_row[order]))]
    _, first, place = np.unique(op_row[order], return_index=True, return_inverse=True)
    timed = rows.dur_ns[order] >= 0
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, place[timed], rows.dur_ns[order][timed])
    total[np.bincount(place[timed], minlength=len(first)) == 0] = NONE
    real = computes[order[first]]
    single = np.flatnonzero(~by_op & computes)
    calls = np.concatenate([order[first][real], single])
    times = np.concatenate([total[real], rows.dur_ns[single]])
    sort = np.argsort(calls, kind="stable")
    return calls[sort], times[sort]
