"""The least time of one decode step on one rank: every component's bytes and operations, and their sum.

Weights are read once a step.  Norms, activations, rotary embedding and sampling are left out: each can be fused into
its neighbour, and then moves nothing of its own.  A draft model is left out too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.model import floors
from m3probe.model.floors import Floor, Peaks, Work, floor
from m3probe.model.m3_shapes import LocalGemm, local_shapes
from m3probe.model.model_config import ModelConfig

CONTROL = ("index_score", "index_topk", "page_table", "index_write")
"""The control plane of sparse attention: what it takes to choose the blocks."""


@dataclass(frozen=True, slots=True)
class Formats:
    """Words of `floors.FORMATS`; None where not known: the components that need it are then left out and named."""

    linear: str | None = None
    experts: str | None = None
    kv: str | None = None
    index: str | None = None
    lm_head: str | None = "bf16"
    router: str | None = "fp32"
    shared: str | None = None
    """Of the shared expert; None: as ``linear``."""


@dataclass(frozen=True, slots=True)
class Rank:
    """What one rank holds: parallel sizes, and what changes the work.

    Args:
        index_layers: layers that choose their own blocks; None: every sparse layer.
        fused_shared: the shared expert is one more slot of the routed experts.
        page_table: a table of pages is built for the attend (AITER's sparse attention).
        whole_head: the vocabulary is not divided.
        indexer_cp: every index head is on every rank (indexer context parallelism).
        reducing: ranks that reduce together; None: ``tp``.
        mesh: ranks are linked to each other directly, not by a switch that adds.
    """

    tp: int
    ep: int = 1
    dp: int = 1
    index_layers: int | None = None
    fused_shared: bool = False
    page_table: bool = False
    whole_head: bool = False
    indexer_cp: bool = False
    reducing: int | None = None
    mesh: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """One decode step.

    Args:
        rows: tokens that are computed (M).
        requests: that they belong to.
        context: key tokens of each request; None: not known. A mean stands for requests of equal length.
        distinct: routed experts hit in a layer over all ranks, where routing was recorded; None: evenly chosen.
        sent_bits: of a value of an all-reduce, over the links.
    """

    rows: int
    requests: int
    context: int | None = None
    distinct: float | None = None
    sent_bits: int = 16

    @property
    def each(self) -> int:
        """Rows of one request."""
        return max(1, self.rows // max(1, self.requests))


@dataclass(frozen=True, slots=True)
class DecodeFloor:
    """Components with their floors; ``left_out`` names those that could not be worked out, and why."""

    rows: tuple[tuple[Work, Floor], ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def bytes(self) -> float:
        """All bytes of the step."""
        return sum(work.bytes for work, _ in self.rows)

    @property
    def flops(self) -> float:
        """All operations of the step."""
        return sum(work.flops for work, _ in self.rows)

    @property
    def floor_ns(self) -> float:
        """One component after the other."""
        return sum(least.time_ns for _, least in self.rows)

    @property
    def overlapped_ns(self) -> float:
        """If memory, matrix units and links all worked without a pause, side by side."""
        parts = [(least.memory_ns, least.compute_ns or 0.0, least.link_ns or 0.0) for _, least in self.rows]
        return max((sum(column) for column in zip(*parts, strict=True)), default=0.0)

    def of(self, *names: str) -> tuple[tuple[Work, Floor], ...]:
        """The components of these names."""
        return tuple(row for row in self.rows if row[0].what in names)


def decode_floor(config: ModelConfig, rank: Rank, formats: Formats, batch: Batch, peaks: Peaks) -> DecodeFloor:
    """The least time that a decode step of this batch can take on one rank.

    Raises:
        ValueError: vLLM would not build this layout.
    """
    done: list[Work] = []
    lost: list[tuple[str, str]] = []
    for name, kind, work in _components(config, rank, formats, batch):
        if work is not None:
            done.append(work)
        elif kind:
            lost.append((name, kind))
    return DecodeFloor(tuple((work, floor(work, peaks)) for work in done), tuple(lost))


_Component = tuple[str, str, Work | None]
"""(name, why it could not be worked out, the work)."""


def _components(config: ModelConfig, rank: Rank, formats: Formats, batch: Batch) -> Iterator[_Component]:
    shapes = local_shapes(
        config, rank.tp, rank.ep, dp=rank.dp, indexer_cp=rank.indexer_cp, fuse_shared_experts=rank.fused_shared
    )
    for gemm in shapes:
        yield _weight(config, rank, formats, batch, gemm)
    yield from _caches(config, rank, formats, batch)
    hidden = batch.rows * config.hidden_size * floors.FORMATS["bf16"].value_bytes
    yield "embedding", "", Work("embedding", activation_bytes=2 * hidden)
    ranks = rank.tp if rank.reducing is None else rank.reducing
    if ranks > 1:
        # one after attention, one after the MLP of each layer, one after the embedding
        work = floors.all_reduce(batch.rows, config.hidden_size, ranks, mesh=rank.mesh, sent_bits=batch.sent_bits)
        yield "all_reduce", "", work.named("all_reduce", 2 * config.num_layers + 1)


def _weight(config: ModelConfig, rank: Rank, formats: Formats, batch: Batch, gemm: LocalGemm) -> _Component:
    name = gemm.module
    known = {
        "router": formats.router,
        "lm_head": formats.lm_head,
        "moe_w13": formats.experts,
        "moe_w2": formats.experts,
    }
    shared = formats.shared if name.startswith("shared") else None
    word = known.get(name, shared or formats.linear)
    if word is None:
        return name, "the format of its weights is not known", None
    # quantised weights can meet activations of their own format (W8A8, W4A4); the FP32 router casts BF16 rows
    activation = word if floors.FORMATS[word].value_bytes < floors.FORMATS["bf16"].value_bytes else "bf16"
    if gemm.kind == "linear":
        whole = rank.tp if name == "lm_head" and rank.whole_head else 1
        # the head multiplies only rows that are sampled: one of each request without drafts
        work = floors.gemm(batch.rows, gemm.N * whole, gemm.K, word, activation)
        return name, "", work.named(name, gemm.layers)
    always = config.shared_experts if rank.fused_shared and rank.ep == 1 else 0
    rows = batch.rows * rank.dp
    even = floors.distinct_experts(config.num_experts, config.top_k, rows)
    hit = (even if batch.distinct is None else batch.distinct) / rank.ep + always
    routed = rows * config.top_k / rank.ep + rows * always
    work = floors.grouped_gemm(rows, routed, gemm.N, gemm.K, hit, word, gemm.kind, activation)
    how = "as if evenly chosen" if batch.distinct is None else "by recorded routing"
    return name, "", work.named(name, gemm.layers, f"experts {how}")


def _caches(config: ModelConfig, rank: Rank, formats: Formats, batch: Batch) -> Iterator[_Component]:
    sparse, dense = config.sparse_attention_layers, config.num_layers - config.sparse_attention_layers
    chosen = sparse if rank.index_layers is None else rank.index_layers
    limit = config.sparse_topk_blocks * config.sparse_block_tokens
    kv_heads, q_heads = max(1, config.kv_heads // rank.tp), config.q_heads // rank.tp
    # index queries are replicated like KV heads
    heads = config.index_heads if rank.indexer_cp else kv_heads

    def attend(name: str, layers: int, most: int | None) -> _Component:
        if batch.context is None or formats.kv is None:
            return name, _why(batch, formats.kv, "KV cache"), None
        tokens = batch.context if most is None else min(batch.context, most)
        work = floors.attend(batch.requests, tokens, q_heads, kv_heads, config.head_dim, formats.kv, batch.each)
        return name, "", work.named(name, layers)

    def written(name: str, layers: int, values: int, word: str | None, cache: str) -> _Component:
        if word is None:
            return name, f"the format of the {cache} is not known", None
        return name, "", floors.cache_write(batch.rows, values, word).named(name, layers)

    if dense:
        yield attend("attend_dense", dense, None)
    yield written("kv_write", config.num_layers, 2 * kv_heads * config.head_dim, formats.kv, "KV cache")
    if not sparse:
        return
    yield attend("attend_sparse", sparse, limit)
    # a layer that reuses another one's blocks writes no index key (skip_index_branch, amd/model.py)
    yield written("index_write", chosen, config.index_dim, formats.index, "index cache")
    # context parallelism splits the keys, and the scores of their blocks, over the ranks
    keys = batch.context if batch.context is None or not rank.indexer_cp else -(-batch.context // rank.tp)
    if keys is None or formats.index is None:
        yield "index_score", _why(batch, formats.index, "index cache"), None
    else:
        score = floors.index_score(batch.requests, keys, heads, config.index_dim, formats.index, batch.each)
        yield "index_score", "", score.named("index_score", chosen)
    if keys is not None:
        choice = floors.block_choice(batch.rows, keys, heads, config.sparse_block_tokens, config.sparse_topk_blocks)
        yield "index_topk", "", choice.named("index_topk", chosen)
    if rank.page_table:
        table = floors.page_table(batch.rows, heads, config.sparse_block_tokens, config.sparse_topk_blocks)
        yield "page_table", "", table.named("page_table", chosen)


def crossover_tokens(config: ModelConfig, rank: Rank, formats: Formats) -> float | None:
    """Context from which the index of a step reads at least what its sparse attend reads (`floors.index_crossover`).

    Index context parallelism leaves each rank its part of the keys. None where a cache's format is not known, or no layer
    chooses.
    """
    sparse = config.sparse_attention_layers
    chosen = sparse if rank.index_layers is None else rank.index_layers
    if formats.kv is None or formats.index is None or not sparse or not chosen:
        return None
    attend = sparse * 2 * max(1, config.kv_heads // rank.tp) * config.head_dim * floors.FORMATS[formats.kv].value_bytes
    index = chosen * config.index_dim * floors.FORMATS[formats.index].value_bytes
    limit = config.sparse_topk_blocks * config.sparse_block_tokens
    return floors.index_crossover(attend, index / (rank.tp if rank.indexer_cp else 1), limit)


def _why(batch: Batch, word: str | None, cache: str) -> str:
    lost = ["the context is not known"] * (batch.context is None)
    return ", ".join([*lost, *[f"the format of the {cache} is not known"] * (word is None)])
