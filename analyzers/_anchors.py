"""Calls of each variant of a fast path, counted per place by the launches of its anchor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import translate

import numpy as np

from m3probe.analyzers._places import Places
from m3probe.kernels.demangle import demangle
from m3probe.model.executed import Executed
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.paths import Anchor, FastPath, Layers, Role, Variant
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES

_WILD = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")
UNTOLD_MODE = Variant(name="mode not told", role=Role.FAST, anchors=())


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one variant.

    ``per_place`` int64 [places]; ``unrecorded``: how many of them the census alone proves, [places]; ``table`` and
    ``rows``: where they stand. One entry per call: its ``place`` (-1 outside of all), ``anchor`` (index into
    ``names``), ``sizes`` (kernels of a graph launch; None for other calls)
    and ``grid`` (id of a kernel's grid, -1 where it is not known; None for graph launches).
    """

    variant: Variant
    per_place: Array
    unrecorded: Array
    table: str
    rows: Array
    place: Array
    anchor: Array
    names: tuple[str, ...]
    sizes: Array | None = None
    grid: Array | None = None


class Names:
    """Kernel names of what ran, demangled and lower-cased once for all paths."""

    def __init__(self, rec: Recording, ran: Executed) -> None:
        self.ran = ran
        self.ids = np.unique(ran.name)
        self.shown = [demangle(name) for name in rec.strings.of(self.ids.tolist())]
        self.lower = [name.lower() for name in self.shown]
        self._all = "\n".join(self.lower)

    def rows(self, globs: Iterable[str]) -> tuple[Array, tuple[str, ...]]:
        """(rows of what ran, names) whose lower-cased name one of the globs matches as a whole."""
        hit = sorted({i for glob in globs for i in self._matched(glob)})
        if not hit:
            return np.empty(0, dtype=np.int64), ()
        return np.flatnonzero(np.isin(self.ran.name, self.ids[hit])), tuple(self.shown[i] for i in hit)

    def _matched(self, glob: str) -> list[int]:
        """Indices of the names; ``in`` takes a tenth of the time of a regex and tells nearly all of them."""
        word = max(_WILD.split(glob), key=len)
        if word not in self._all:  # most globs: one look in place of one a name, of which a file may have a million
            return []
        whole = re.compile(translate(glob)).match
        return [i for i, name in enumerate(self.lower) if word in name and whole(name)]


def calls_of(rec: Recording, path: FastPath, names: Names, where: Places) -> list[Calls]:
    """Every variant of a path that ran at all."""
    if path.counted_by is Anchor.GRAPH_LAUNCH:
        return _graph_launches(rec, path, where)
    if path.counted_by is Anchor.NONE:
        return []
    found = [_kernel_calls(rec, variant, names, where) for variant in path.variants]
    return [calls for calls in found if len(calls.rows)]


def total_of(path: FastPath, calls: Iterable[Calls], where: Places) -> Array:
    """Executions of the path per place, int64 [places]: a fallback's calls are none, unless the path asks which ran."""
    none = np.zeros(len(where), dtype=np.int64)
    return sum((c.per_place for c in calls if path.executes(c.variant)), none)


def _kernel_calls(rec: Recording, variant: Variant, names: Names, where: Places) -> Calls:
    rows, shown = names.rows(variant.anchors)
    if variant.beside and len(rows) and not len(names.rows(variant.beside)[0]):
        rows, shown = rows[:0], ()
    if variant.verifies:
        rows = _verifying(rec, names, rows)
    if variant.in_layers is None:
        return _calls(variant, names, where, rows, shown)
    per_layer, layers_shown = names.rows(variant.layers)
    anchor, layer = _at(names, where, rows), _at(names, where, per_layer)
    made, could = where.count(anchor), where.count(layer)
    if variant.in_layers is Layers.EVERY:
        return _calls(variant, names, where, rows[np.isin(anchor, np.flatnonzero((made > 0) & (made == could)))], shown)
    skipped = np.where((made > 0) & (could > made), could - made, 0)
    found = _calls(variant, names, where, per_layer[np.isin(layer, np.flatnonzero(skipped))], layers_shown)
    return replace(found, per_place=skipped)


def _at(names: Names, where: Places, rows: Array) -> Array:
    return where.of(names.ran.step[rows], names.ran.file[rows])


def _verifying(rec: Recording, names: Names, rows: Array) -> Array:
    """The rows whose step decodes more tokens than requests: each request verifies drafted tokens."""
    step = names.ran.step[rows]
    verifies = np.append(rec.steps["gen_tokens"] > rec.steps["gen_reqs"], False)  # the last answers for -1
    kept: Array = rows[verifies[step]]
    return kept


def _calls(variant: Variant, names: Names, where: Places, rows: Array, shown: tuple[str, ...]) -> Calls:
    ran = names.ran.at(rows)
    place = where.of(ran.step, ran.file)
    unrecorded = ran.kernel == NONE
    table, ids = ("graphs", ran.census) if unrecorded.all() else ("kernels", ran.kernel)
    return Calls(
        variant=variant,
        per_place=where.count(place),
        unrecorded=where.count(place[unrecorded]),
        table=table,
        rows=ids[ids != NONE],
        place=place,
        anchor=np.searchsorted(np.unique(ran.name), ran.name),
        names=shown,
        grid=ran.grid,
    )


def _graph_launches(rec: Recording, path: FastPath, where: Places) -> list[Calls]:
    launches = rec.launches
    rows = np.flatnonzero(rec.graph_launches & ~rec.unseen_replays)
    place = where.of(launches["step"][rows], launches["file"][rows])
    mode = np.full(len(where) + 1, NONE)  # the last entry answers for -1, outside of all places
    mode[: len(rec.steps)] = rec.steps["graph_mode"]
    captured = np.bincount(rec.graphs["graph"]) if len(rec.graphs) else np.zeros(1, dtype=np.int64)
    graph = launches["graph"][rows]
    sizes = np.where(graph != NONE, captured[np.maximum(graph, 0)], launches["kernels"][rows])
    unrecorded = launches["kernels"][rows] < sizes
    of_mode = {GRAPH_MODES.index(m): v for v in path.variants for m in GRAPH_MODES if str(m) in v.anchors}
    found = []
    for index, variant in [*of_mode.items(), (NONE, UNTOLD_MODE)]:
        here = np.flatnonzero((mode[place] == index) & (place >= 0))
        if len(here):
            at = place[here]
            late = where.count(at[unrecorded[here]])
            zeros = np.zeros(len(at), dtype=np.int64)
            found.append(Calls(variant, where.count(at), late, "launches", rows[here], at, zeros, (), sizes[here]))
    return found


def unnamed(path: FastPath, names: Names, calls: list[Calls]) -> tuple[str, ...]:
    """Kernels of the path's family that no variant knows, as anchor or otherwise."""
    if path.family is None:
        return ()
    mine = np.unique(names.ran.name[names.ran.family == FAMILIES.index(path.family)])
    counted = {name for call in calls for name in call.names}
    rows = np.flatnonzero(np.isin(names.ids, mine)).tolist()
    # A variant whose anchors serve other models too knows its kernels only where it was proven to run.
    certain = [v for v in path.variants if not v.beside or any(call.variant is v for call in calls)]
    strangers = [i for i in rows if not any(v.knows(names.lower[i]) for v in certain)]
    return tuple(names.shown[i] for i in strangers if names.shown[i] not in counted)
