"""GEMM calls of a recording, grouped by phase, operator and shape; and the GEMM kernels whose shape nobody wrote down.

A call is one execution of an operator, however many kernels it launches (a split-K GEMM and its reduction are one).
The census has kernels and no operator rows, and neither have replays: there each kernel that computes is a call, and
one that only finishes belongs to the GEMM before it on its stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from m3probe.analyzers._gemm_ops import GemmShape, is_gemm_op, shapes_of
from m3probe.analyzers._gemm_tiles import finishes_another
from m3probe.analyzers._owners import owners
from m3probe.model.executed import Executed
from m3probe.model.findings import ROWS_SHOWN, evidence
from m3probe.model.findings import Evidence as Shown
from m3probe.model.recording import Recording, Strings
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
_GRID_LIMIT = 2**32  # HIP and CUDA hold a grid's sizes in 32 bits
# Different operators for one thing: linear calls matmul calls mm, and which of them is innermost is PyTorch's choice.
_SAME = {"aten::linear": "aten::mm", "aten::matmul": "aten::mm", "aten::addmm": "aten::mm"}


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls alike in phase, operator, arguments, kernel, grid and evidence.

    ``ids``: the row of ``table`` (kernels or graphs) that stands for each call; ``launched``: rows of kernels of all
    that the calls computed with, reductions included; ``time_ns``: their time, None when none has one.
    """

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
    launched: Array
    time_ns: int | None

    @property
    def count(self) -> int:
        """How many calls."""
        return len(self.ids)

    def shapes(self) -> tuple[GemmShape, ...]:
        """Shapes of one call; () when its operator is no GEMM or does not show them."""
        return shapes_of(self.op, self.dims, self.types) if self.gemm_op else ()

    @property
    def why_unshaped(self) -> str:
        """Why no shape is known."""
        if self.in_graph and self.evidence is Evidence.KERNELS:
            return "replayed from a graph without a census"
        return f"their operator ({self.op}) shows no shape" if self.op else "launched outside any recorded operator"


