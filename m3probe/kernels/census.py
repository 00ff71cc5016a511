"""Matching graph replays to the census: by mode and batch size, then by kernel-name sequence.

A replay that shows its kernels must show the census graph's (the same multiset of names: graph
branches may interleave). One that shows none is matched by its place among the launches of its step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CensusGraph:
    """One captured graph: mode (FULL, PIECEWISE), padded rows (-1: not written), names in launch order."""

    graph: int
    mode: str
    padded_rows: int
    names: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """One replay and its graph; ``short`` = kernels that the census has and the record lacks."""

    graph: int
    recorded: int
    expected: int
    in_order: bool

    @property
    def short(self) -> int:
        """Kernels missing from the record of this replay."""
        return self.expected - self.recorded


def match_step(replays: Sequence[Sequence[int]], rows: int, graphs: Sequence[CensusGraph]) -> list[Match | None]:
    """Match the graph launches of one step, in launch order.

    Args:
        replays: per graph launch, the name ids of its recorded kernels in start order (empty: none).
        rows: real tokens of the step, -1 when not known.
        graphs: the census of this rank.

    Returns:
        One ``Match`` per replay; None for a launch that no census graph explains.
    """
    mode = "FULL" if len(replays) == 1 else "PIECEWISE"
    for batch in _batches(graphs, mode, rows):
        if len(batch) == len(replays):
            found = [_match(replay, graph) for replay, graph in zip(replays, batch, strict=True)]
            if all(found):
                return list(found)
    return [_by_content(replay, graphs) for replay in replays]


def _batches(graphs: Sequence[CensusGraph], mode: str, rows: int) -> list[list[CensusGraph]]:
    """Graphs of one mode by batch size: those that hold ``rows``, smallest first."""
    sizes = sorted({g.padded_rows for g in graphs if g.mode == mode and g.padded_rows >= rows})
    return [[g for g in graphs if g.mode == mode and g.padded_rows == size] for size in sizes]


def _match(replay: Sequence[int], graph: CensusGraph) -> Match | None:
    """Equal, or a part of the census graph (the profiler lost kernels); None for another graph."""
    in_order = tuple(replay) == graph.names
    if not in_order and Counter(replay) - Counter(graph.names):
        return None
    return Match(graph.graph, len(replay), len(graph.names), in_order)


def _by_content(replay: Sequence[int], graphs: Sequence[CensusGraph]) -> Match | None:
    """The first census graph with exactly these kernels; nothing is guessed for an empty replay."""
    if not replay:
        return None
    for graph in graphs:
        found = _match(replay, graph)
        if found is not None and not found.short:
            return found
    return None
