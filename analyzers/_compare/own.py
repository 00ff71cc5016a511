"""The part of a traced change that a fast path can have made: the kernels it acts on, and idle time if it launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.fastpaths import fast_paths
from m3probe.model.compare_report import Part, PhaseChange

ALL, SMALL = 0.95, 0.1
IDLE_TIME = "idle time"


@dataclass(frozen=True, slots=True)
class Own:
    """What of one group of steps is a path's.

    Args:
        words: the kernels, or idle time, in words.
        delta_ns: after - before of them, per step.
        share: of the step's change; None where the step did not change.
    """

    words: str
    delta_ns: float
    share: float | None
    change: PhaseChange


def own_part(paths: Sequence[str], changes: Sequence[PhaseChange]) -> Own | None:
    """Of the group with the most steps; None where it has no times, or no path of them says what it acts on."""
    known = sorted((c for c in changes if c.delta_ns is not None), key=lambda c: -min(c.steps_before, c.steps_after))
    names, idle = acts_on(paths)
    if not known or not (names or idle):
        return None
    change = known[0]
    parts = [part for part in change.families if part.name in names]
    parts += [part for part in change.parts if part.what == "idle" and idle]
    told = [part for part in parts if part.delta_ns is not None]
    if not told or len(told) < len(parts):
        return None
    total = sum(part.delta_ns or 0.0 for part in told)
    return Own(_words(told), total, total / change.delta_ns if change.delta_ns else None, change)


def acts_on(paths: Sequence[str]) -> tuple[frozenset[str], bool]:
    """(families of kernels, whether idle time is theirs too)."""
    shelf = [fast_paths()[name] for name in paths if name in fast_paths()]
    names = {str(f) for path in shelf for f in (path.acts_on or ((path.family,) if path.family else ()))}
    return frozenset(names), any(path.launches for path in shelf)


def _words(parts: Sequence[Part]) -> str:
    kernels = [part.name for part in parts if part.what == "family"]
    idle = [part for part in parts if part.what == "idle"]
    said = [f"{', '.join(kernels)} kernels"] if kernels else []
    return " and ".join([*said, *([IDLE_TIME] if idle else [])])


def own_words(own: Own) -> str:
    """In one clause: time a step, share of the step's change, and that the rest is not its."""
    change = own.change.delta_ns or 0.0
    if own.share is None:
        return f"{own.words} take {own.delta_ns / 1e3:+,.1f} us a step"
    rest = "" if own.share > ALL else ", what is left is not its"
    share = f"{100 * own.share:.1f}" if own.share < SMALL else f"{100 * own.share:.0f}"
    are = "is" if own.words == IDLE_TIME else "are"
    return f"{own.words} {are} {share} % of the change of {change / 1e6:+,.3f} ms a step ({own.delta_ns / 1e3:+,.1f} us){rest}"
