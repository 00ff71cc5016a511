"""The state plane: what was written to the KV cache and the index cache, as far as operator arguments prove it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from m3probe.analyzers._tally import Lines, View, alike, phase_of
from m3probe.analyzers._tensors import Tensor, arguments, cache_dtype, shape_text
from m3probe.model.report import PlaneRow
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, Family

_FAMILIES = [FAMILIES.index(Family.KV_WRITE), FAMILIES.index(Family.ROPE_KV)]
KV, INDEX = "KV write", "index write"


@dataclass(frozen=True, slots=True)
class Write:
    """What one launch writes per row of tokens.

    ``block_bytes``: one block of the cache, K and V together; ``rows`` the launch was given (padding included).
    """

    what: str
    bytes_per_row: int
    dtype: str
    layout: str
    block_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class State:
    """``lines`` of the plane; ``inserts``: mask over what ran, launches that write a cache; ``per_step``: (what, phase)
    -> (bytes, steps); ``block_bytes``: the smallest KV block seen, None where no argument shows one.
    """

    lines: tuple[PlaneRow, ...]
    inserts: Array
    per_step: dict[tuple[str, str], tuple[int, int]]
    block_bytes: int | None
    untold: tuple[str, ...]
    scaled: bool


def state_plane(view: View) -> State:
    """Every cache write that ran."""
    ran, lines = view.ran, Lines()
    inserts = np.zeros(len(ran), dtype=bool)
    per_step: dict[tuple[str, str], tuple[int, int]] = {}
    untold: Counter[tuple[str, str]] = Counter()
    blocks: list[int] = []
    scaled = False
    rows = np.flatnonzero(np.isin(ran.family, _FAMILIES))
    words = (ran.name, ran.op, ran.dims, ran.types, ran.launch == NONE, view.replayed, view.phase, view.unrecorded)
    groups = [(g, _writes(view, g)) for g in alike(rows, *words)]
    no_cache = {int(ran.name[g[0]]) for g, writes in groups if writes == ()}
    for group, writes in groups:
        phase, name = phase_of(group, view.phase), view.text(ran.name, int(group[0]))
        if writes is None and int(ran.name[group[0]]) in no_cache:
            continue  # elsewhere in this recording the same instantiation was given no cache
        inserts[group] = writes != ()
        if writes is None:
            untold[phase, view.why_silent(int(group[0]))] += len(group)
            lines.add(
                f"{KV}, {phase}", len(group), time_ns=view.time_ns(group), dtype=cache_dtype(name),
                layout="not told", evidence=view.evidence(group),
            )  # fmt: skip
        for write in writes or ():
            nbytes = _written(view, group, write)
            total, steps = per_step.get((write.what, phase), (0, 0))
            known = np.unique(ran.step[group])
            per_step[write.what, phase] = (total + nbytes, max(steps, int((known != NONE).sum())))
            blocks += [write.block_bytes] if write.what == KV else []
            # The time of a launch that writes both caches stands once, beside its KV write.
            time_ns = view.time_ns(group) if write is (writes or ())[0] else None
            dtype = cache_dtype(name) if write.dtype == "uint8" else write.dtype
            scaled |= dtype.startswith("fp8")
            lines.add(
                f"{write.what}, {phase}", len(group), nbytes=nbytes, time_ns=time_ns, dtype=dtype or write.dtype,
                layout=write.layout, evidence=view.evidence(group),
            )  # fmt: skip
    said = tuple(f"bytes of {count:,} cache writes in {phase}: {why}" for (phase, why), count in untold.items())
    return State(lines.rows(), inserts, per_step, min(blocks, default=None), said, scaled)


def _written(view: View, group: Array, write: Write) -> int:
    """Bytes of a group of launches: padding rows have slot -1 and write nothing, so a step's real rows bound them."""
    if not len(view.rec.steps):
        return len(group) * write.rows * write.bytes_per_row
    step = view.ran.step[group]
    real = np.where(step == NONE, NONE, view.rec.steps["rows"][np.maximum(step, 0)])
    rows = np.where(real >= 0, np.minimum(real, write.rows), write.rows)
    return int(rows.sum()) * write.bytes_per_row


