"""Idle time of the device by where it lies in a step: each place has another cause."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdlePart:
    """One place.

    Args:
        part: ``before_graph``, ``in_graph``, ``after_graph``, ``kernels`` (between kernels of steps that replay no single
            graph) or ``between_steps``.
        what: the same in words.
        level: where to look: ``launch (...)`` or ``queue``.
        ns: sum over the steps that have the place.
        share: of the step time of all steps, 0 to 1.
        steps: that have the place; between steps those that have a next one.
    """

    part: str
    what: str
    level: str
    ns: int
    share: float
    steps: int


@dataclass(frozen=True, slots=True)
class IdleSection:
    """Idle time of the steps that bounds are shares of; ``basis`` is their time in words. No parts: no step's time is known."""

    basis: str
    parts: tuple[IdlePart, ...]
