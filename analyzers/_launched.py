"""Whether launches of a path's anchors look as the path says, by their grids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from m3probe.analyzers._anchors import Calls
from m3probe.analyzers._places import Places
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.paths import FastPath
from m3probe.schema.setup import Held, Met


def launch_lines(rec: Recording, path: FastPath, calls: Sequence[Calls], where: Places) -> tuple[str, ...]:
    """One line per answer: ``one workgroup per request: yes in 54 launches (...)``; () for a path that asks nothing."""
    if path.launch is None:
        return ()
    answers = _answers(rec, path, calls, where)
    lines = []
    for held in (Held.NO, Held.YES, Held.UNKNOWN):
        found = Counter({text: n for (state, text), n in answers.items() if state is held})
        if found:
            text, _ = found.most_common(1)[0]
            word = "cannot tell" if held is Held.UNKNOWN else str(held)
            lines.append(f"{path.launch.claim}: {word} in {found.total():,} launches ({text})")
    return tuple(lines)


def _answers(rec: Recording, path: FastPath, calls: Sequence[Calls], where: Places) -> Counter[tuple[Held, str]]:
    """Launches by answer; equal launches are asked once."""
    found: Counter[tuple[Held, str]] = Counter()
    requests = rec.steps["requests"]
    for call in calls:
        if call.grid is None:
            continue
        seen = Counter(zip(call.anchor.tolist(), call.grid.tolist(), call.place.tolist(), strict=True))
        for (anchor, grid, place), n in seen.items():
            if grid != NONE and 0 <= place < len(requests):
                met = _asked(rec, path, call.names[anchor], grid, int(where.rows[place]), int(requests[place]))
                found[met.held, met.text] += n
    return found


def _asked(rec: Recording, path: FastPath, kernel: str, grid: int, rows: int, requests: int) -> Met:
    assert path.launch is not None
    x, y, z = (*rec.dims[grid], 1, 1, 1)[:3]
    return path.launch.check(kernel, (x, y, z), rows, requests)
