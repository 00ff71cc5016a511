"""A server as it was asked for: the named facts that a fast path's needs are judged by.

Facts come from a command line, an environment, a model's config.json and the rules of one vLLM build.
``None`` is "not known" everywhere and never False or 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from m3probe.schema.verdicts import Phase


class RuleStatus(StrEnum):
    """Where a rule's value is from: read in the installed source, or from a bundled table, or lost."""

    CONFIRMED = "confirmed"
    """Read from this build's files."""
    BUNDLED = "bundled"
    """From the table of exactly this release; no source was at hand."""
    ABSENT = "absent"
    """This build has no such thing: its value is None."""
    MOVED = "moved"
    """The source that held it looks different: unknown."""
    UNKNOWN = "unknown"
    """No source and no table for this build (a nightly is never taken for a release)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of vLLM's source.

    Args:
        value: plain JSON data; None where the status says that there is none.
        where: file:line (or file and symbol) in the vLLM tree.
    """

    status: RuleStatus
    value: Any = None
    where: str = ""

    @property
    def known(self) -> bool:
        """Whether ``value`` may be judged by (an absent thing is known to be absent)."""
        return self.status in (RuleStatus.CONFIRMED, RuleStatus.BUNDLED, RuleStatus.ABSENT)


UNKNOWN_RULE = Rule(RuleStatus.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Build:
    """One vLLM: its version (None for a nightly or an unknown one) and its rules by id."""

    version: str | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def rule(self, name: str) -> Rule:
        """The rule, or an unknown one."""
        return self.rules.get(name, UNKNOWN_RULE)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a path needs to know of the model; global sizes, not this rank's."""

    name: str = ""
    is_minimax_m3: bool = False
    hidden_size: int | None = None
    layers: int | None = None
    dense_layers: int | None = None
    moe_layers: int | None = None
    sparse_layers: int | None = None
    q_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    index_heads: int | None = None
    index_dim: int | None = None
    index_score: str | None = None
    sparse_block_tokens: int | None = None
    sparse_topk_blocks: int | None = None
    experts: int | None = None
    top_k: int | None = None
    shared_experts: int | None = None
    moe_intermediate: int | None = None
    activation: tuple[float, float, float] | None = None
    """SwiGLU-OAI (alpha, beta, limit)."""
    linear_quant: str | None = None
    """``bf16``, ``mxfp8`` or ``mxfp4``: dtype of the attention and dense weights."""
    moe_quant: str | None = None
    quant_config_class: str | None = None
    """vLLM's class, e.g. ``ModelOptMxFp8Config`` or ``QuarkConfig``."""
    max_positions: int | None = None
    dtype: str | None = None
    """The checkpoint's own (``torch_dtype``), which ``--dtype auto`` takes."""


def _is_int(text: str) -> bool:
    """Whether Python's ``int`` takes it: blanks around, a sign, and underscores between digits are allowed."""
    try:
        int(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Setup:
    """The whole of it. ``env`` and ``flags`` hold only what was set; defaults are each path's own.

    Of a running server ``flags`` hold what it resolved, defaults included (``resolved``).
    """

    build: Build = field(default_factory=Build)
    model: ModelFacts = field(default_factory=ModelFacts)
    gfx: str | None = None
    units: int | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    nodes: int | None = 1
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    draft: Mapping[str, Any] | None = None
    """Speculative config (method, model, num_speculative_tokens, attention_backend); None: no draft."""
    tuned_tables: Mapping[str, Any] = field(default_factory=dict)
    uncertain: tuple[str, ...] = ()
    """Variables and flags that a condition of the input decides: what ``env`` and ``flags`` say of them may not hold."""
    resolved: bool = False
    """A running server said it: its engine did start, and a flag may be a default that nobody asked for."""

    def on(self, name: str, default: bool | None) -> bool | None:
        """An on/off variable that vLLM reads by ``.lower() in ("true", "1")``: no blanks are taken off."""
        text = self.env.get(name)
        if text is None:
            return default
        return text.lower() in ("1", "true")

    def int_on(self, name: str, default: bool | None) -> bool | None:
        """An on/off variable that vLLM reads by ``bool(int(...))``: 2 is on; None for what stops the engine."""
        text = self.env.get(name)
        if text is None:
            return default
        return bool(int(text)) if _is_int(text) else None

    def number(self, name: str, default: int | None) -> int | None:
        """A whole-number environment variable; unset or no number is the default."""
        text = self.env.get(name, "").strip()
        return int(text) if text.lstrip("-").isdecimal() else default

    @property
    def ep(self) -> int:
        """Expert-parallel ranks: vLLM spreads the experts over tp x dp."""
        return self.tp * self.dp if self.expert_parallel else 1

    @property
    def spec_tokens(self) -> int:
        """Draft tokens verified with each token of a decode step."""
        return int((self.draft or {}).get("num_speculative_tokens") or 0)

    @property
    def kv_heads_per_rank(self) -> int | None:
        """KV heads of one rank, replicated when there are more ranks than heads."""
        heads = self.model.kv_heads
        return None if heads is None else max(1, heads // self.tp)


class Watched(Mapping[str, Any]):
    """Settings of which some are left open: remembers which of those were looked at.

    Args:
        settings: what was set.
        open_: names that a condition or an unknown value of the input decides.
        seen: filled with those that were asked for.
    """

    __slots__ = ("_open", "_seen", "_settings")

    def __init__(self, settings: Mapping[str, Any], open_: Collection[str], seen: set[str]) -> None:
        self._settings, self._open, self._seen = settings, frozenset(open_), seen

    def __getitem__(self, name: str) -> Any:
        if name in self._open:
            self._seen.add(name)
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


@dataclass(frozen=True, slots=True)
class Point:
    """One kind of call: a step of a phase with so many real rows and requests."""

    phase: Phase
    rows: int
    requests: int = 0


class State(StrEnum):
    """How far a path gets on paper; ``executed`` and ``correct`` need evidence from a run."""

    OFF = "off"
    REFUSED_AT_START = "refused_at_start"
    REFUSED = "refused"
    ELIGIBLE = "eligible"
    UNPROVEN = "unproven"
    """A fact or a rule that it hangs on is not known."""


class Held(StrEnum):
    """Whether a need is met."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Met:
    """One need judged: the sentence carries the numbers ("1,572,864 B < 16,777,216 B: bf16, TP4, INT4, cast off")."""

    held: Held
    text: str


def met(condition: bool | None, text: str) -> Met:
    """A judged need; None is "not known"."""
    return Met(Held.UNKNOWN if condition is None else Held.YES if condition else Held.NO, text)
