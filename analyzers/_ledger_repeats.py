"""What repeats in a live recording: modules a step, collectives a step, and how steps were replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from m3probe.analyzers._ledger import texts, worker_steps
from m3probe.analyzers._ledger_comm import collectives
from m3probe.model.recording import Recording
from m3probe.model.repeat_report import CoverageRow, RepeatRow
from m3probe.schema.verdicts import Evidence, Family

OF_KIND = {
    "linear": Family.GEMM,
    "router": Family.MOE_ROUTE,
    "moe": Family.MOE_GEMM,
    "attention": Family.ATTENTION,
    "norm": Family.NORM,
}
"""A module of this kind is called once in a step; how many kernels that takes only a kernel window tells."""


def repeat_rows(rec: Recording) -> Iterator[RepeatRow]:
    """Calls of modules per step, and of collectives, by phase."""
    steps = Counter[tuple[int, str]]()
    for kind in worker_steps(rec):
        steps[kind.file, kind.phase] += kind.steps
    modules, inside, layers = _modules(rec)
    for phase in dict.fromkeys(phase for _file, phase in steps):
        files = [file for file, of in steps if of == phase]
        number = sum(steps[file, phase] for file in files)
        for family in dict.fromkeys(family for file, family in modules if file in files):
            total = sum(modules[file, family] * steps[file, phase] for file in files)
            of_layers = sum(inside[file, family] * steps[file, phase] for file in files)
            each = of_layers / number / layers[family] if family in layers else None
            yield RepeatRow(phase, family, total / number, each, None, None, str(Evidence.LEDGER))
        calls = sum(c.calls for c in collectives(rec) if c.phase == phase)
        if calls:
            yield RepeatRow(phase, str(Family.COMM), calls / number, None, None, None, str(Evidence.CALLS))


def coverage_rows(rec: Recording) -> Iterator[CoverageRow]:
    """Steps by graph mode; output tokens are not told by a step's rows where drafts are verified."""
    steps, rows = Counter[str](), Counter[str]()
    for kind in worker_steps(rec):
        steps[kind.mode] += kind.steps
        rows[kind.mode] += kind.rows
    ranks = max(len({kind.file for kind in worker_steps(rec)}), 1)
    for mode, number in steps.items():
        yield CoverageRow(
            graph_mode=mode,
            steps=number // ranks,
            step_share=number / steps.total(),
            row_share=rows[mode] / rows.total() if rows.total() else None,
            token_share=None,
        )


def _modules(rec: Recording) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]], dict[str, int]]:
    """(file, family) -> modules, and those that stand in a layer; family -> layers that hold one."""
    table = rec.tables["modules"]
    found, inside = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    layers: dict[str, set[int]] = {}
    for row, kind in enumerate(texts(rec, table, "kind")):
        if kind in OF_KIND and table["draft"][row] != 1:
            key = int(table["file"][row]), str(OF_KIND[kind])
            found[key] += 1
            if table["layer"][row] >= 0:
                inside[key] += 1
                layers.setdefault(key[1], set()).add(int(table["layer"][row]))
    return found, inside, {family: len(held) for family, held in layers.items()}
