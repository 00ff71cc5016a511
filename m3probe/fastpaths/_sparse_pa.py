"""When vLLM selects AITER's page-16 paged attention for the sparse layers: asked for, and every need of it.

Sources: ``minimax_m3_use_aiter_sparse_pa`` (common/sparse_attention.py:113) and ``amd/model.py`` at 0.32 and 0.33.
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import (
    AITER,
    BLOCK_SIZE,
    INDEX_CACHE,
    KV_DTYPE,
    ROCM,
    SHUFFLE,
    SPARSE_LAYERS,
    absent,
    build_name,
    emits_table,
    kv_dtype,
    kv_heads_text,
    missing_settings,
    no,
    unknown,
    yes,
)
from m3probe.fastpaths._state import in_force
from m3probe.schema.paths import Asked, Need, When
from m3probe.schema.setup import Held, Met, Point, Setup, met

HEAD_DIM = 128


def asked(setup: Setup) -> Asked:
    """Both settings, on a build that reads them."""
    off = missing_settings(setup)
    if off:
        return Asked(Held.NO, off)
    said = f"{AITER}=1 and {SHUFFLE}=1"
    if absent(setup, "sparse_pa"):
        why = f"{said}, but {build_name(setup)} has no AITER sparse paged attention for MiniMax M3"
        return Asked(Held.NO, why, wasted=True)
    return Asked(Held.YES if setup.build.rule("sparse_pa").known else Held.UNKNOWN, said)


def one_kv_head(setup: Setup, _point: Point) -> Met:
    """One KV head per rank, or an indexer that emits the page table; otherwise vLLM raises at start."""
    heads = setup.kv_heads_per_rank
    if heads is None:
        return unknown("KV heads are not known")
    said = kv_heads_text(setup)
    if heads == 1:
        return yes(said)
    table = emits_table(setup)
    if table.held is Held.NO:
        return no(
            f"{said}, not 1, and {table.text}; the engine does not start (ValueError), nothing falls back: "
            f"clear {SHUFFLE} for Triton",
        )
    return met(True if table.held is Held.YES else None, f"{said}; {table.text}")


def _head_dim(setup: Setup, _point: Point) -> Met:
    dim = setup.model.head_dim
    return met(None if dim is None else dim == HEAD_DIM, f"head_dim {dim}, must be {HEAD_DIM}")


PAYS_FROM = (8192, 64)
"""Prompt tokens and requests from which AITER's sparse attention was faster: InferenceX PR 2187 gates it there."""
ONE_KV_HEAD = Need(
    "one KV head per rank, unless the indexer emits the attend's page table", one_kv_head, When.START, ("sparse_pa",)
)
NEEDS = (SPARSE_LAYERS, ROCM, ONE_KV_HEAD, INDEX_CACHE, Need("head_dim 128", _head_dim), BLOCK_SIZE, KV_DTYPE)


def writes(setup: Setup, point: Point) -> bool:
    """Whether AITER's QK-norm writes K, V and index keys of the sparse layers in place of vLLM's op."""
    rule = setup.build.rule("qknorm_aiter")
    dtypes = rule.value["dtypes"] if rule.known and rule.value else ()
    return kv_dtype(setup) in dtypes and selected(setup, point)


def selected(setup: Setup, point: Point) -> bool:
    """Whether a setup runs it for certain."""
    return in_force(asked(setup), NEEDS, setup, point)
