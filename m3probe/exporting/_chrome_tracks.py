"""What was judged, as Chrome events of categories that no reader of traces takes for records of the profiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from m3probe.exporting._chrome_events import us
from m3probe.exporting._track import COUNTER, Track
from m3probe.present.escape import safe

CATEGORY = "m3probe"
_FIRST_PID = 2**30
"""Processes of our own tracks: above every pid of Linux (2**22) and every number of a device."""


class Threads:
    """Numbers of groups and tracks, each told once by events of metadata."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._tid = 0

    def of(self, track: Track) -> tuple[int, int, list[str]]:
        """(pid, tid, events that name them)."""
        said = []
        if track.group not in self._pids:
            self._pids[track.group] = _FIRST_PID + len(self._pids)
            said.append(_meta("process_name", self._pids[track.group], 0, f"m3probe: {safe(track.group)}"))
        self._tid += 1
        pid = self._pids[track.group]
        if track.kind != COUNTER:
            said.append(_meta("thread_name", pid, self._tid, safe(track.name)))
            sort = {"sort_index": self._tid}
            said.append(
                json.dumps({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": self._tid, "args": sort})
            )
        return pid, self._tid, said


def _meta(what: str, pid: int, tid: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})


def drawn(track: Track, threads: Threads, offset_ns: int) -> Iterator[str]:
    """One track; ``offset_ns`` is what the file's own clock lacks to the time line's."""
    pid, tid, said = threads.of(track)
    yield from said
    start = (track.start_ns - offset_ns).tolist()
    if track.values is not None:
        head = f'{{"ph":"C","cat":"{CATEGORY}","name":{json.dumps(safe(track.name))},"pid":{pid},"ts":'
        unit = json.dumps(track.unit or "value")
        yield from (
            f'{head}{us(at)},"args":{{{unit}:{value!r}}}}}'
            for at, value in zip(start, track.values.tolist(), strict=True)
        )
        return
    durs = repeat(None) if track.dur_ns is None else track.dur_ns.tolist()
    names = track.names.tolist() if track.names is not None else repeat(-1)
    columns = [arg.values.tolist() for arg in track.args]
    for row, (at, dur, name) in enumerate(zip(start, durs, names, strict=False)):
        args = {arg.name: _value(arg.texts, column[row]) for arg, column in zip(track.args, columns, strict=True)}
        text = safe(track.texts[name]) if name >= 0 else ""
        event = {"ph": "X" if dur is not None else "i", "cat": CATEGORY, "name": text, "pid": pid, "tid": tid}
        event["args"] = {key: value for key, value in args.items() if value is not None}  # type: ignore[assignment]
        if dur is None:
            event["s"] = "t"
        said_dur = "" if dur is None else f',"dur":{us(dur)}'
        yield f'{json.dumps(event)[:-1]},"ts":{us(at)}{said_dur}}}'


def _value(texts: Any, value: int) -> Any:
    if value == -1:
        return None
    return value if texts is None else safe(texts[value])
