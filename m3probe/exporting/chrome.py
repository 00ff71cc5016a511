"""Chrome JSON, the twin of the Perfetto file in the words of torch's profiler: one file for each trace that was read.

``m3probe analyze`` reads it back: steps, operators, calls, kernels and copies are the events they came from. One file
holds one rank, as it does everywhere: correlations are unique within a process alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from m3probe.errors import UsageError
from m3probe.exporting._chrome_events import events
from m3probe.exporting._chrome_tracks import Threads, drawn
from m3probe.exporting._format import Export, Format, Written
from m3probe.exporting._place import MANIFEST
from m3probe.exporting._said import manifest, wrote_something
from m3probe.exporting._timeline import ALL, Timeline, timeline
from m3probe.exporting._track import Track
from m3probe.exporting._when import NOWHERE
from m3probe.model.export_report import WroteRow
from m3probe.model.recording import Recording

_SUFFIXES = (".json", ".json.gz")
_LINES = 4096


def folder(out: Path | None, paths: Sequence[Path]) -> bool:
    """One file where ``--out`` is named like one, or one trace was given; else a folder of them."""
    if out is not None:
        return not out.name.endswith(_SUFFIXES)
    return len(paths) != 1 or paths[0].is_dir()


def write(export: Export, path: Path) -> Written:
    """Each trace file as one of its own.

    Raises:
        UsageError: one file was asked for, and there are several traces.
        UnreadableInput: nothing of the recording has a time.
    """
    line = timeline(export)
    files: list[int | None] = list(line.groups) or [None]
    if path.is_dir():
        wrote = [_write(line, file, path / name, name) for file, name in zip(files, _names(export, files), strict=True)]
        (path / MANIFEST).write_text(json.dumps(manifest(export), indent=1) + "\n", encoding="ascii")
    elif len(files) > 1:
        what = f"there are {len(files):,} traces, and a Chrome file holds one"
        raise UsageError(what, where=f"--out {export.name}", next_move="Name a folder: --out NAME without .json")
    else:
        wrote = [_write(line, files[0], path, export.name)]
    wrote_something(export, sum(row.rows for row in wrote))
    return tuple(wrote), line.left_out()


def _names(export: Export, files: Sequence[int | None]) -> list[str]:
    """``rank3.trace.json.gz``, which our reader takes the rank from too; with a number where a rank has several."""
    made: list[str] = []
    for file in files:
        rank = None if file is None else export.rec.files[file].rank
        name = "trace" if rank is None else f"rank{rank}"
        same = sum(other.partition(".")[0] == name for other in made)
        made.append(f"{name}.{same}.trace.json.gz" if same else f"{name}.trace.json.gz")
    return made


def _write(line: Timeline, file: int | None, path: Path, name: str) -> WroteRow:
    rows = 0
    with _opened(path, name) as out:
        out.write(_head(line.export, file))
        held: list[str] = []
        first = True
        for event in _events(line, file):
            held.append(event)
            rows += 1
            if len(held) >= _LINES:
                out.write(_joined(held, first=first))
                held, first = [], False
        out.write(_joined(held, first=first) + b"\n]}\n")
    return WroteRow(name, rows, path.stat().st_size)


def _joined(held: list[str], *, first: bool) -> bytes:
    text = ",\n".join(held)
    return (text if first or not held else f",\n{text}").encode()


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    if not name.endswith(".gz"):
        with path.open("wb") as plain:
            yield plain
        return
    from isal import igzip

    with path.open("wb") as raw, igzip.IGzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        yield packed


def _events(line: Timeline, file: int | None) -> Iterator[str]:
    threads = Threads()
    offset = 0 if file is None else int(line.when.offset_ns[file])
    if offset != NOWHERE:
        for track in line.ready(_tracks(line, file)):
            yield from drawn(track, threads, offset)
    if file is not None:
        yield from events(line.export.rec, file)


def _tracks(line: Timeline, file: int | None) -> Iterator[Track]:
    """What was judged of one file; what is of none goes into the first."""
    first = file is None or file == line.first
    if first:
        yield from line.shared()
    own = ALL if file is None else line.groups[file]
    for track in line.findings():
        if track.group == own or (first and track.group == ALL):
            yield track
    if file is not None:
        yield from line.judged(file)


def _head(export: Export, file: int | None) -> bytes:
    """The object up to its events, in kineto's words."""
    rec = export.rec
    head: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
    said = manifest(export)
    if file is not None:
        counts = rec.files[file].counts
        head |= _of_file(rec, file)
        said |= {"events_lost": counts.lost_events, "truncated": counts.truncated}  # our reader takes these over
    head["m3probe"] = said
    return (json.dumps(head)[:-1] + ',"traceEvents":[\n').encode()


def _of_file(rec: Recording, file: int) -> dict[str, Any]:
    source, meta = rec.files[file], rec.meta
    said = {"backend": meta.backend, "rank": source.rank, "world_size": source.world_size}
    head: dict[str, Any] = {
        **meta.versions,
        **meta.flags,
        "deviceProperties": [
            {
                "id": device.index,
                "name": device.name,
                "totalGlobalMem": device.memory_bytes,
                "computeMajor": device.compute_major,
                "computeMinor": device.compute_minor,
                "warpSize": device.warp_size,
                "numSms": device.units,
            }
            for device in meta.devices
        ],
        "distributedInfo": {key: value for key, value in said.items() if value not in {None, ""}},
    }
    if source.base_time_ns is not None:
        head["baseTimeNanoseconds"] = source.base_time_ns
    return head


FORMAT = Format("Chrome JSON", (".m3probe.json.gz", "-chrome"), folder, write, read=True)