@dataclass(frozen=True, slots=True)
class GemmGroup:
    """Calls of one shape in one phase; ``shape`` is None where no operator told it (then a call is one kernel)."""

    phase: Phase
    shape: GemmShape | None
    calls: list[Calls] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many calls."""
        return sum(part.count for part in self.calls)

    @property
    def op(self) -> str:
        """Operator of most calls, "" where none is known."""
        ops: Counter[str] = Counter()
        for part in self.calls:
            ops[part.op] += part.count
        return ops.most_common(1)[0][0]

    @property
    def evidence(self) -> Evidence:
        """What rests on the census in part rests on the census."""
        census = any(part.evidence is Evidence.CENSUS for part in self.calls)
        return Evidence.CENSUS if census else Evidence.KERNELS

    def launches(self) -> list[list[Calls]]:
        """The calls by kernel and grid, those of most calls first."""
        found: dict[tuple[str, tuple[int, ...] | None], list[Calls]] = {}
        for part in self.calls:
            found.setdefault((part.kernel, part.grid), []).append(part)
        return sorted(found.values(), key=lambda parts: -sum(part.count for part in parts))


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
    for calls in _alike(rec, ex):
        found = calls.shapes()
        for shape in found:
            key = (calls.phase, _SAME.get(calls.op, calls.op), shape)
            shaped.setdefault(key, GemmGroup(calls.phase, shape)).calls.append(calls)
        if not found:
            place = (calls.phase, calls.op, calls.kernel, calls.grid)
            groups = opaque_moe if calls.moe else opaque
            groups.setdefault(place, GemmGroup(calls.phase, None)).calls.append(calls)
            if not calls.moe:
                why[calls.why_unshaped] += calls.count
    return Gemms(tuple(shaped.values()), tuple(opaque.values()), tuple(opaque_moe.values()), why)


def calls_of(groups: Iterable[GemmGroup]) -> list[Calls]:
    """The calls of all groups, in order."""
    return [part for group in groups for part in group.calls]


def evidence_of(calls: Sequence[Calls], observed: str, expected: str = "") -> tuple[Shown, ...]:
    """All these calls as evidence: one entry for those recorded, one for those that the census alone proves.

    The rows shown are the first of each kind of calls, so that they stand for as many kinds as there is room for.
    """
    found = []
    for table in dict.fromkeys(part.table for part in calls):
        ids = [part.ids for part in calls if part.table == table]
        first = np.concatenate([*(part[:1] for part in ids), *(part[1:ROWS_SHOWN] for part in ids)])
        shown = list(dict.fromkeys(first.tolist()))
        found.append(evidence(table, shown, observed, expected, count=sum(len(part) for part in ids)))
    return tuple(found)


def _alike(rec: Recording, ex: Executed) -> Iterator[Calls]:
    strings = rec.strings
    gemm_op = _marked(ex.op, strings, is_gemm_op)
    router = _marked(ex.name, strings, lambda name: "router_gemm" in name)
    chosen = np.flatnonzero(gemm_op | router | (ex.family == _GEMM) | (ex.family == _MOE))
    rows, gemm_op = ex.at(chosen), gemm_op[chosen]
    computes = _COMPUTES[rows.family]
    owner = owners(rec, rows, gemm_op, computes, _marked(rows.name, strings, finishes_another))
    calls = np.flatnonzero(owner == np.arange(len(owner)))
    recorded, census = rows.kernel != NONE, rows.census != NONE
    in_graph = census.copy()
    in_graph[recorded] |= rec.kernels["in_graph"][rows.kernel[recorded]]
    words = (rows.op, rows.dims, rows.types, rows.name)
    phase = _phase(rec, rows)
    columns = (phase, rows.grid, *words, census, recorded, in_graph, gemm_op, rows.family == _MOE)
    parts = [calls[part] for part in _equal(*(column[calls] for column in columns))]
    for part, belong in zip(parts, _members(parts, owner), strict=True):
        first = part[0]
        op, dims, types, kernel = (strings[int(ids[first])] for ids in words)
        members = belong[rows.kernel[belong] != NONE]
        known = rows.dur_ns[members] >= 0
        yield Calls(
            phase=PHASES[int(phase[first])],
            evidence=Evidence.CENSUS if census[first] else Evidence.KERNELS,
            table="kernels" if recorded[first] else "graphs",
            op=op,
            dims=dims,
            types=types,
            kernel=kernel,
            grid=_grid(rec, int(rows.grid[first])),
            gemm_op=bool(gemm_op[first]),
            moe=bool(rows.family[first] == _MOE),
            in_graph=bool(in_graph[first]),
            ids=(rows.kernel if recorded[first] else rows.census)[part],
            launched=rows.kernel[members],
            time_ns=int(rows.dur_ns[members][known].sum()) if known.any() else None,
        )


def _grid(rec: Recording, row: int) -> tuple[int, ...] | None:
    """A launch grid; None where none was recorded, and where what was recorded starts no workgroup or is none."""
    grid = rec.dims[row] if row != NONE else ()
    return grid if 0 < len(grid) <= 3 and all(0 < n < _GRID_LIMIT for n in grid) else None


def _members(parts: Sequence[Array], owner: Array) -> list[Array]:
    """For each group of calls the rows that belong to them."""
    group = np.full(len(owner) + 1, NONE)  # the last answers for rows that belong to no call
    for i, part in enumerate(parts):
        group[part] = i
    of = group[owner]
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(len(parts) + 1))
    return [order[edges[i] : edges[i + 1]] for i in range(len(parts))]


def _marked(ids: Array, strings: Strings, test: Callable[[str], bool]) -> Array:
    """``test`` of every row's text, asked once per distinct id; False for rows without one."""
    distinct, place = np.unique(ids, return_inverse=True)
    marks = np.array([i != NONE and test(strings[i]) for i in distinct.tolist()], dtype=bool)
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
