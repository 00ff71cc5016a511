"""Which model and parallel layout the observed local shapes prove, and which shapes that layout predicts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._gemm import GemmGroup
from m3probe.analyzers._gemm_ops import GROUPED, LINEAR, GemmShape
from m3probe.model.executed import Executed
from m3probe.model.m3_shapes import (
    OPTIONAL_MODULES,
    TP_SIZES,
    LayoutCandidate,
    LocalGemm,
    ShapeMatch,
    illegal_reason,
    local_shapes,
    match_shapes,
)
from m3probe.model.model_config import ModelConfig, minimax_m3
from m3probe.model.recording import Recording
from m3probe.model.report import ModelMatch
from m3probe.schema.verdicts import FAMILIES, Family

_M3_WORDS = ("minimax_m3", "minimaxm3")


@dataclass(frozen=True, slots=True)
class Layout:
    """The model held against the shapes.

    ``said`` is True when the user named the model; ``match`` is None when fewer than two of its shapes were seen;
    ``chosen`` is the layout that rows are marked by: the given TP where it is among the candidates, else the best.
    """

    config: ModelConfig
    said: bool
    tp: int | None
    ep: int | None
    match: ShapeMatch | None
    chosen: LayoutCandidate | None

    @property
    def proven(self) -> bool:
        """The whole set of a layout's linear shapes was seen."""
        return self.chosen is not None and self.chosen.fits

    @property
    def seen_ep(self) -> int | None:
        """Expert parallel size: from grouped weights, else as given, else unknown."""
        seen = self.chosen.ep if self.chosen else None
        return seen if seen is not None else self.ep

    def module(self, shape: GemmShape) -> str:
        """Layers of the chosen layout that this shape belongs to, "" for none."""
        if shape.kind == LINEAR and self.chosen:
            return ", ".join(self.chosen.modules_of((shape.N, shape.K)))
        if shape.kind == GROUPED:
            wanted = (shape.groups, shape.N, shape.K)
            return next((g.module for g in self.grouped if (g.experts, g.N, g.K) == wanted), "")
        return ""

    def predicted(self, shape: GemmShape) -> bool | None:
        """Whether the proven layout (or the model and TP that the user named) has this shape; None when neither is."""
        if shape.kind not in {LINEAR, GROUPED} or not (self.proven or (self.said and self.tp)):
            return None
        return bool(self.module(shape))

    @property
    def grouped(self) -> tuple[LocalGemm, ...]:
        """Grouped weights that the chosen layout has; () when it is not known."""
        if self.chosen is None:
            return ()
        tp, ep, fused = self.chosen.tp, self.seen_ep or 1, bool(self.chosen.fuse_shared_experts)
        if illegal_reason(self.config, tp, ep):
            return ()
        return tuple(g for g in local_shapes(self.config, tp, ep, fuse_shared_experts=fused) if g.kind != "linear")


def layout(rec: Recording, ex: Executed, groups: Collection[GemmGroup]) -> Layout | None:
    """The layout that the shapes of all phases prove; None when no model is named and none shows itself."""
    named = rec.meta.model is not None or _names_m3(rec, ex)
    if not named and not _sparse_layers_ran(ex):
        return None
    config = rec.meta.model or minimax_m3()
    shapes = [g.shape for g in groups if g.shape]
    linear = {(s.N, s.K) for s in shapes if s.kind == LINEAR}
    moe = {(s.groups, s.N, s.K) for s in shapes if s.kind == GROUPED}
    tp, ep = rec.meta.tp, rec.meta.ep
    sizes = sorted({*TP_SIZES, *([tp] if tp else [])})
    match = match_shapes(linear, config, tp_sizes=sizes, moe=moe)
    if not named and not (match and match.fits):
        return None  # other models have sparse attention too
    return Layout(config, rec.meta.model is not None, tp, ep, match, _chosen(match, tp))


def _chosen(match: ShapeMatch | None, tp: int | None) -> LayoutCandidate | None:
    if match is None:
        return None
    asked = [c for c in match.candidates if c.tp == tp]
    return asked[0] if asked else match.best


def _names_m3(rec: Recording, ex: Executed) -> bool:
    """Whether a kernel or an operator is MiniMax M3's by its name."""
    names = rec.strings.of(np.unique(np.concatenate([ex.name, ex.op])).tolist())
    return any(word in name.lower() for name in names for word in _M3_WORDS)


def _sparse_layers_ran(ex: Executed) -> bool:
    """Whether both kernel families of M3's sparse layers ran: the indexer and the sparse attention."""
    seen = set(np.unique(ex.family).tolist())
    return {FAMILIES.index(Family.SPARSE_ATTENTION), FAMILIES.index(Family.INDEXER)} <= seen


def model_match(found: Layout) -> ModelMatch | None:
    """The row for the report, None when no layout is proven; ``missing`` are optional layers that were not seen."""
    best = found.chosen
    if best is None or not best.fits:
        return None
    seen = {gemm.module for gemm in best.optional}
    missing = tuple(
        f"{gemm.module} [{gemm.N}, {gemm.K}]"
        for gemm in local_shapes(found.config, best.tp)
        if gemm.module in OPTIONAL_MODULES and gemm.module not in seen
    )
    return ModelMatch(found.config.name, best.tp, best.ep, tuple(_notes(found, best)), missing)


def _notes(found: Layout, best: LayoutCandidate) -> list[str]:
    notes = []
    if best.fuse_shared_experts is False:
        notes.append("shared expert runs as its own GEMMs (not fused into the routed experts)")
    elif best.fuse_shared_experts:
        notes.append("no GEMM of a separate shared expert was seen")
    heads = [g for g in best.optional if g.module == "lm_head"]
    if heads:
        word = "not divided" if best.lm_head == "whole" and best.tp > 1 else "divided" if best.tp > 1 else "whole"
        notes.append(f"lm_head {word} [{heads[0].N}, {heads[0].K}]")
    if best.indexer_cp:
        notes.append("indexer context parallelism: every index head on every rank")
    if found.config.sparse_layers and best.ep is None:
        said = f"as given: {found.ep}" if found.ep else "unknown"
        notes.append(f"expert parallel size {said}; no grouped weight is visible in the operators")
    others = sorted({c.tp for c in found.match.candidates if c.fits and c.tp != best.tp}) if found.match else []
    if others:
        notes.append("shapes of other layouts fit as well: " + ", ".join(f"TP{tp}" for tp in others))
    return notes
