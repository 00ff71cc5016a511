"""What a fast path is, as data: how it is asked for, what it needs, and which kernels prove it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Family, Phase


class Role(StrEnum):
    """Whether a variant is what a configuration hopes for, or what runs instead."""

    FAST = "fast"
    FALLBACK = "fallback"


class Anchor(StrEnum):
    """What one call of a path is counted by."""

    KERNEL = "kernel"
    GRAPH_LAUNCH = "graph_launch"
    NONE = "none"
    """No kernel is its own: a hook, a live object or a counter has to tell."""


class Layers(StrEnum):
    """In how many of the layers that could make a call a variant makes one."""

    EVERY = "every"
    SOME = "some"


class When(StrEnum):
    """When a need is asked: at start (else the engine does not come up), after load, or at each call."""

    START = "start"
    LOAD = "load"
    CALL = "call"


Check = Callable[[Setup, Point], Met]
"""A small predicate over named facts; those asked at start or load ignore the point."""


Expected = Callable[[Setup, Point], int | None]
"""Calls of one step of this kind on one rank; None where the setup does not tell."""


@dataclass(frozen=True, slots=True)
class Need:
    """One condition for eligibility.

    Args:
        text: the condition in words; it holds the numbers of its source.
        check: judges it; None where nothing but a run can tell.
        when: at which moment vLLM asks.
        rules: ids of the source rules (``m3probe.vllm_source``) that ``check`` reads: when one of them is
            unknown on a build, so is the need.
    """

    text: str
    check: Check | None = None
    when: When = When.LOAD
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether a configuration asks for a path, and by which words of it.

    ``wasted``: settings for it are there, and reach nothing on this build.
    """

    state: Held
    text: str
    wasted: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """A published effect, with its source; single measurements only unless the text says bundle."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class LaunchCheck:
    """What the launch of an anchor must look like.

    Args:
        claim: in words.
        check: (kernel name, grid in workgroups, rows and requests of its step) -> yes, no or unknown with its numbers.
    """

    claim: str
    check: Callable[[str, tuple[int, int, int], int, int], Met]


@dataclass(frozen=True, slots=True)
class Variant:
    """One implementation of a path and the kernels it leaves in a trace.

    Args:
        name: as shown to the user.
        role: ``fast`` or ``fallback``.
        anchors: globs on lower-cased demangled kernel names (graph modes where the path is counted by
            graph launches); their launches are the calls. One call launches one anchor.
        also: globs of its other kernels: shown, never counted.
        beside: when given, anchors count only in a recording that holds one of these kernels too: the
            anchor alone serves other models as well.
        vendor: ``amd``, ``nvidia``, or empty for both.
        needs: what its guards ask for.
        layers: globs of the kernel that each layer launches which could make a call; with ``in_layers``.
        in_layers: ``some``: the variant is what layers did *without* the anchor, and its calls are the launches of
            ``layers`` in excess of the anchor's; ``every``: its calls are the anchor's where both are equal.
        verifies: counts only in steps with more decode rows than decode requests (drafted tokens are verified).
        calls_per_step: how often a step calls it, as a formula over layer counts.
        expected: that formula, worked out for a setup.
        names_from_source: no anchor was ever seen in a real trace, so that no match proves nothing.
        source: where anchors and needs were read.
        vllm: versions that hold it.
        note: what a reader of a trace must know.
    """

    name: str
    role: Role
    anchors: tuple[str, ...]
    also: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    vendor: str = ""
    needs: tuple[Need, ...] = ()
    layers: tuple[str, ...] = ()
    in_layers: Layers | None = None
    verifies: bool = False
    calls_per_step: str = ""
    expected: Expected | None = None
    names_from_source: bool = False
    source: str = ""
    vllm: str = ""
    note: str = ""

    def counts(self, kernel: str) -> bool:
        """Whether a launch of this kernel (lower-cased demangled name) is one call."""
        return any(fnmatchcase(kernel, glob) for glob in self.anchors)

    def knows(self, kernel: str) -> bool:
        """Whether this kernel is one of the variant's, counted or not."""
        return self.counts(kernel) or any(fnmatchcase(kernel, glob) for glob in self.also)

    def stands_beside(self, kernel: str) -> bool:
        """Whether this kernel tells that the anchors belong to this path."""
        return any(fnmatchcase(kernel, glob) for glob in self.beside)


@dataclass(frozen=True, slots=True)
class FastPath:
    """One fast path: how it is asked for, what it needs, and what proves that it ran.

    Args:
        title: the path in words.
        question: what its verdict answers.
        configured: the settings that ask for it.
        default: what is in force when nobody sets anything.
        needs: conditions over all variants (a variant has its own besides).
        variants: in order of preference.
        counted_by: what one call is.
        family: the kernel family of the path's work; kernels of it that no variant names are told.
        decided_by: phases whose verdict is the path's; empty: all. Another phase keeps its own verdict.
        asked: whether a setup asks for it, defaults included; None: every setup does.
        chooses: the path asks which implementation ran, and each of them is an answer; otherwise it asks whether the
            fast one did, and a fallback's kernels are no execution of it.
        only_m3: it stands in MiniMax M3's model files: no other model has it.
        phases: phases in which it can run at all.
        instead: what runs when it is refused or off.
        gates: gates (m3probe/gates/) that must hold for state ``correct``.
        effects: what it was measured to bring.
        logs: log lines that state it (selection, never execution).
        functions: Python functions of vLLM or AITER that only run when it does.
        sources: PRs, issues and files at a version.
        launch: what a launch of its anchors must look like.
        acts_on: families of kernels whose time it can change (``family`` where none is named): a comparison credits it
            with no other part of a change.
        launches: it changes how steps are launched, so that idle time of the device is its matter as well.
        other_work: name, in words, of the model's work that it changes; two runs of which one ran it did other work.
    """

    title: str
    question: str
    configured: str
    default: str
    needs: tuple[Need, ...]
    variants: tuple[Variant, ...]
    counted_by: Anchor = Anchor.KERNEL
    family: Family | None = None
    decided_by: tuple[Phase, ...] = ()
    asked: Callable[[Setup], Asked] | None = None
    chooses: bool = False
    only_m3: bool = False
    phases: tuple[Phase, ...] = (Phase.PREFILL, Phase.DECODE)
    instead: str = ""
    gates: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    logs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    launch: LaunchCheck | None = None
    acts_on: tuple[Family, ...] = ()
    launches: bool = False
    other_work: str = ""

    def executes(self, variant: Variant) -> bool:
        """Whether a call of this variant is an execution of the path."""
        return self.chooses or variant.role is Role.FAST

    def fast(self, vendor: str) -> tuple[Variant, ...]:
        """The fast variants of one vendor; all of them where the vendor is not known."""
        return tuple(
            v for v in self.variants if v.role is Role.FAST and (not v.vendor or not vendor or v.vendor == vendor)
        )
