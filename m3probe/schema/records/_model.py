"""The loaded model as one rank holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.schema.records._base import Record


class Module(Record, tag="module"):
    """One module of the loaded model as this rank holds it.

    ``kind``: ``linear``, ``moe``, ``attention``, ``norm``, ``embedding``, ``lm_head``, ``router``, ``other``.
    ``N``, ``K``: rows and columns of the local weight as the GEMM sees it (experts: of one expert's w13 and, in ``facts``,
    w2). ``weight_bytes``: parameters and buffers by storage, scales included, shared storage counted once.
    ``facts``: what else its kind has (experts, top_k, heads, padding, scheme), plain data.
    """

    name: str
    cls: str
    kind: str
    layer: int = -1
    N: int = -1
    K: int = -1
    dtype: str = ""
    weight_bytes: int = -1
    quant: str = ""
    kernel: str = ""
    draft: bool = False
    facts: Mapping[str, Any] = {}


class KvLayer(Record, tag="kv_layer"):
    """One layer's cache: ``kind`` is ``main``, ``index`` or ``other``; bytes of one block, and without padding."""

    layer: str
    kind: str
    spec: str = ""
    group: int = -1
    block_tokens: int = -1
    kv_heads: int = -1
    head_size: int = -1
    dtype: str = ""
    page_bytes: int = -1
    real_page_bytes: int = -1
    shape: tuple[int, ...] = ()
    storage: int = -1
    """Layers with one number share one allocation."""
    draft: bool = False


class KvPool(Record, tag="kv_pool"):
    """All caches of this rank; ``bytes`` counts each allocation once."""

    blocks: int
    bytes: int
    block_tokens: int = -1
    groups: int = -1


class Descriptor(Record, tag="descriptor"):
    """A padded batch that a graph was captured for. ``id`` counts from 0 in each process."""

    id: int
    mode: str
    padded_rows: int
    requests: int = -1
    uniform: bool | None = None
    runner: str = ""
    """``v1``, ``v2`` or ``breakable``."""
    draft: bool = False
    """Of a draft model's graphs, whose replays ``StepCounts.draft_replays`` counts."""
    text: str = ""
