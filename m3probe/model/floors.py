"""What one operation must do at the least: its operations and bytes on one rank, and the least time these take.

Every operand crosses the memory once and nothing else does; caches, launch times and waiting count nothing.  So a
floor is what no implementation of the same shapes, formats and rows goes below, not what a good one reaches.
Sources of the shapes: ``m3_shapes.py``; of what the sparse layers read: vLLM 0.33.0, ``models/minimax_m3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

NS_PER_S = 1e9
SCORE_BYTES, ID_BYTES = 4, 4
"""An index score is FP32, an id of a block or page int32 (vLLM 0.33.0)."""
PAGE_TOKENS = 16
"""Of the page table that AITER's sparse attention takes (vLLM PR 47287)."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a value lies in memory.

    Args:
        value_bytes: of one value, its share of a block's scale included.
        peak: the word under which a device lists its peak for it.
        blocks: it has E8M0 scales, which only some devices' matrix units take.
    """

    value_bytes: float
    peak: str
    blocks: bool = False


FORMATS: Mapping[str, Format] = {
    "fp32": Format(4.0, "fp32"),
    "bf16": Format(2.0, "bf16"),
    "fp16": Format(2.0, "fp16"),
    "fp8": Format(1.0, "fp8"),
    "mxfp8": Format(1.0 + 1 / 32, "fp8", blocks=True),  # OCP MX 1.0: one E8M0 byte for 32 values
    "mxfp4": Format(0.5 + 1 / 32, "fp4", blocks=True),
}
"""Formats by the words that ``m3probe recipe`` uses."""
WORDS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e4m3fnuz": "fp8",
    "fp8_e5m2": "fp8",
}


def format_word(word: str) -> str | None:
    """The format that a dtype word of a trace, a config or a live module names; None for any other."""
    short = WORDS.get(word.removeprefix("torch."), word)
    return short if short in FORMATS else None


@dataclass(frozen=True, slots=True)
class Peaks:
    """A device's peaks, as numbers.

    Args:
        device: its name.
        bytes_per_s: of its memory.
        tflops: dense, by word (``bf16``); a format without one has no matrix unit, or none that is listed.
        link_bytes_per_s: what one rank sends to all its peers together, one way; None where not known.
    """

    device: str
    bytes_per_s: float
    tflops: Mapping[str, float]
    link_bytes_per_s: float | None = None

    def flops_per_s(self, word: str) -> float | None:
        """Dense peak of a format in operations per second; None where the device has no unit for it.

        Scaled blocks need a unit that takes the scales: of the listed devices those that also list an FP6 peak
        (CDNA 4, Blackwell).  On the others such weights are converted first, and to what is not told here.
        """
        kind = FORMATS[word]
        if kind.blocks and "fp6" not in self.tflops:
            return None
        found = self.tflops.get(kind.peak)
        return found * 1e12 if found else None


@dataclass(frozen=True, slots=True)
class Work:
    """Operations and least bytes of one rank.

    Args:
        what: the operation.
        calls: how often it runs; all other fields are sums over these.
        flops: multiplications and additions.
        weight_bytes: of weights read.
        activation_bytes: of activations read and written.
        state_bytes: of caches read and written.
        sent_bytes: to other ranks.
        experts_hit: of a grouped GEMM, how many experts' weights one call reads; 0 for all others.
        compute: format that the matrix units work in.
        note: what was assumed.
    """

    what: str
    calls: int = 1
    flops: float = 0.0
    weight_bytes: float = 0.0
    activation_bytes: float = 0.0
    state_bytes: float = 0.0
    sent_bytes: float = 0.0
    experts_hit: float = 0.0
    compute: str = "bf16"
    note: str = ""

    @property
    def bytes(self) -> float:
        """All that crosses this rank's memory."""
        return self.weight_bytes + self.activation_bytes + self.state_bytes

    def named(self, what: str, calls: int = 1, note: str = "") -> Work:
        """The same work done ``calls`` times, under another name."""
        return replace(
            self,
            what=what,
            calls=self.calls * calls,
            flops=self.flops * calls,
            weight_bytes=self.weight_bytes * calls,
            activation_bytes=self.activation_bytes * calls,
            state_bytes=self.state_bytes * calls,
            sent_bytes=self.sent_bytes * calls,
            note=note or self.note,
        )


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time of a work: the longest of what its memory, its matrix units and its links take.

    ``compute_ns`` and ``link_ns`` are None where the device's peak is not known: the floor is then that of the rest,
    and ``unknown`` says of what.
    """

    memory_ns: float
    compute_ns: float | None
    link_ns: float | None
    unknown: str = ""

    @property
    def time_ns(self) -> float:
        """The least time in nanoseconds."""
        return max(self.memory_ns, self.compute_ns or 0.0, self.link_ns or 0.0)

    @property
    def bound_by(self) -> str:
        """``memory``, ``compute`` or ``link``."""
        parts = {"memory": self.memory_ns, "compute": self.compute_ns or 0.0, "link": self.link_ns or 0.0}
        return max(parts, key=lambda name: parts[name])


def floor(work: Work, peaks: Peaks) -> Floor:
    """The least time of a work on a device."""
    rate = peaks.flops_per_s(work.compute)
    compute = NS_PER_S * work.flops / rate if rate else None if work.flops else 0.0
    link = NS_PER_S * work.sent_bytes / peaks.link_bytes_per_s if peaks.link_bytes_per_s else None
    lost = [f"no {work.compute} peak of {peaks.device}"] * (compute is None)
    lost += [f"no link peak of {peaks.device}"] * (link is None and work.sent_bytes > 0)
    return Floor(NS_PER_S * work.bytes / peaks.bytes_per_s, compute, link, ", ".join(lost))


def gemm(M: int, N: int, K: int, weight: str, activation: str = "bf16", out: str = "bf16", batch: int = 1) -> Work:
    """``batch`` products of an M x K activation and an N x K weight, each operand read once and the result written."""
    moved = M * K * FORMATS[activation].value_bytes + M * N * FORMATS[out].value_bytes
    return Work(
        "gemm",
        flops=2.0 * batch * M * N * K,
        weight_bytes=batch * N * K * FORMATS[weight].value_bytes,
        activation_bytes=batch * moved,
        compute=weight,
    )


def distinct_experts(experts: int, top_k: int, rows: int, always: int = 0) -> float:
    """Experts that ``rows`` rows hit when each chooses ``top_k`` of ``experts`` evenly: E (1 - (1 - k/E)^rows).

    ``always`` are slots that every row takes (a fused shared expert), counted in neither of the two.  Real routing is
    uneven and hits fewer: where routing was recorded, use `distinct_by_share`.
    """
    chosen = min(top_k, experts)
    return experts * (1.0 - (1.0 - chosen / experts) ** rows) + always * (rows > 0)


def distinct_by_share(shares: Sequence[float], rows: int) -> float:
    """The same from recorded routing: ``shares`` are rows that chose each expert over all rows (0 to 1 each)."""
    return sum(1.0 - (1.0 - min(share, 1.0)) ** rows for share in shares)


def grouped_gemm(
    rows: int, routed: float, N: int, K: int, distinct: float, weight: str, part: str, activation: str = "bf16"
) -> Work:
    """One weight of the routed experts: ``distinct`` of them are read, ``routed`` rows are multiplied.

    Args:
        rows: tokens; ``moe_w13`` reads each once, ``moe_w2`` writes each once (experts' results summed): those with an
            expert on this rank, of which there are no more than ``routed``.
        routed: rows x top-k that this rank computes.
        N: of one expert's local weight.
        K: of one expert's local weight.
        distinct: experts hit, expected or counted.
        weight: format of the weights.
        part: ``moe_w13`` or ``moe_w2``.
        activation: format of what is multiplied; results are BF16.
    """
    here = min(rows, routed)
    read, written = (here, routed) if part == "moe_w13" else (routed, here)
    moved = read * K * FORMATS[activation].value_bytes + written * N * FORMATS["bf16"].value_bytes
    return Work(
        part,
        flops=2.0 * routed * N * K,
        weight_bytes=distinct * N * K * FORMATS[weight].value_bytes,
        activation_bytes=moved,
        experts_hit=distinct,
        compute=weight,
    )


def attend(requests: int, tokens: int, q_heads: int, kv_heads: int, head_dim: int, kv: str, each: int = 1) -> Work:
    """Decode attention of one layer over ``tokens`` keys and values of each request.

    ``each`` rows of a request (drafts verified with it) share what is read.  Computed at the cache's format, the
    fastest there could be; query and result are BF16.
    """
    rows = requests * each
    return Work(
        "attend",
        flops=4.0 * rows * q_heads * tokens * head_dim,
        state_bytes=requests * tokens * 2 * kv_heads * head_dim * FORMATS[kv].value_bytes,
        activation_bytes=rows * q_heads * head_dim * 2 * FORMATS["bf16"].value_bytes,
        compute=kv,
    )


def index_score(requests: int, context: int, heads: int, index_dim: int, index: str, each: int = 1) -> Work:
    """Index scores of one layer: one key per token of the whole context (that cache has one head on every rank)."""
    return Work(
        "index_score",
        flops=2.0 * requests * each * heads * context * index_dim,
        state_bytes=requests * context * index_dim * FORMATS[index].value_bytes,
        compute=index,
    )


def block_choice(rows: int, context: int, heads: int, block_tokens: int, blocks: int) -> Work:
    """Top-k of one layer: the score of each block is written and read once, the chosen ids are written."""
    scores = rows * heads * ceil(context / block_tokens) * SCORE_BYTES
    return Work("index_topk", activation_bytes=2 * scores + rows * heads * blocks * ID_BYTES)


def page_table(rows: int, heads: int, block_tokens: int, blocks: int) -> Work:
    """Page ids of the chosen blocks of one layer, written and read once; only AITER's sparse attention wants them."""
    ids = rows * heads * blocks * (block_tokens // PAGE_TOKENS)
    return Work("page_table", activation_bytes=2 * ids * ID_BYTES)


def cache_write(rows: int, values: int, kind: str) -> Work:
    """``values`` of each row written to a cache: 2 x KV heads x head size, or one index key."""
    return Work("cache_write", state_bytes=rows * values * FORMATS[kind].value_bytes)


def all_reduce(rows: int, hidden: int, ranks: int, *, mesh: bool = True, sent_bits: int = 16) -> Work:
    """One BF16 all-reduce: payload read and written, and what a rank must send.

    Over direct links 2 (n - 1)/n of the payload (reduce-scatter, then all-gather); a switch that adds needs it once.
    ``sent_bits`` of a value go over the links where a codec packs it (QuickReduce), the scales of blocks not counted.
    """
    payload = rows * hidden * FORMATS["bf16"].value_bytes
    sent = (2 * (ranks - 1) / ranks if mesh else 1.0) * payload * sent_bits / 16
    note = f"{sent_bits} bits of a value sent" if sent_bits != 16 else ""
    return Work("all_reduce", activation_bytes=2 * payload, sent_bytes=sent if ranks > 1 else 0.0, note=note)


def index_crossover(attend_bytes: float, index_bytes: float, limit_tokens: int) -> float:
    """Context from which a step's index reads at least what its sparse attend reads, in tokens; 0: at any context.

    Both are bytes of one token over all layers of a rank. The attend reads at most ``limit_tokens``, the index all tokens.
    At TP4 with FP8 keys and values (one KV head of 128): 2,048 x 256 B = 524,288 B a layer, which a BF16 index of 256 B per
    token reaches at 2,048 tokens, an FP8 one at 4,096; where 15 of 57 layers choose, 57/15 times as far.
    """
    return 0.0 if index_bytes > attend_bytes else limit_tokens * attend_bytes / index_bytes
