"""Layout work that recurs: it belongs to load time, where it is paid once (method R4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._basis import removable_share
from m3probe.analyzers._names import KernelName
from m3probe.analyzers._view import View, kernel_names, ms, rows_named
from m3probe.model.findings import Finding, evidence
from m3probe.model.tables import Array
from m3probe.schema.verdicts import Family, Phase

_LAYOUT = re.compile(r"shuffl|permut|transpos|relayout|reorder|dequant|repack|swizzle")
# Names that rearrange what is new in every step: routed rows, cached keys, tables, embeddings, heads.
_PER_STEP = re.compile(
    r"moe|expert|token|route|sort|(^|_)(kv|k|v|q|qkv)(_|$)|cache|page|block_table|emb|index|rotary|rope|head"
)
# Families whose kernels have one job; a layout word in their names says how that job is done (gemm_bpreshuffle).
_MAY_BE_LAYOUT = {Family.COPY, Family.OTHER, Family.ELEMENTWISE, Family.UNKNOWN, Family.MEMORY}


def is_layout_work(name: KernelName) -> bool:
    """Whether a kernel's own name says that it rearranges or dequantises a stored tensor.

    Quantising activations is per-step work, dequantising a stored tensor is not. A name that says ``weight``
    counts in any family but the multiplications themselves. Inductor names list fused views and prove nothing.
    """
    if name.head.startswith("triton_") or not _LAYOUT.search(name.head):
        return False
    if "weight" in name.head:
        return name.family not in (Family.GEMM, Family.MOE_GEMM)
    if _PER_STEP.search(name.head):
        return False
    return name.family in _MAY_BE_LAYOUT or (name.family is Family.QUANT and "dequant" in name.head)


def relayout_findings(view: View) -> Iterator[Finding]:
    """One finding per kernel name that does layout work in every decode step."""
    steps = view.steps(Phase.DECODE)
    heads: dict[str, list[int]] = {}
    for name, said in kernel_names(view).items():
        if is_layout_work(said):
            heads.setdefault(said.head, []).append(name)
    inside = view.rows_in(steps)
    for head, names in sorted(heads.items()):
        rows = rows_named(view, names) & inside
        per_step = np.bincount(view.ex.step[rows], minlength=len(view.rec.steps))[steps]
        if len(steps) and per_step.all():
            yield _finding(view, head, rows, steps)


def _finding(view: View, head: str, rows: Array, steps: Array) -> Finding:
    timed = view.timed_steps(Phase.DECODE)
    there = rows & view.rows_in(timed)
    cost, bound = "their time is not known", None
    if there.any():
        per_step = view.time_ns(there) / len(timed)
        cost = f"{ms(per_step)} per step, {ms(per_step * 1_000)} in the 1,000 steps of a 1,000-token response"
        bound = None if view.decode is None else removable_share(view.rec, view.kernels_of(there), view.decode)
    once = "" if len(steps) > 1 else " (only one was recorded)"
    kernel = view.ex.kernel[rows]
    seen = f"{rows.sum():,} launches in {len(steps)} decode steps"
    return Finding(
        id=f"repeats.relayout.{re.sub(r'[^a-z0-9_]+', '_', head).strip('_')}",
        question="repeats",
        verdict="recurs",
        claim=f"Layout work recurs: {head} runs {rows.sum() / len(steps):,.1f} times in each decode step{once}, {cost}",
        where="decode",
        evidence=(evidence("kernels", kernel[kernel >= 0], seen, "0 after loading"),),
        advice="If it rearranges weights or scales, do it once at load time (preshuffled weights, a backend that takes the "
        "stored layout); if its operand is made in the step, fuse it into the kernel that makes or takes it",
        bound=bound,
        confidence="medium" if len(steps) > 1 else "low",  # a name says what is done, not to which tensor
        trusted=view.trusted,
    )