def _writes(view: View, group: Array) -> tuple[Write, ...] | None:
    row = int(group[0])
    ran = view.ran
    return writes_of(
        view.text(ran.name, row), view.text(ran.op, row), view.text(ran.dims, row), view.text(ran.types, row)
    )


@lru_cache(maxsize=4096)
def writes_of(kernel: str, op: str, dims: str, types: str) -> tuple[Write, ...] | None:
    """What one launch writes; () when it writes no cache, None when nothing tells.

    Argument orders: vLLM 0.33 ``csrc/torch_bindings.cpp`` (reshape_and_cache*, fused_minimax_m3_qknorm_rope_kv_insert).
    """
    base, args = op.rsplit("::", 1)[-1], arguments(dims, types)
    if base in ("reshape_and_cache_flash", "reshape_and_cache"):
        return _reshape_and_cache(args)
    if base == "fused_minimax_m3_qknorm_rope_kv_insert":
        return _fused_insert(args)
    name = kernel.lower()
    only_rope = "rotary_embedding" in name or not any(word in name for word in ("insert", "cache", "kv", "store"))
    return () if only_rope else None


def _reshape_and_cache(args: tuple[Tensor, ...]) -> tuple[Write, ...] | None:
    """(key [T, H, D], value, key_cache [blocks, ...], value_cache, slot_mapping [T], ...)."""
    if len(args) < 5 or len(args[0].shape) != 3 or len(args[1].shape) != 3 or not args[4].shape:
        return None
    key, value, key_cache, value_cache, slots = args[:5]
    per_row = [_row_bytes(t, cache) for t, cache in ((key, key_cache), (value, value_cache))]
    blocks = [_block_bytes(cache) for cache in (key_cache, value_cache)]
    if None in per_row or None in blocks:
        return None
    layout = f"K and V apart, {shape_text(key_cache.shape)} each"
    total, block = (sum(n for n in numbers if n is not None) for numbers in (per_row, blocks))
    return (Write(KV, total, key_cache.dtype, layout, block, slots.shape[0]),)


def _fused_insert(args: tuple[Tensor, ...]) -> tuple[Write, ...] | None:
    """The cache is the argument of five sizes, K and V side by side [blocks, 2, block, heads, dim].

    The index cache is the next argument of three, [blocks, block, dim]. A dense layer gives no cache: its KV is
    written by reshape_and_cache. Any other form of cache is not read.
    """
    if not args or not args[0].shape:
        return None
    caches = [i for i, t in enumerate(args) if len(t.shape) >= 4]
    if not caches:
        return ()
    cache, rows = args[caches[0]], args[0].shape[0]
    if len(caches) > 1 or len(cache.shape) != 5 or cache.shape[1] != 2 or cache.element_bytes is None:
        return None
    heads, dim = cache.shape[3:]
    block = _block_bytes(cache) or 0
    found = [
        Write(KV, 2 * heads * dim * cache.element_bytes, cache.dtype, f"K, V {shape_text(cache.shape)}", block, rows)
    ]
    index = next((t for t in args[caches[0] + 1 :] if len(t.shape) == 3), None)
    if index is not None and index.element_bytes is not None:
        size = index.shape[2] * index.element_bytes
        found.append(Write(INDEX, size, index.dtype, f"key only {shape_text(index.shape)}", 0, rows))
    return tuple(found)


def _row_bytes(source: Tensor, cache: Tensor) -> int | None:
    """Bytes that one row takes in a cache; None unless the cache holds whole rows of this source."""
    width = source.shape[1] * source.shape[2]
    if not width or len(cache.shape) < 4 or cache.element_bytes is None or prod(cache.shape[1:]) % width:
        return None
    return width * cache.element_bytes


def _block_bytes(cache: Tensor) -> int | None:
    return prod(cache.shape[1:]) * cache.element_bytes if cache.element_bytes and cache.shape else None
