"""Local shapes of a live recording: each module's local N and K times the rows of counted steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.analyzers._ledger import EVIDENCE, Kind, texts, worker_steps
from m3probe.model.recording import Recording
from m3probe.model.report import ShapeRow

GEMMS = frozenset({"linear", "router"})


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
    """How many modules of the target model hold each local weight; draft models, embeddings and heads apart.

    The LM head is left out: its rows are those that are sampled, which a step's rows do not tell.
    """
    table = rec.tables["modules"]
    columns = [texts(rec, table, name) for name in ("name", "kind", "dtype", "facts")]
    found: Counter[Weight] = Counter()
    for row, (name, kind, dtype, facts) in enumerate(zip(*columns, strict=True)):
        file, n, k = (int(table[c][row]) for c in ("file", "N", "K"))
        if table["draft"][row] == 1 or n <= 0 or k <= 0:
            continue
        label = name.rpartition(".")[2]
        if kind in GEMMS:
            found[Weight(file, "linear", label, n, k, dtype, 1)] += 1
        elif kind == "moe":
            found.update(_experts(file, label, n, k, dtype, _facts(facts)))
    return found


def shape_rows(rec: Recording) -> list[ShapeRow]:
    """One row per (phase, M, weight), counts over all ranks."""
    held, rows = weights(rec), Counter[tuple[str, Weight, int]]()
    for kind in worker_steps(rec):
        for weight, number in held.items():
            if weight.file == kind.file and kind.exact:
                shared = Weight(-1, weight.op, weight.label, weight.N, weight.K, weight.dtype, weight.rows_each)
                rows[kind.phase, shared, kind.padded_rows * weight.rows_each] += number * kind.steps
    return [_row(*key, count) for key, count in rows.items()]


def inexact(rec: Recording) -> list[Kind]:
    """Eager steps of several sizes that were counted together: their M is known as a sum alone."""
    return [kind for kind in worker_steps(rec) if not kind.exact]


def _experts(file: int, label: str, n: int, k: int, dtype: str, facts: dict[str, object]) -> Iterator[Weight]:
    top_k = facts.get("top_k")
    each = top_k if isinstance(top_k, int) and top_k > 0 else 1
    yield Weight(file, "moe", f"{label} w13", n, k, dtype, each)
    second = facts.get("w2")
    if isinstance(second, list) and len(second) == 2 and all(isinstance(v, int) for v in second):
        yield Weight(file, "moe", f"{label} w2", int(second[0]), int(second[1]), dtype, each)


def _row(phase: str, weight: Weight, rows: int, count: int) -> ShapeRow:
    return ShapeRow(
        phase=phase,
        op=weight.op,
        M=rows,
        N=weight.N,
        K=weight.K,
        count=count,
        predicted=None,
        module=weight.label,
        dtype=weight.dtype,
        tile="",
        programs=None,
        units=None,
        k_loops=None,
        grid=None,
        evidence=EVIDENCE,
    )


def _facts(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
