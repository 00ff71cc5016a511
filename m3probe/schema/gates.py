"""What a correctness gate is, and the recorded facts that gates judge by.

A fact is read once after load, or is a counter; None is "not known" everywhere. A gate that lacks a fact is
``unproven``, never ``holds``. Dtypes are torch's names without ``torch.`` (``float8_e4m3fn``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from m3probe.schema.paths import FastPath


class GateState(StrEnum):
    """How a gate ended; ``UNPROVEN`` is absence of evidence, never a pass."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """A state and the sentence with its numbers."""

    state: GateState
    text: str


def holds(text: str) -> GateVerdict:
    """The condition is met by recorded facts."""
    return GateVerdict(GateState.HOLDS, text)


def broken(text: str) -> GateVerdict:
    """The recorded facts contradict the condition."""
    return GateVerdict(GateState.BROKEN, text)


def unproven(text: str) -> GateVerdict:
    """A fact is missing, or too weak to tell."""
    return GateVerdict(GateState.UNPROVEN, text)


@dataclass(frozen=True, slots=True)
class CacheDtypes:
    """FP8 dtypes around one KV cache; ``codes_equal``: of 256 byte codes, how many a write and a read agreed on."""

    writer: str | None = None
    reader: str | None = None
    platform: str | None = None
    codes_equal: int | None = None


@dataclass(frozen=True, slots=True)
class FusedParam:
    """One fused parameter of one layer: slices that the packed map declares, and those the checkpoint filled."""

    name: str
    declared: tuple[str, ...]
    loaded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpertMask:
    """One rank's expert mask: how many experts it marks as local, and how many the rank holds."""

    rank: int
    marked: int
    local: int


@dataclass(frozen=True, slots=True)
class GroupedLayer:
    """One layer of an attention group: what its metadata is built for."""

    layer: str
    backend: str | None = None
    kv_spec: str | None = None
    q_heads: int | None = None
    draft: bool | None = None


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Tokens of a KV block, of a sparse block, and of the kernels' page."""

    kv: int | None = None
    sparse: int | None = None


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """One MoE layer of one step: rows in, slots per row (the shared one included), rows counted over its experts."""

    layer: str
    rows: int
    top_k: int
    counted: int


@dataclass(frozen=True, slots=True)
class CacheCensus:
    """Per-layer caches by kind as a connector registered them, and as the model has them."""

    dense: int | None = None
    sparse: int | None = None
    index: int | None = None
    dense_layers: int | None = None
    sparse_layers: int | None = None


@dataclass(frozen=True, slots=True)
class SentBytes:
    """Bytes of one layer's cache: by its spec for the blocks moved, and as sent."""

    layer: str
    spec_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Writes:
    """Transfer writes of one request; ``completed``: at the moment its blocks were freed (at the end if never)."""

    request: str
    scheduled: int
    sealed: int
    completed: int
    freed: bool


@dataclass(frozen=True, slots=True)
class Acks:
    """Acknowledgements that one producer rank got for one transfer before it freed the blocks."""

    producer_rank: int
    producer_tp: int
    consumer_tp: int
    received: int


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests whose remote KV arrived, and how many of those ran afterwards."""

    received: int
    ran: int


@dataclass(frozen=True, slots=True)
class TopkBuffer:
    """Layout tags (``head_major``, ``token_major``) of the top-k buffer and of its reader, with its dims."""

    buffer: str | None = None
    reader: str | None = None
    heads: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One accuracy figure of an evaluation file.

    Args:
        task: ``gsm8k``.
        metric: as the file names it.
        value: a share, 0 to 1.
        n: questions; None when the file does not say.
        stderr: standard error; None: worked out from value and n.
    """

    task: str
    metric: str
    value: float
    n: int | None = None
    stderr: float | None = None


@dataclass(frozen=True, slots=True)
class EvalRun:
    """How an evaluation was made.

    Args:
        score: its figure.
        baseline: the figure it is held against, by the same task and prompts.
        context_tokens: (shortest, longest) prompt plus answer.
        speculative: whether the server drafted tokens.
        rejection_method: ``standard``, ``synthetic``, ...
        dataset: the prompts' source; ``random`` is random tokens.
        measured_on: parallelism and flags it ran on, as one text (``TP4 EP1 AITER=1``).
        serving: the same of the server whose paths are judged.
        changed: names of fast paths that differ from the baseline's.
    """

    score: Score | None = None
    baseline: Score | None = None
    context_tokens: tuple[int, int] | None = None
    speculative: bool | None = None
    rejection_method: str | None = None
    dataset: str | None = None
    measured_on: str | None = None
    serving: str | None = None
    changed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Workers of one launch command, and ranks of each (TP x PP x DP)."""

    name: str
    workers: int
    ranks: int


@dataclass(frozen=True, slots=True)
class Cosine:
    """One output compared with a float32 reference."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class GateFacts:
    """All that gates may ask for. None: nobody recorded it; an empty tuple: it was looked at and there is none."""

    gfx: str | None = None
    kv: CacheDtypes | None = None
    fused: tuple[FusedParam, ...] | None = None
    activation: tuple[float, float, float] | None = None
    masks: tuple[ExpertMask, ...] | None = None
    experts: int | None = None
    groups: tuple[tuple[GroupedLayer, ...], ...] | None = None
    blocks: BlockSizes | None = None
    routed: tuple[RoutedRows, ...] | None = None
    caches: CacheCensus | None = None
    sent: tuple[SentBytes, ...] | None = None
    writes: tuple[Writes, ...] | None = None
    acks: tuple[Acks, ...] | None = None
    arrivals: Arrivals | None = None
    topk: TopkBuffer | None = None
    run: EvalRun | None = None
    workers: tuple[WorkerGroup, ...] | None = None
    gpus: int | None = None
    cosines: tuple[Cosine, ...] | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One correctness condition: a pure predicate over recorded facts.

    Args:
        title: the condition in words.
        question: what its verdict answers.
        check: facts -> verdict.
        facts: where the facts are in a running server or its artefacts.
        trap: what it caught once: symptom and figures, with the source.
    """

    title: str
    question: str
    check: Callable[[GateFacts], GateVerdict]
    facts: str
    trap: str


def correct(path: FastPath, verdicts: Mapping[str, GateVerdict]) -> bool | None:
    """State ``correct`` of a path that executed: True when all of its gates hold, False when one is broken.

    None where a gate is unproven or was not asked, and for a path that names no gate: nothing vouches for it.
    """
    states = [verdicts[name].state if name in verdicts else GateState.UNPROVEN for name in path.gates]
    if GateState.BROKEN in states:
        return False
    return True if states and all(state is GateState.HOLDS for state in states) else None
