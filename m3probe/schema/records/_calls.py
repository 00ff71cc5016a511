"""Calls that hooks saw: branches of fast paths, bytes that moved, rows that were routed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.schema.records._base import Record
from m3probe.schema.roles import Stage


class Dispatch(Record, tag="dispatch"):
    """A branch that was taken (or refused), with how often since the record before.

    ``path``: name in the catalogue; ``variant``: the implementation in the catalogue's words; ``eligible`` and
    ``reason``: what the seam's own predicate said of ``size`` (rows, or bytes where ``unit`` says so); of several sizes
    it is -1, and ``facts`` has the ``least`` and the ``most``. ``A | B``: one of these variants ran, and not known which.
    Seams of one path see the same work: their counts are not added. A fact of capture with ``outside_graph`` in its
    ``facts`` ran in a break of the graph, and is recorded again at each replay.
    """

    path: str
    seam: str
    variant: str = ""
    eligible: bool | None = None
    reason: str = ""
    size: int = -1
    unit: str = "rows"
    phase: str = "unknown"
    descriptor: int = -1
    stage: Stage = Stage.EAGER
    count: int = 1
    layers: int = -1
    """Distinct layers that took it, where the seam knows its layer."""
    facts: Mapping[str, Any] = {}


class Collective(Record, tag="collective"):
    """Calls of one collective: ``payload_bytes`` of one call on this rank; -1 where calls of several sizes are summed.

    ``backend``: ``shm``, ``quick``, ``aiter``, ``custom``, ``symm``, ``flashinfer``, ``pynccl``, ``torch:gloo``, ...
    """

    op: str
    group: str
    payload_bytes: int
    payload_sum_bytes: int = -1
    """Over all calls, where ``payload_bytes`` is -1."""
    dtype: str = ""
    backend: str = ""
    ranks: int = -1
    fused: bool = False
    phase: str = "unknown"
    descriptor: int = -1
    stage: Stage = Stage.EAGER
    count: int = 1


class KvTransfer(Record, tag="kv_transfer"):
    """Calls of a KV connector. ``direction``: ``load``, ``save``, ``register``, ``finish``.

    Bytes, tokens, requests and time are sums over ``count`` calls; ``seam``: one transfer may be seen at several.
    """

    connector: str
    direction: str
    seam: str
    layer: str = ""
    payload_bytes: int = -1
    tokens: int = -1
    requests: int = -1
    dur_ns: int = -1
    count: int = 1


class Routing(Record, tag="routing"):
    """Rows per expert of one MoE layer, summed over ``steps`` sampled steps; ``padded``: after block padding."""

    layer: str
    steps: int
    rows: int
    top_k: int
    experts: tuple[int, ...]
    shared: int = -1
    padded: int = -1
    overlap_next: float | None = None
    """Mean share of top-k experts that the next sampled layer chose too, where asked for. A sparse attention layer has no
    ``experts`` here: the share is of the blocks that its indexer chose."""
