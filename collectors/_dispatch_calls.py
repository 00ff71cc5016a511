"""Calls of the table's seams: queued in vLLM's thread, counted in ours.

A call that is told by what runs inside (an all-reduce and its backend, a router GEMM and its kernel) takes the word that
the inner seam left. The layer is that of the innermost call that knows it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from m3probe.collectors._dispatch_read import Facts, Said, capturing
from m3probe.collectors._dispatch_table import BRANCHES, Branch
from m3probe.collectors._now import NOW
from m3probe.schema.records import Dispatch
from m3probe.schema.roles import Stage

MOST_QUEUED = 200_000
MOST_REASONS = 4_096
MOST_GROUPS = 400
"""Kinds of calls told in one second; what AITER's tables are asked for has a kind for each key."""


Call = tuple[str, Said, bool | None, str, int, str, str, int, Stage, Facts]
"""What a hook leaves, a plain tuple as it is made in each call: seam, what it says, the predicate's word, its reason, size,
layer, phase, descriptor, stage, facts."""


class Kind(NamedTuple):
    """What makes calls one record."""

    path: str
    seam: str
    variant: str
    eligible: bool | None
    unit: str
    phase: str
    descriptor: int
    stage: Stage
    facts: Facts


@dataclass(slots=True)
class Group:
    """Calls of one kind."""

    sizes: Counter[int] = field(default_factory=Counter)
    layers: set[str] = field(default_factory=set)
    reasons: dict[int, str] = field(default_factory=dict)


class Calls:
    """Hooks of the table's rows, and what they saw."""

    def __init__(self) -> None:
        self.dropped = 0
        self._queue: deque[Call] = deque()
        self._inside: dict[str, str] = {}
        self._layer = ""
        self._reasons: dict[tuple[Any, ...], tuple[str, Any]] = {}

    def hooks(self, seam: str, branch: Branch) -> tuple[Callable[..., Any] | None, Callable[..., None]]:
        """``before`` and ``after`` for one row of the table."""
        if branch.inside:
            return None, self._marks(branch)
        if branch.holds:
            return self._opens(seam, branch), self._sees(seam, branch)
        if branch.layer is not None:
            return self._enters(branch), self._leaves(seam, branch)
        return None, self._sees(seam, branch)

    def drain(self) -> list[Dispatch]:
        """Calls since the last time, counted."""
        groups: dict[Kind, Group] = {}
        for _ in range(len(self._queue)):
            self._add(groups, self._queue.popleft())
        return [self._record(kind, group) for kind, group in groups.items()]

    # -- in vLLM's thread ----------------------------------------------------------------------------------------

    def _marks(self, branch: Branch) -> Callable[..., None]:
        says, outer = branch.says, branch.inside
        assert says is not None

        def after(_token: Any, result: Any, *args: Any, **kwargs: Any) -> None:
            word = says(args, kwargs, result)
            if word:
                for seam in outer:
                    self._inside[seam] = word

        return after

    def _opens(self, seam: str, branch: Branch) -> Callable[..., None]:
        def before(*_args: Any, **_kwargs: Any) -> None:
            self._inside[seam] = branch.holds

        return before

    def _enters(self, branch: Branch) -> Callable[..., str]:
        layer = branch.layer
        assert layer is not None

        def before(*args: Any, **kwargs: Any) -> str:
            outer, self._layer = self._layer, layer(args, kwargs)
            return outer

        return before

    def _leaves(self, seam: str, branch: Branch) -> Callable[..., None]:
        sees = self._sees(seam, branch) if branch.says is not None else None

        def after(outer: str | None, result: Any, *args: Any, **kwargs: Any) -> None:
            try:
                if sees is not None:
                    sees(None, result, *args, **kwargs)
            finally:
                self._layer = outer or ""

        return after

    def _sees(self, seam: str, branch: Branch) -> Callable[..., None]:
        says, size_of, eligible, facts, queue = branch.says, branch.size, branch.eligible, branch.facts, self._queue
        assert says is not None

        def after(_token: Any, result: Any, *args: Any, **kwargs: Any) -> None:
            word = self._inside.get(seam, "") if branch.holds else result
            said = says(args, kwargs, word)
            if not said:
                return
            size = size_of(args, kwargs, result) if size_of is not None else -1
            held = eligible(args, kwargs, result) if eligible is not None else None
            reason = self._why(seam, branch, size, args, kwargs, result) if held is False else ""
            more = facts(args, kwargs, result) if facts is not None else ()
            if NOW.is_draft:
                more = (*more, ("draft", True))
            if NOW.stage is Stage.CAPTURE and capturing() is False:
                more = (*more, ("outside_graph", True))
            if len(queue) < MOST_QUEUED:
                queue.append((seam, said, held, reason, size, self._layer, NOW.phase, NOW.descriptor, NOW.stage, more))
            else:
                self.dropped += 1

        return after

    def _why(self, seam: str, branch: Branch, size: int, args: Any, kwargs: Any, result: Any) -> str:
        """Of each size one reason is made, as the predicate's tests are gone through again for it."""
        if branch.reason is None:
            return ""
        # predicates of no size differ by what they returned (a text); those of an object by the object
        owner = args[0] if args and not hasattr(args[0], "shape") else None
        key = (
            seam,
            id(owner),
            size,
            getattr(args[-1], "dtype", None) if args else None,
            str(result) if size < 0 else "",
        )
        held = self._reasons.get(key)
        if held is None:
            if len(self._reasons) >= MOST_REASONS:
                self._reasons.clear()
            held = self._reasons[key] = (
                branch.reason(args, kwargs, result),
                owner,
            )  # kept, so that its id stays its own
        return held[0]

    # -- in ours -------------------------------------------------------------------------------------------------

    def _add(self, groups: dict[Kind, Group], call: Call) -> None:
        seam, said, eligible, reason, size, layer, phase, descriptor, stage, facts = call
        unit = BRANCHES[seam].unit
        for path, variant in said:
            kind = Kind(path, seam, variant, eligible, unit, phase, descriptor, stage, facts)
            if kind not in groups and len(groups) >= MOST_GROUPS:
                self.dropped += 1
                continue
            group = groups.setdefault(kind, Group())
            group.sizes[size] += 1
            if layer:
                group.layers.add(layer)
            if reason:
                group.reasons[size] = reason

    @staticmethod
    def _record(kind: Kind, group: Group) -> Dispatch:
        """One record a kind; of several sizes the least and the most, and the reason of the largest that was refused."""
        facts = dict(kind.facts)
        if len(group.sizes) > 1:
            facts |= {"sizes": len(group.sizes), "least": min(group.sizes), "most": max(group.sizes)}
        return Dispatch(
            path=kind.path,
            seam=kind.seam,
            variant=kind.variant,
            eligible=kind.eligible,
            reason=group.reasons[max(group.reasons)] if group.reasons else "",
            size=next(iter(group.sizes)) if len(group.sizes) == 1 else -1,
            unit=kind.unit,
            phase=kind.phase,
            descriptor=kind.descriptor,
            stage=kind.stage,
            count=group.sizes.total(),
            layers=len(group.layers) or -1,
            facts=facts,
        )
