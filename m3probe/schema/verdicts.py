"""Fixed words. Every room uses these and no synonyms (docs/words.md explains each)."""

from enum import StrEnum


class Outcome(StrEnum):
    """How reading an input ended."""

    OK = "ok"
    OK_WITH_WARNINGS = "ok_with_warnings"
    PARTIAL = "partial"
    ERROR = "error"


class Trust(StrEnum):
    """Whether absence in the evidence may be read as absence on the device."""

    COMPLETE = "complete"
    DEGRADED = "degraded"
    UNUSABLE = "unusable"


class PathVerdict(StrEnum):
    """State of one fast path; ``UNPROVEN`` is absence of evidence, never a pass."""

    OFF = "off"
    EXECUTED = "executed"
    MISSED = "missed"
    DECLINED = "declined"
    UNEXPECTED = "unexpected"
    UNPROVEN = "unproven"
    REFUSED_AT_START = "refused_at_start"


class Phase(StrEnum):
    """What a step computed. ``EMPTY`` steps stay out of per-step means."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"
    EMPTY = "empty"
    UNKNOWN = "unknown"
    WARMUP = "warmup"
    CAPTURE = "capture"
    DUMMY = "dummy"


class GraphMode(StrEnum):
    """FULL = one graph launch in the step, PIECEWISE = more, NONE = none."""

    FULL = "FULL"
    PIECEWISE = "PIECEWISE"
    NONE = "NONE"


class Family(StrEnum):
    """What a kernel is for. ``UNKNOWN`` is always shown; ``OTHER`` is known but none of the words."""

    GEMM = "gemm"
    MOE_GEMM = "moe_gemm"
    MOE_ROUTE = "moe_route"
    ATTENTION = "attention"
    SPARSE_ATTENTION = "sparse_attention"
    INDEXER = "indexer"
    NORM = "norm"
    ROPE_KV = "rope_kv"
    KV_WRITE = "kv_write"
    ACTIVATION = "activation"
    QUANT = "quant"
    COMM = "comm"
    SAMPLING = "sampling"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    MEMORY = "memory"
    OTHER = "other"
    UNKNOWN = "unknown"


class Evidence(StrEnum):
    """What proves an execution: kernel records, the graph census times counted replays, or what guests recorded.

    ``ledger``: a product of the model map and counted steps; ``calls``: calls that a hook saw, or facts of capture times
    counted replays.
    """

    KERNELS = "kernels"
    CENSUS = "census"
    LEDGER = "ledger"
    CALLS = "calls"
    NONE = "none"


class RuleOutcome(StrEnum):
    """How one rule of a rules file ended; ``INCONCLUSIVE`` is absence of evidence, never a pass."""

    HOLDS = "holds"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


FAMILIES: tuple[Family, ...] = tuple(Family)
PHASES: tuple[Phase, ...] = tuple(Phase)
GRAPH_MODES: tuple[GraphMode, ...] = tuple(GraphMode)
