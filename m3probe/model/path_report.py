"""Question 4 in a report: fast paths, their cells, gates, and the configuration they were held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from m3probe.schema.gates import GateState


@dataclass(frozen=True, slots=True)
class PathCell:
    """One path on one rank in one phase.

    ``absent``: steps that surely made no call (runtime calls recorded, nothing that hides kernels, every
    name of the path seen in a real trace before). ``decides``: the phase's verdict counts for the row.
    """

    rank: int | None
    phase: str
    verdict: str
    variant: str
    steps: int
    executed: int
    calls: int
    absent: int
    decides: bool


@dataclass(frozen=True, slots=True)
class PathRow:
    """One fast path (or one of its variants): verdict, counts and evidence."""

    id: str
    title: str
    verdict: str
    variant: str
    counts: Mapping[str, int]
    configured: str
    eligible: str
    reasons: tuple[str, ...]
    evidence: tuple[str, ...]
    names_from_source: bool
    by_phase: Mapping[str, str] = field(default_factory=dict)
    cells: tuple[PathCell, ...] = ()
    gates: tuple[str, ...] = ()
    """What must hold before an executed path is correct; ``correct`` is what they say together."""
    correct: GateState = GateState.UNPROVEN


@dataclass(frozen=True, slots=True)
class GateRow:
    """One correctness gate: ``holds``, ``broken`` or ``unproven``, with its numbers."""

    id: str
    title: str
    verdict: GateState
    text: str


@dataclass(frozen=True, slots=True)
class RecipeRow:
    """The configuration that paths were held against.

    Args:
        source: the file it was read from.
        vllm: the build's version, None where it is not known; ``rules``: how many of its rules are, and from where.
        gpu: the accelerator it was judged for.
        contradicts: what of the recording says that this is not the configuration it ran with.
        warnings: settings without effect, misspelt names, contradictions.
        assumed: what nobody said.
    """

    source: str
    vllm: str | None
    rules: str
    gpu: str
    contradicts: tuple[str, ...]
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathsSection:
    """Question 4; ``recipe`` is None where nobody gave the server's configuration."""

    paths: tuple[PathRow, ...]
    gates: tuple[GateRow, ...] = ()
    recipe: RecipeRow | None = None
