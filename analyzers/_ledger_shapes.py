"""Local shapes of a live recording: each module's local N and K times the rows of counted steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from m3probe.analyzers._gemm_ops import GROUPED, LINEAR
from m3probe.analyzers._ledger import Kind, counts, facts_of, texts, worker_steps
from m3probe.model.m3_shapes import illegal_reason, local_shapes
from m3probe.model.recording import Recording
from m3probe.model.report import ShapeRow
from m3probe.model.tables import NONE
from m3probe.schema.verdicts import Evidence

GEMMS = frozenset({"linear", "router"})
HEAD = "lm_head"


@dataclass(frozen=True, slots=True)
class Weight:
    """Modules of one process that share a local weight shape."""

    file: int
    op: str
    label: str
    N: int
    K: int
    dtype: str
    rows_each: int
    """Rows of the GEMM for one row of the step: top-k of routed experts, else 1."""


def weights(rec: Recording) -> Counter[Weight]:
    """How many modules of the target model hold each local weight; draft models and embeddings apart.

    Experts that are spread over ranks are left out: how many of a step's rows reach this rank is routing's to tell.
    """
    table = rec.tables["modules"]
    columns = [texts(rec, table, name) for name in ("name", "kind", "dtype", "facts")]
    found: Counter[Weight] = Counter()
    for row, (name, kind, dtype, facts) in enumerate(zip(*columns, strict=True)):
        file, n, k = (int(table[c][row]) for c in ("file", "N", "K"))
        if table["draft"][row] == 1 or n <= 0 or k <= 0:
            continue
        label = name.rpartition(".")[2]
        if kind in GEMMS or kind == HEAD:
            found[Weight(file, LINEAR, HEAD if kind == HEAD else label, n, k, dtype, 1)] += 1
        elif kind == "moe":
            found.update(_experts(file, label, n, k, dtype, facts_of(facts)))
    return found


def shape_rows(rec: Recording) -> list[ShapeRow]:
    """One row per (phase, M, weight), counts over all ranks."""
    held, rows = weights(rec), Counter[tuple[str, Weight, int]]()
    for kind in worker_steps(rec):
        for weight, number in held.items():
            if weight.file == kind.file and (_samples_every_row(kind) if weight.label == HEAD else kind.exact):
                shared = Weight(NONE, weight.op, weight.label, weight.N, weight.K, weight.dtype, weight.rows_each)
                rows[kind.phase, shared, kind.padded_rows * weight.rows_each] += number * kind.steps
    known = _predicted(rec)
    return [_row(*key, count, known) for key, count in rows.items()]


def _samples_every_row(kind: Kind) -> bool:
    """The head multiplies rows that are sampled: all of them in an eager step of one size with a row for each request."""
    return kind.exact and kind.descriptor == NONE and kind.rows == kind.requests


def _predicted(rec: Recording) -> dict[str, set[tuple[int, int]]] | None:
    """(N, K) by kind that the model has at this tensor parallel size; None where its shapes are not known."""
    config, tp, ep = rec.meta.model, rec.meta.tp, rec.meta.ep or 1
    if config is None or tp is None or illegal_reason(config, tp, ep):
        return None
    found: dict[str, set[tuple[int, int]]] = {LINEAR: set(), GROUPED: set()}
    for fused in (False, True):
        for gemm in local_shapes(config, tp, ep, fuse_shared_experts=fused):
            found[LINEAR if gemm.kind == "linear" else GROUPED].add(gemm.pair)
    return found


def _experts(file: int, label: str, n: int, k: int, dtype: str, facts: dict[str, Any]) -> Iterator[Weight]:
    if not counts(facts, "top_k") or (counts(facts, "ep_size") and facts["ep_size"] > 1):
        return
    each = facts["top_k_with_shared"] if counts(facts, "top_k_with_shared") else facts["top_k"]
    yield Weight(file, GROUPED, f"{label} w13", n, k, dtype, each)
    second = facts.get("w2")
    if isinstance(second, list) and len(second) == 2 and all(isinstance(v, int) for v in second):
        yield Weight(file, GROUPED, f"{label} w2", second[0], second[1], dtype, each)


def _row(phase: str, weight: Weight, rows: int, count: int, known: dict[str, set[tuple[int, int]]] | None) -> ShapeRow:
    return ShapeRow(
        phase=phase,
        op=weight.op,
        M=rows,
        N=weight.N,
        K=weight.K,
        count=count,
        predicted=None if known is None else (weight.N, weight.K) in known[weight.op],
        module=weight.label,
        dtype=weight.dtype,
        tile="",
        programs=None,
        units=None,
        k_loops=None,
        grid=None,
        evidence=str(Evidence.LEDGER),
    )
