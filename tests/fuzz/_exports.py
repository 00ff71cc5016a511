"""What was read, handed on in each form: nothing falls over it, and what is written is what it should be."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

from m3probe import exporting
from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.model.report import Report

WAYS = ("csv", "chrome", "perfetto", "arrow")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def exported(way: str, paths: list[Path], rec: Recording, told: Report, root: Path) -> None:
    """Write it beside the sample, and read it back by other means."""
    out = root / "exported" / way
    out.parent.mkdir(parents=True, exist_ok=True)
    asked = exporting.asked(way, paths, out, force=False, host=way == "perfetto")
    try:
        asked.write(rec, told)
    except UnreadableInput:  # nothing in it that could be exported
        return
    if way == "csv":
        for path in out.glob("*.csv"):
            cells(path)
    elif way == "chrome":
        for path in out.iterdir() if out.is_dir() else (out,):
            content = path.read_bytes()
            json.loads(gzip.decompress(content) if path.suffix == ".gz" else content, parse_constant=constant)
    elif way == "perfetto":
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

        Trace().ParseFromString(out.read_bytes())
    else:
        import pyarrow.ipc

        for path in out.glob("*.arrow"):
            with pyarrow.ipc.open_file(path) as file:
                file.read_all()


def cells(path: Path) -> None:
    """No cell of text begins a formula."""
    csv.field_size_limit(2**27)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            for cell in row:
                assert not cell.startswith(FORMULA) or number(cell), f"{path.name}: {cell[:80]!r}"


def number(cell: str) -> bool:
    """Whether a cell is a number and no text."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def constant(word: str) -> None:
    """NaN and Infinity are no JSON."""
    raise AssertionError(f"{word} in JSON")
