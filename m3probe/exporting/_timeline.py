"""All tracks of a recording and its report, group by group, in the order in which a viewer shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from m3probe.exporting import _beside_tracks as beside
from m3probe.exporting import _kernel_tracks as device
from m3probe.exporting import _step_tracks as judged
from m3probe.exporting._format import Export
from m3probe.exporting._kernel_tracks import Drawn
from m3probe.exporting._tables import held
from m3probe.exporting._track import Track, lanes, placed
from m3probe.exporting._when import NOWHERE, When, when
from m3probe.model.recording import Recording

ALL = "recording"
"""Group of findings that are of no single file."""


@dataclass(slots=True)
class Timeline:
    """The tracks of one export; as they are walked through, ``untold`` counts what found no place and ``seen`` names."""

    export: Export
    when: When
    groups: dict[int, str]
    spans: judged.Spans
    paths: judged.PathTracks
    untold: Counter[str] = field(default_factory=Counter)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def judged(self, file: int) -> Iterator[Track]:
        """What was judged of one trace file: phases, families, paths."""
        drawn = Drawn(self.export.rec, self.when, file, self.groups[file])
        yield from judged.phases(drawn, self.spans)
        yield from judged.families(drawn)
        yield from self.paths.of(drawn)

    def called(self, file: int) -> Iterator[Track]:
        """Steps and graph launches of one trace file, as the host made them; with ``--host`` all that its threads did."""
        drawn = Drawn(self.export.rec, self.when, file, self.groups[file])
        yield from judged.steps(drawn)
        yield from device.graph_launches(drawn)
        if self.export.host:
            yield from device.host(drawn)

    def kernels(self, file: int) -> Iterator[Track]:
        """The streams of one trace file."""
        yield from device.streams(Drawn(self.export.rec, self.when, file, self.groups[file]))

    def shared(self) -> Iterator[Track]:
        """What is of no trace file."""
        rec = self.export.rec
        yield from beside.queues(rec, self.when)
        yield from beside.health(rec, self.when)
        yield from beside.counted_steps(rec, self.when)

    def findings(self) -> Iterator[Track]:
        """Findings at the time of their evidence."""
        found = self.export.report.answer.findings
        yield from beside.findings(self.export.rec, self.when, found, lambda file: self.groups.get(file, ALL))

    def ready(self, tracks: Iterator[Track]) -> Iterator[Track]:
        """Tracks in order of time, overlaps side by side; empty ones are left out and what has no place is counted."""
        for track in tracks:
            whole, untimed = placed(track)
            side, crowded = lanes(whole)
            if untimed or crowded:
                self.untold[f"{track.group}: {track.name}"] += untimed + crowded
            yield from (self._named(lane) for lane in side if len(lane))

    def _named(self, track: Track) -> Track:
        """A viewer puts tracks of one name together: the second of a name gets a number."""
        key = (track.group, track.name)
        self.seen[key] += 1
        return track if self.seen[key] == 1 else replace(track, name=f"{track.name} #{self.seen[key]}")

    def left_out(self) -> tuple[str, ...]:
        """What is not on the time line, one sentence each; to be asked when all tracks were walked through."""
        why = "have no place on the time line (no time, a damaged one, or too many at once)"
        told = [f"{count:,} of {track} {why}" for track, count in self.untold.items()]
        return (*self.when.off, *told)

    @property
    def first(self) -> int | None:
        """The file that also carries what is of no file; None: there is none on the clock."""
        return next(iter(self.files), None)

    @property
    def files(self) -> list[int]:
        """Trace files that are on the clock."""
        return [file for file in self.groups if self.when.offset_ns[file] != NOWHERE]


def timeline(export: Export) -> Timeline:
    """The tracks of an export: one group for each trace file that is on the clock.

    Raises:
        UnreadableInput: the recording holds nothing.
    """
    held(export.rec)
    rec, answer = export.rec, export.report.answer
    spans = judged.Spans(rec)
    groups = {file: _group(rec, file) for file, source in enumerate(rec.files) if source.role == "rank"}
    return Timeline(export, when(rec), groups, spans, judged.PathTracks(rec, answer, spans))


def _group(rec: Recording, file: int) -> str:
    source = rec.files[file]
    same = [other for other in rec.files if other.role == source.role and other.rank == source.rank]
    word = source.role if source.rank is None else f"rank {source.rank}"
    return word if len(same) == 1 else f"{word} ({Path(source.path).name})"
