"""Calls that guests saw of one fast path, each beside what its own predicate said of that size.

A call is one that a hook saw in a step, or one of capture times the counted replays of its batch. Sizes are kept apart: a
path that takes 16 MiB and refuses 64 KiB is executed for the one and declined for the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from m3probe.analyzers._ledger import CAPTURE, LOAD, SEEN, TWIN, replays_of, times_of
from m3probe.analyzers._ledger_sums import joined, once
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.paths import FastPath, Role
from m3probe.schema.verdicts import PathVerdict

OUTSIDE = '"outside_graph":true'
ONE_OF = " | "
"""Between variants where a guest sees that one of them ran, and not which."""


class Group(NamedTuple):
    """Steps of one kind: a process, a phase, a padded batch (-1: eager)."""

    file: int
    phase: str
    descriptor: int


class Size(NamedTuple):
    """Of one call; -1 where the seam does not tell it."""

    unit: str
    size: int


@dataclass(slots=True)
class Tally:
    """Calls of one size: by variant, and what a predicate said."""

    fast: Counter[str] = field(default_factory=Counter)
    fallback: Counter[str] = field(default_factory=Counter)
    unsure: Counter[str] = field(default_factory=Counter)
    """One of several variants, of which not all are fast."""
    allowed: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def ran(self) -> Counter[str]:
        """Calls of every variant."""
        return self.fast + self.fallback + self.unsure

    @property
    def asked(self) -> bool:
        """Whether a predicate said anything."""
        return bool(self.allowed or self.refused)


@dataclass(slots=True)
class Seen:
    """All of one path.

    Args:
        calls: by group and size.
        loaded: what predicates said while the model was built, by file: it holds for every call.
        how: calls by (group, variant, how they are known).
        selected: variants that were chosen at load; that proves no call.
    """

    calls: dict[Group, dict[Size, Tally]] = field(default_factory=dict)
    loaded: dict[int, Tally] = field(default_factory=dict)
    how: Counter[tuple[Group, str, str]] = field(default_factory=Counter)
    selected: Counter[str] = field(default_factory=Counter)

    def said_of(self, group: Group, size: Size) -> Tally:
        """The nearest predicate: of this size, of this kind of step where it has no size, or at load."""
        here = self.calls[group]
        for found in (here[size], *self._elsewhere(group, size)):
            if found.asked:
                return found
        return self.loaded.get(group.file, Tally())

    def _elsewhere(self, group: Group, size: Size) -> Iterator[Tally]:
        yield from (t for s, t in self.calls[group].items() if s.size == NONE or s.unit != size.unit)
        # a predicate may be asked before the batch is known
        phase = [held for g, held in self.calls.items() if g[:2] == group[:2] and g != group]
        yield from (held[size] for held in phase if size in held)
        yield from (t for held in phase for s, t in held.items() if s.size == NONE)


@dataclass(frozen=True, slots=True)
class Call:
    """Equal dispatches of one process, joined over seconds."""

    file: int
    variant: str
    eligible: int
    reason: str
    size: Size
    phase: str
    descriptor: int
    stage: str
    count: int


def seen_of(rec: Recording, name: str, path: FastPath) -> Seen:
    """Everything that the dispatches of a recording say of one path; graph replay's calls are the steps themselves."""
    replays, seen = replays_of(rec), Seen()
    for call in _dispatches(rec).get(name, ()):
        if call.stage == LOAD:
            _say(seen.loaded.setdefault(call.file, Tally()), call.eligible, call.reason, call.count)
            seen.selected[call.variant] += 1 if call.variant else 0
            continue
        for where, times in times_of(call.stage, call.file, call.descriptor, call.phase, replays).items():
            group = Group(call.file, where, call.descriptor)
            tally = seen.calls.setdefault(group, {}).setdefault(call.size, Tally())
            _say(tally, call.eligible, call.reason, call.count * times)
            if call.variant and name != "graph_replay":
                run(seen, path, group, call.size, call.variant, call.count * times, HOW[call.stage])
    return seen


@once
def _dispatches(rec: Recording) -> dict[str, list[Call]]:
    """Path -> its calls, as they were seen."""
    table, strings = rec.tables["dispatches"], rec.strings
    outside = np.array([OUTSIDE in strings[facts] for facts in np.unique(table["facts"]).tolist()], dtype=bool)
    breaks = np.unique(table["facts"])[outside] if len(table) else table["facts"]
    # what ran in a break of the graph at capture runs again, and is recorded again, in each replay
    left_out = (table["stage"] == strings.find(CAPTURE)) & np.isin(table["facts"], breaks)
    rows = np.flatnonzero(~left_out)
    keys = ("path", "file", "variant", "eligible", "reason", "unit", "size", "phase", "descriptor", "stage")
    found: dict[str, list[Call]] = {}
    for path, file, variant, eligible, reason, unit, size, phase, descriptor, stage, count in joined(
        table, rows, keys, [table["count"][rows]]
    ):
        found.setdefault(strings[path], []).append(
            Call(
                file=file,
                variant=strings[variant],
                eligible=eligible,
                reason=strings[reason],
                size=Size(strings[unit], size),
                phase=strings[phase],
                descriptor=descriptor,
                stage=strings[stage],
                count=count,
            )
        )
    return found


HOW = {
    **dict.fromkeys(SEEN, "calls seen by a hook"),
    TWIN: "seen in eager twins of graph steps",
    CAPTURE: "facts of capture x counted replays",
}


def run(seen: Seen, path: FastPath, group: Group, size: Size, variant: str, calls: int, how: str) -> None:
    """Count calls of a variant."""
    tally = seen.calls.setdefault(group, {}).setdefault(size, Tally())
    # an implementation that the catalogue does not name (a CPU's, a vendor's) is what ran; it is not the fast one
    roles = {_role(path, name) for name in variant.split(ONE_OF)}
    held = tally.fast if roles == {Role.FAST} else tally.fallback if Role.FAST not in roles else tally.unsure
    held[variant] += calls
    seen.how[group, variant, how] += calls


def verdicts(ran: Tally, said: Tally) -> Counter[PathVerdict]:
    """Calls by verdict, after the table of docs/paths.md."""
    fast, fallback, refused = ran.fast.total(), ran.fallback.total(), said.refused.total()
    found = Counter({PathVerdict.UNPROVEN: ran.unsure.total()})
    if said.allowed and refused:
        # of equal calls some were allowed: each call is taken to have been asked equally often
        due = round(said.allowed * (fast + fallback) / (said.allowed + refused))
        missed = min(max(due - fast, 0), fallback)
        found.update({PathVerdict.EXECUTED: fast, PathVerdict.MISSED: missed, PathVerdict.DECLINED: fallback - missed})
    elif refused:
        found.update({PathVerdict.UNEXPECTED: fast, PathVerdict.DECLINED: fallback})
    else:
        missed_or_not = PathVerdict.MISSED if said.allowed else PathVerdict.UNPROVEN
        found.update({PathVerdict.EXECUTED: fast, missed_or_not: fallback})
    return +found


def _role(path: FastPath, variant: str) -> Role:
    known = next((v for v in path.variants if v.name == variant), None)
    return Role.FAST if path.chooses else known.role if known is not None else Role.FALLBACK


def _say(tally: Tally, eligible: int, reason: str, calls: int) -> None:
    if eligible == 1:
        tally.allowed += calls
    elif eligible == 0:
        tally.refused[reason or "refused, no reason given"] += calls
