"""The device's streams, and what the host called: one track for each stream, one for each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.exporting._track import SLICES, Arg, Track
from m3probe.exporting._when import When
from m3probe.kernels.demangle import demangle
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table
from m3probe.schema.verdicts import FAMILIES, PHASES

FAMILY_WORDS = tuple(map(str, FAMILIES))
PHASE_WORDS = tuple(map(str, PHASES))
_TRANSFERS = ("memcpy", "memset")


class Readable(Sequence[str]):
    """Names demangled when they are asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return demangle(self._texts[index])


class Grids(Sequence[str]):
    """Launch grids as text: ``512 x 1 x 1``."""

    def __init__(self, values: Sequence[tuple[int, ...]]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return " x ".join(map(str, self._values[index]))


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trace file on the time line, shown as ``group``."""

    rec: Recording
    when: When
    file: int
    group: str

    def rows(self, table: str) -> Array:
        """Rows of a table that are of this file."""
        return np.flatnonzero(self.rec.tables[table]["file"] == self.file)


def streams(drawn: Drawn) -> Iterator[Track]:
    """Kernels, and copies and fills, of each device's streams."""
    rec = drawn.rec
    for name, table in (("kernels", rec.kernels), ("transfers", rec.transfers)):
        rows = drawn.rows(name)
        places = np.stack((table["device"][rows].astype(np.int64), table["stream"][rows]))
        for device, stream in np.unique(places, axis=1).T.tolist():
            here = rows[(places[0] == device) & (places[1] == stream)]
            yield _stream(drawn, name, here, f"GPU {device} stream {stream}")


def _stream(drawn: Drawn, name: str, rows: Array, title: str) -> Track:
    rec, table = drawn.rec, drawn.rec.tables[name]
    op = table["op"][rows]
    shared = (Arg("step", table["step"][rows]), Arg("correlation", table["correlation"][rows]), *_of_op(rec, op))
    if name == "transfers":
        kind = table["kind"][rows]
        args = (Arg("kind", kind, _TRANSFERS), Arg("bytes", table["payload_bytes"][rows]), *shared)
        title += " copies"
    else:
        launch = table["launch"][rows]
        graph = _taken(rec.launches["graph"], launch)
        in_graph = np.where(table["in_graph"][rows], 0, NONE)
        args = (
            Arg("family", table["family"][rows], FAMILY_WORDS),
            Arg("grid", table["grid"][rows], Grids(rec.dims.values)),
            *shared,
            Arg("launched by", in_graph, ("graph",)),
            Arg("census graph", graph),
        )
    start = drawn.when.of(name, rows)
    texts = Readable(rec.strings.texts)
    return Track(drawn.group, title, SLICES, start, table["name"][rows], texts, table["dur_ns"][rows], args)


def _of_op(rec: Recording, op: Array) -> tuple[Arg, ...]:
    texts = rec.strings.texts
    return Arg("op", _taken(rec.ops["name"], op), texts), Arg("dims", _taken(rec.ops["dims"], op), texts)


def _taken(values: Array, rows: Array) -> Array:
    if not len(values):
        return np.full(len(rows), NONE, dtype=np.int64)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], NONE)


def graph_launches(drawn: Drawn) -> Iterator[Track]:
    """Replays of captured graphs, as the host called them."""
    rows = drawn.rows("launches")
    rows = rows[drawn.rec.graph_launches[rows]]
    if len(rows):
        yield _calls(drawn, drawn.rec.launches, "launches", rows, "graph launches (host)")


def host(drawn: Drawn) -> Iterator[Track]:
    """Operators and runtime calls of each thread, calls inside operators."""
    for name in ("ops", "launches"):
        rows = drawn.rows(name)
        table = drawn.rec.tables[name]
        places = np.stack((table["pid"][rows], table["tid"][rows]))
        for pid, tid in np.unique(places, axis=1).T.tolist():
            here = rows[(places[0] == pid) & (places[1] == tid)]
            word = "operators" if name == "ops" else "runtime calls"
            yield _calls(drawn, table, name, here, f"{word} of thread {tid} ({pid})")


def _calls(drawn: Drawn, table: Table, name: str, rows: Array, title: str) -> Track:
    texts = drawn.rec.strings.texts
    if name == "ops":
        args: tuple[Arg, ...] = (Arg("dims", table["dims"][rows], texts), Arg("types", table["types"][rows], texts))
    else:
        keys = {"step": "step", "kernels": "kernels", "census graph": "graph", "correlation": "correlation"}
        args = tuple(Arg(word, table[key][rows]) for word, key in keys.items())
    start = drawn.when.of(name, rows)
    return Track(
        drawn.group, title, SLICES, start, table["name"][rows], texts, table["dur_ns"][rows], args, nested=True
    )
