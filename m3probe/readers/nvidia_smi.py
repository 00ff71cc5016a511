"""CSV of ``nvidia-smi --query-gpu=... --format=csv``: a header that names each column with its unit, then readings."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._smi_rows import MOST_ROWS, Sample, add
from m3probe.readers._smi_values import NAN, known, number, text
from m3probe.readers.chunks import Chunks

KIND = "nvidia-smi"
MOST_LINE = 64 * 1024
_WORD = re.compile(
    rb"(?:^|, ?)(?:clocks\.|power\.|temperature\.|memory\.|utilization\.|clocks_(?:event|throttle)_reasons\.|ecc\.|enforced\.)"
    rb"[\w.]+(?: \[[^\]]{1,8}\])?(?=,|\r?$)",
    re.MULTILINE,
)
_FIGURES = {
    "utilization.gpu": "busy_pct",
    "utilization.memory": "memory_busy_pct",
    "clocks.current.sm": "clock_mhz",
    "clocks.sm": "clock_mhz",
    "clocks.max.sm": "clock_max_mhz",
    "clocks.current.memory": "memory_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "power.draw": "power_w",
    "power.draw.instant": "power_w",
    "enforced.power.limit": "cap_w",
    "power.limit": "cap_w",
    "power.max_limit": "cap_max_w",
    "temperature.gpu": "junction_c",
    "temperature.memory": "memory_c",
    "memory.used": "used_mb",
    "memory.total": "total_mb",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "pcie.replay.counter": "pcie_replays",
}
_WORDS = {"name": "name", "gpu_name": "name", "pci.bus_id": "bdf", "gpu_bus_id": "bdf", "mig.mode.current": "partition"}
_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
"""Bits of ``clocks_event_reasons.active`` that hold a clock back; idle (1) and asked-for clocks (2) are no throttling."""
_HELD = frozenset(_REASONS.values())
_MASK = re.compile(r"0x([0-9A-Fa-f]{1,16})")
_TIME = "%Y/%m/%d %H:%M:%S.%f"


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the first line names two columns, or one beside a GPU's index, as the tool does."""
    line = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    names = _WORD.findall(line)
    return len(names) > 1 or (
        bool(names) and re.search(rb"(?:^|, ?)(?:index|name|uuid|timestamp)(?=,|\r?$)", line) is not None
    )


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the readings of one file.

    Raises:
        UnreadableInput: it cannot be read, or has a header and no whole reading.
    """
    chunks = Chunks(path)
    rows = _Rows(chunks)
    samples = list(rows.samples(str(path)))
    if not samples:
        move = "Save it again: nvidia-smi --query-gpu=index,clocks.sm,power.draw --format=csv"
        raise UnreadableInput("no whole reading of a GPU in it", where=str(path), next_move=move)
    builder.note(rows.notes(str(path)))
    add(builder, path, KIND, samples, chunks.size_bytes, cut=chunks.cut, in_folder=in_folder)
    progress(path, chunks.size_bytes, chunks.size_bytes)


READER = Reader(title="nvidia-smi CSV", sniff=sniff, read=read)


class _Rows:
    """Walks through the lines; a header may come again, where a script appends."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.bad = 0

    def samples(self, path: str) -> Iterator[Sample]:
        header: list[str] = []
        seen: set[int] = set()
        reading = given = 0
        for cells in self._cells():
            if not header or cells == header:
                header = cells
                continue
            if len(cells) != len(header):
                self.bad += bool(cells)
                continue
            row = {name.partition(" [")[0]: cell for name, cell in zip(header, cells, strict=True)}
            gpu = number(row.get("index"))
            if "index" in row and not (known(gpu) and 0 <= gpu < 2**31):
                self.bad += 1
                continue
            index = int(gpu) if known(gpu) else len(seen)
            if index in seen:
                seen, reading = set(), reading + 1
                index = index if "index" in row else 0
            seen.add(index)
            given += 1
            if given > MOST_ROWS:
                what = f"more than {MOST_ROWS:,} readings of a GPU"
                raise UnreadableInput(what, where=path, next_move="Save fewer readings, or at a longer interval")
            yield _sample(row, index, reading)

    def _cells(self) -> Iterator[list[str]]:
        """Rows; one that is no CSV (a lone carriage return in it) is left out and counted."""
        rows = csv.reader(self._lines(), skipinitialspace=True)
        while True:
            try:
                yield next(rows)
            except StopIteration:
                return
            except csv.Error:
                self.bad += 1

    def _lines(self) -> Iterator[str]:
        rest = b""
        for chunk in self._chunks:
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()[:MOST_LINE]
            yield from map(_decoded, lines)
        if rest:
            yield _decoded(rest)

    def notes(self, path: str) -> Iterator[Note]:
        """Nothing here holds a kernel: a loss is told and hides none."""
        if self.bad:
            text = f"{self.bad:,} line(s) have not as many cells as the header, or no GPU's index: left out"
            yield Note("bad_rows", text, path, self.bad, lossy=True)
        if self._chunks.cut:
            yield Note("truncated", "the gzip stream ends early: what stands behind it was not read", path, lossy=True)


def _decoded(line: bytes) -> str:
    return line[:MOST_LINE].decode("utf-8-sig", "replace").replace("\0", "").rstrip("\r")


def _sample(row: dict[str, str], gpu: int, reading: int) -> Sample:
    figures: dict[str, float] = {}
    for column, name in _FIGURES.items():
        value = number(row.get(column))
        if known(value) and name not in figures:
            figures[name] = value
    reasons, figures["throttled"] = _throttle(row)
    words = {name: text(row.get(column)) for column, name in _WORDS.items() if text(row.get(column))}
    if words.get("partition"):
        words["partition"] = f"MIG {words['partition'].lower()}"
    return Sample(gpu, reading, _time(row.get("timestamp", "")), figures, words | {"throttle": reasons})


def _throttle(row: dict[str, str]) -> tuple[str, float]:
    """(reasons that hold the clock back, 1 or 0; NaN where no column tells)."""
    active: dict[str, None] = {}
    told = False
    for column, cell in row.items():
        reason = column.partition("_reasons.")[2]
        if reason == "active":
            mask = _MASK.fullmatch(cell.strip())
            told |= mask is not None
            bits = int(mask[1], 16) if mask else 0
            active |= {word: None for bit, word in _REASONS.items() if bits & bit}
        elif reason in _HELD and cell.strip() in {"Active", "Not Active"}:
            told = True
            active |= {reason: None} if cell.strip() == "Active" else {}
    return ", ".join(active), float(bool(active)) if told else NAN


def _time(cell: str) -> int:
    try:
        return int(datetime.strptime(cell.strip(), _TIME).replace(tzinfo=UTC).timestamp() * 1e6) * 1000
    except ValueError:
        return -1
