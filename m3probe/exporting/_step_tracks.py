"""Steps of a trace: as the host made them, as the device ran them, which family filled the time, which path ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._anchors import Names, calls_of, total_of
from m3probe.analyzers._places import places
from m3probe.exporting._kernel_tracks import FAMILY_WORDS, PHASE_WORDS, Drawn
from m3probe.exporting._track import SLICES, Arg, Track
from m3probe.fastpaths import fast_paths
from m3probe.model.executed import executed
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import GRAPH_MODES

_FACTS = ("rows", "requests", "ctx_reqs", "ctx_tokens", "gen_reqs", "gen_tokens", "graph_launches")


def steps(drawn: Drawn) -> Iterator[Track]:
    """Annotations of the host."""
    table, rows = drawn.rec.steps, drawn.rows("steps")
    if not len(rows):
        return
    modes = tuple(map(str, GRAPH_MODES))
    args = (
        Arg("step", rows),
        Arg("phase", table["phase"][rows], PHASE_WORDS),
        Arg("graph mode", table["graph_mode"][rows], modes),
        *(Arg(key, table[key][rows]) for key in _FACTS),
    )
    start, texts = drawn.when.of("steps", rows), drawn.rec.strings.texts
    yield Track(
        drawn.group, "steps (host)", SLICES, start, table["name"][rows], texts, table["dur_ns"][rows], args, nested=True
    )


def phases(drawn: Drawn, spans: Spans) -> Iterator[Track]:
    """The phase that the device is in: each step from its first GPU work to its last, or to the next step's first."""
    rows = drawn.rows("steps")
    ran, begin, dur = spans.of(drawn, rows)
    phase, number = drawn.rec.steps["phase"][rows[ran]], Arg("step", rows[ran])
    yield Track(drawn.group, "phases (GPU)", SLICES, begin, phase, PHASE_WORDS, dur, (number,))


class Spans:
    """First start and last end of each step's own GPU work, on the clock of its file, cut where the next one begins."""

    def __init__(self, rec: Recording) -> None:
        count = len(rec.steps)
        first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        for table, sound in (
            (rec.kernels, rec.kernels["timed"]),
            (rec.transfers, (rec.transfers["start_ns"] != 0) & (rec.transfers["dur_ns"] >= 0)),
        ):
            rows = np.flatnonzero(sound & (table["step"] >= 0))
            np.minimum.at(first, table["step"][rows], table["start_ns"][rows])
            np.maximum.at(last, table["step"][rows], table["start_ns"][rows] + table["dur_ns"][rows])
        self.seen = first <= last
        self.first, self.last = first, last

    def of(self, drawn: Drawn, rows: Array) -> tuple[Array, Array, Array]:
        """(which of ``rows`` had GPU work, start, duration), on the time line and in order of time."""
        at = np.flatnonzero(self.seen[rows])
        at = at[np.argsort(self.first[rows[at]], kind="stable")]
        first, last = self.first[rows[at]], self.last[rows[at]]
        following = np.append(first[1:], np.iinfo(np.int64).max)
        return at, first + drawn.when.offset_ns[drawn.file], np.minimum(last, following[: len(last)]) - first


def families(drawn: Drawn) -> Iterator[Track]:
    """Which family fills the time of each device: kernels in order of start, neighbours of one family as one slice."""
    kernels, rows = drawn.rec.kernels, drawn.rows("kernels")
    rows = rows[kernels["timed"][rows]]
    for device in np.unique(kernels["device"][rows]).tolist():
        here = rows[kernels["device"][rows] == device]
        here = here[np.argsort(kernels["start_ns"][here], kind="stable")]
        start, family = drawn.when.of("kernels", here), kernels["family"][here]
        first = np.flatnonzero(np.append(True, family[1:] != family[:-1]))
        end = np.maximum.reduceat(
            start + kernels["dur_ns"][here], first
        )  # of its own kernels, whatever runs beside them
        begin, following = start[first], np.append(start[first][1:], np.iinfo(np.int64).max)
        last = np.append(first[1:], len(here)) - 1
        dur = np.minimum(end, following) - begin
        count = Arg("kernels", last - first + 1)
        title = f"families GPU {device}"
        runs = Track(drawn.group, title, SLICES, begin, family[first], FAMILY_WORDS, dur, (count,))
        yield runs.at(np.flatnonzero(dur > 0))  # a kernel of no time fills none, and would stand beside the next


class PathTracks:
    """Verdict of each path in each step: its cell's, beside the calls that the step itself shows."""

    def __init__(self, rec: Recording, answer: Answer, spans: Spans) -> None:
        section = answer.section(PathsSection)
        rows = section.paths if section else ()
        # a path that no kernel, call or setting told of would be a track of nothing but "unproven"
        self._rows = [row for row in rows if any(c.calls or c.verdict not in {"off", "unproven"} for c in row.cells)]
        self._spans = spans
        self._where = places(rec)
        self._names = Names(rec, executed(rec)) if self._rows else None

    def of(self, drawn: Drawn) -> Iterator[Track]:
        """One track for each path that is not off."""
        steps_here = drawn.rows("steps")
        if not len(steps_here):
            return
        ran, start, dur = self._spans.of(drawn, steps_here)
        for row in self._rows:
            found = self._words(drawn, row, steps_here[ran])
            if found is not None:
                kept, names, texts, calls = found
                args = (Arg("step", steps_here[ran][kept]), Arg("calls in this step", calls))
                title = f"path {row.id}"
                yield Track(drawn.group, title, SLICES, start[kept], names, texts, dur[kept], args)

    def _words(self, drawn: Drawn, row: PathRow, rows: Array) -> tuple[Array, Array, list[str], Array] | None:
        """(which of ``rows`` it was judged in, ids of the words, the words, calls)."""
        rec = drawn.rec
        rank = rec.files[drawn.file].rank
        cells = {cell.phase: cell for cell in row.cells if cell.rank == rank}
        words = {phase: _word(cell) for phase, cell in cells.items()}
        texts = sorted(set(words.values()))
        of_phase = np.array([texts.index(words[p]) if p in words else NONE for p in PHASE_WORDS])
        ids = of_phase[rec.steps["phase"][rows]]
        kept = np.flatnonzero(ids != NONE)
        path = fast_paths().get(row.id)
        if not len(kept):
            return None
        calls = np.full(len(rows), NONE, dtype=np.int64)
        if path is not None and self._names is not None:
            found = calls_of(rec, path, self._names, self._where)
            calls = total_of(path, found, self._where)[: len(rec.steps)][rows] if found else calls
        return kept, ids[kept], texts, calls[kept]


def _word(cell: PathCell) -> str:
    said = f"{cell.verdict}: {cell.variant}" if cell.variant else cell.verdict
    return said if cell.executed in {0, cell.steps} else f"{said} ({cell.executed:,} of {cell.steps:,} steps)"
