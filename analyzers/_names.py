"""What kernel names say, and which of them run once per layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from m3probe.kernels.demangle import NAMES_KEPT, demangle
from m3probe.kernels.grammar import UNKNOWN, classify, head_of
from m3probe.model.recording import Strings
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family

# Attention kernels that only prepare or finish the work of another one; the rest run once per layer.
_HELPERS = ("reduce", "combine", "merge", "prepare", "metadata", "schedule")
_SOFTMAX = "attention.softmax"
# The first of these that ran gives the MoE layers: each is one launch per layer in every backend that has it.
MOE_ANCHORS = ("moe.combine", "moe.sort", "moe.router_topk", "moe.router_gemm", "moe.monokernel")


@dataclass(frozen=True, slots=True)
class KernelName:
    """What a name says: its own words without template arguments (lower case), and its category."""

    head: str
    category: str
    family: Family


def names_of(strings: Strings, name: Array, family: Array) -> Mapping[int, KernelName]:
    """String id -> what the name says, for every name of these executions."""
    found: dict[int, KernelName] = {}
    pairs = np.unique(
        name.astype(np.int64) * len(FAMILIES) + family
    )  # one number each: sorting columns takes 20 times as long
    for one, kind in zip(*(part.tolist() for part in np.divmod(pairs, len(FAMILIES))), strict=True):
        found[one] = _said(strings[one], FAMILIES[kind])
    return found


@lru_cache(maxsize=NAMES_KEPT)
def _said(text: str, family: Family) -> KernelName:
    # what the grammar did not know, or a reader did not ask it for, it need not be asked again: 26 us a name
    kind = UNKNOWN if family is Family.UNKNOWN else classify(text)
    return KernelName(head_of(demangle(text).lower()), kind.category, family)


def is_attention_anchor(name: KernelName) -> bool:
    """An attention kernel that runs once per layer."""
    attends = name.family in (Family.ATTENTION, Family.SPARSE_ATTENTION)
    return attends and not any(word in name.head for word in _HELPERS)


def sampling_softmax(names: Mapping[int, KernelName]) -> list[int]:
    """Softmax kernels that are no attention: one over the vocabulary in each step where fused kernels attend.

    By name the softmax of a sampler is that of unfused attention; where both ran, layers attend with the fused ones.
    """
    soft = [i for i, n in names.items() if n.category == _SOFTMAX]
    return soft if any(is_attention_anchor(n) and n.category != _SOFTMAX for n in names.values()) else []


def attention_anchors(names: Mapping[int, KernelName], *families: Family) -> list[int]:
    """Names that run once per layer with attention of these families (of either where none is given)."""
    sampling = set(sampling_softmax(names))
    return [
        i
        for i, n in names.items()
        if i not in sampling and is_attention_anchor(n) and (not families or n.family in families)
    ]


def is_index_score(name: KernelName) -> bool:
    """A kernel that scores key blocks: once per layer that chooses its own."""
    return name.family is Family.INDEXER and (name.category == "indexer.score" or "score" in name.head)


def moe_anchors(names: Mapping[int, KernelName]) -> Iterable[list[list[int]]]:
    """Names that may count MoE layers: per category, in order of preference, the ids of each kernel."""
    for category in MOE_ANCHORS:
        heads = sorted({n.head for n in names.values() if n.category == category})
        yield [[i for i, n in names.items() if n.head == head] for head in heads]
