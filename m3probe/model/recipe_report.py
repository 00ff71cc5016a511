"""What ``m3probe recipe`` answers: how far each fast path gets on paper, before anything runs.

Rows are tokens of one step on one rank; bytes are of one rank. None is "not known" everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEMA_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class BuildLine:
    """Where vLLM's rules come from.

    Args:
        version: the release that it is; None for a nightly or an unknown one.
        named: as the tree states its version, or as the user wrote it; empty when nobody did.
        source: ``source tree``, ``bundled table`` or ``none``.
        where: the tree's folder; empty for a table.
        counts: rules per status (``confirmed``, ``bundled``, ``absent``, ``moved``, ``unknown``).
        lost: ids of the rules that are moved or unknown: what reads them is unproven.
    """

    version: str | None
    source: str
    named: str = ""
    where: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """``vLLM 0.33.0: 39 of 39 rules from the table of exactly this release``."""
        name = f"vLLM {self.version or self.named}" if self.version or self.named else "a vLLM of unknown version"
        if self.source == "none":
            return f"{name}: no source of it and no table of exactly this release, so no rule of it is known"
        known = sum(self.counts.get(word, 0) for word in ("confirmed", "bundled", "absent"))
        tree = (
            "read from this build's source"
            if self.source == "source tree"
            else "from the table of exactly this release"
        )
        without = self.counts.get("absent", 0)
        rest = f"; {without} of them say that it has no such thing" if without else ""
        return f"{name}: {known} of {sum(self.counts.values())} rules {tree}{rest}"


@dataclass(frozen=True, slots=True)
class SetupLine:
    """The server as it was understood."""

    model: str
    is_minimax_m3: bool
    linear_quant: str | None
    moe_quant: str | None
    gpu: str
    gfx: str | None
    units: int | None
    tp: int
    pp: int
    dp: int
    ep: int
    nodes: int | None
    spec_tokens: int


@dataclass(frozen=True, slots=True)
class WorkPoint:
    """One kind of step of the workload; ``label`` says which (``decode, 128 requests``)."""

    phase: str
    rows: int
    requests: int
    label: str


@dataclass(frozen=True, slots=True)
class NeedLine:
    """One need at one point: ``yes``, ``no`` or ``unknown``, with its numbers."""

    need: str
    held: str
    text: str
    when: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows over which a path's state and its reasons are the same (both ends belong to it)."""

    first: int
    last: int
    state: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AtPoint:
    """A path at one point of the workload.

    Args:
        expected: calls per step by variant, where the formula can be worked out.
    """

    point: WorkPoint
    state: str
    needs: tuple[NeedLine, ...]
    expected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PathLine:
    """One fast path on paper.

    Args:
        state: the worst over the workload's points.
        asked: which words of the setup ask for it, or why none does.
        by_phase: state over rows, per phase, without gaps.
        at: needs at each point of the workload.
        gates: what must hold before it may be called correct; none can be answered on paper.
    """

    id: str
    title: str
    state: str
    asked: str
    by_phase: Mapping[str, tuple[Segment, ...]]
    at: tuple[AtPoint, ...]
    instead: str
    gates: tuple[str, ...]
    names_from_source: bool


@dataclass(frozen=True, slots=True)
class BackendRange:
    """All-reduces of so many rows and the backend they take; ``last`` None: without end.

    ``points``: labels of the workload's points that fall in it.
    """

    first: int
    last: int | None
    backend: str | None
    why: str
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeLine:
    """One local weight and what it is multiplied by.

    Args:
        tiles: per point label, ``BM x BN x BK, warps w, stages s``; only for the native MXFP8 kernel.
        tuned: per point label, ``tuned`` or ``default`` with the key that was looked up.
    """

    module: str
    layers: int
    N: int
    K: int
    experts: int | None
    top_k: int | None
    tiles: Mapping[str, str] = field(default_factory=dict)
    tuned: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """Bytes of one rank.

    Args:
        main: K and V of one token over all layers.
        index: index keys of one token over the sparse layers.
        weights: parameters by the predicted shapes, scales included.
        budget: device memory x utilisation.
        tokens_at_most: (budget - weights) / (main + index): activations, graphs and drafts not counted.
    """

    main: int
    index: int
    weights: int | None = None
    budget: int | None = None
    tokens_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class FloorLine:
    """The least that a decode step of one rank moves and takes.

    Args:
        choose_bytes: of the index: score, top-k, page table and index write; ``attend_bytes``: of the sparse attend.
        floor_ns: one component after another; ``overlapped_ns``: memory, matrix units and links side by side.
        largest: the component with the longest least time.
    """

    label: str
    rows: int
    bytes: int
    weight_bytes: int
    choose_bytes: int
    attend_bytes: int
    floor_ns: int
    overlapped_ns: int
    largest: str
    largest_ns: int


@dataclass(frozen=True, slots=True)
class FloorsLine:
    """Floors of the workload's decode steps.

    Args:
        context: key tokens of each request.
        crossover_tokens: context from which the index reads at least what the sparse attend reads.
        unknown: what the floors are without, and why.
    """

    context: int
    kv: str | None
    index: str | None
    crossover_tokens: float | None
    lines: tuple[FloorLine, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Warned:
    """Something in the setup that does not do what it says: ``kind`` is a fixed word."""

    kind: str
    text: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that a recipe and the running server do not agree on; ``flag`` may be a variable."""

    flag: str
    asked: str
    resolved: str


@dataclass(frozen=True, slots=True)
class RecipeNote:
    """The configuration that paths are held against; ``source``: its file, or what a running server said of itself.

    ``differs``: where the server of a live recording resolved something else.
    """

    source: str
    build: BuildLine
    gpu: str
    stops: tuple[str, ...]
    warnings: tuple[Warned, ...]
    assumed: tuple[str, ...]
    differs: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeReport:
    """The whole answer.

    Args:
        stops: why the engine would not start; empty: nothing known stops it.
        assumed: what was taken for granted because nobody said it.
        untold: what the input holds but does not tell (shell substitutions, secrets).
    """

    build: BuildLine
    setup: SetupLine
    points: tuple[WorkPoint, ...]
    stops: tuple[str, ...]
    paths: tuple[PathLine, ...]
    all_reduce: tuple[BackendRange, ...]
    shapes: tuple[ShapeLine, ...]
    memory: MemoryLine | None
    warnings: tuple[Warned, ...]
    assumed: tuple[str, ...]
    untold: tuple[str, ...]
    required: tuple[tuple[str, bool, str], ...] = ()
    floors: FloorsLine | None = None
    schema_version: str = SCHEMA_VERSION

    def path(self, name: str) -> PathLine:
        """One path by its id; KeyError when there is none."""
        return next(line for line in self.paths if line.id == name)
