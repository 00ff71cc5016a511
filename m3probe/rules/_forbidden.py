"""Variants of a path that must not run: seen once they fail a rule, and their absence needs evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.kernels.demangle import demangle
from m3probe.model.findings import Evidence, evidence
from m3probe.model.path_report import PathCell, PathRow
from m3probe.model.tables import NONE, Array
from m3probe.rules._result import FAILED, HOLDS, INCONCLUSIVE, joined
from m3probe.rules._view import View
from m3probe.rules.file import FAST_PATHS
from m3probe.rules.rule import Rule
from m3probe.schema.paths import Anchor, FastPath, Variant
from m3probe.schema.setup import Point
from m3probe.schema.verdicts import Phase, RuleOutcome

JOINED_BY = " + "


@dataclass(frozen=True, slots=True)
class Absence:
    """What became of the forbidden variants."""

    outcome: RuleOutcome
    observed: str
    why: str = ""
    where: str = ""
    evidence: tuple[Evidence, ...] = ()


def absence(rule: Rule, view: View, row: PathRow, cells: list[PathCell]) -> Absence:
    """Whether none of the rule's forbidden variants ran in these cells."""
    path = FAST_PATHS.load(rule.name)
    variants = [v for v in path.variants if v.name in rule.forbidden] if path else []
    if path is None or not cells:
        return Absence(INCONCLUSIVE, "nothing", "no evidence about this path where the rule looks")
    ran = [(name, said, seen) for v in variants for name, said, seen in _seen(rule, view, path, v, cells)]
    if ran:
        return Absence(
            FAILED,
            joined(f"{name}: {said}" for name, said, _ in ran),
            "a forbidden variant ran",
            joined(_place(cell) for cell in cells if _ran_in(cell, rule.forbidden)),
            tuple(one for _, _, seen in ran for one in seen)[:4],
        )
    open_ = joined(_open(view, row, path, variants, cells))
    observed = f"no call of {' or '.join(rule.forbidden)} in {sum(c.steps for c in cells):,} steps"
    return Absence(INCONCLUSIVE if open_ else HOLDS, observed, open_)


def _seen(
    rule: Rule, view: View, path: FastPath, variant: Variant, cells: list[PathCell]
) -> Iterator[tuple[str, str, tuple[Evidence, ...]]]:
    """What shows that the variant ran."""
    steps = sum(cell.steps for cell in cells if _ran_in(cell, (variant.name,)))
    if steps:
        yield variant.name, f"ran where {steps:,} steps were looked at", ()
        return
    if path.counted_by is Anchor.GRAPH_LAUNCH:
        absent = sum(cell.absent for cell in cells)
        if absent and "NONE" in variant.anchors:
            yield variant.name, f"{absent:,} steps without a graph launch", ()
        return
    hit = _launches(rule, view, variant)
    if hit is not None and hit.any():
        rows = view.ran.kernel[hit & (view.ran.kernel != NONE)]
        said = f"{int(hit.sum()):,} launches of its kernel"
        yield variant.name, said, ((evidence("kernels", rows, said),) if len(rows) else ())


def _launches(rule: Rule, view: View, variant: Variant) -> Array | None:
    """Mask over executions in the rule's scope; None where the variant's kernels are not its own."""
    import numpy as np

    if not variant.anchors or variant.in_layers is not None:
        return None
    ids, inverse = np.unique(view.ran.name, return_inverse=True)
    names = [demangle(name).lower() for name in view.rec.strings.of(ids.tolist())]
    if variant.beside and not any(variant.stands_beside(name) for name in names):
        return None
    meant = np.array([variant.counts(name) for name in names], dtype=bool)
    inside = np.zeros(len(view.ran), dtype=bool)
    for unit in view.chosen(rule):
        inside |= view.scope(unit, rule.phase).rows
    return meant[inverse] & inside if len(ids) else inside


def _open(view: View, row: PathRow, path: FastPath, variants: list[Variant], cells: list[PathCell]) -> Iterator[str]:
    """Why a variant could have run unseen."""
    yield from view.hiding()
    for cell in cells:
        if not cell.calls and not cell.executed:
            yield f"nothing of this path was seen in {_place(cell)}"
        elif cell.executed < cell.steps and path.counted_by is Anchor.GRAPH_LAUNCH:
            yield f"{cell.steps - cell.executed:,} of {cell.steps:,} steps in {_place(cell)} do not show what ran"
    unseen = [v.name for v in variants if v.names_from_source]
    if unseen and len(view.rec.kernels) and not all(_accounted(view, path, cell) for cell in cells):
        yield f"kernel names of {', '.join(unseen)} were read in source and never seen: that none matches proves nothing"
    mixed = [v.name for v in variants if v.in_layers is not None]
    if mixed and row.counts.get("fallback_calls"):
        yield f"{row.counts['fallback_calls']:,} calls of another variant are counted, and not where {', '.join(mixed)} ran"


def _accounted(view: View, path: FastPath, cell: PathCell) -> bool:
    """Whether the variant that ran made every call that the configuration expects: then nothing ran beside it."""
    setup, variant = view.rec.meta.setup, next((v for v in path.variants if v.name == cell.variant), None)
    if setup is None or variant is None or variant.expected is None:
        return False
    each = variant.expected(setup, Point(Phase(cell.phase), 1, 1))  # as many in a step of any rows
    return each is not None and each > 0 and cell.calls >= each * cell.steps


def _ran_in(cell: PathCell, names: tuple[str, ...]) -> bool:
    return any(name in names for name in cell.variant.split(JOINED_BY))


def _place(cell: PathCell) -> str:
    return f"{cell.phase} on rank {cell.rank}" if cell.rank is not None else cell.phase
