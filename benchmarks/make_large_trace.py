"""Make a large trace from a real one: copies of its events, one after the other in time.

    make_large_trace.py BASE.json[.gz] OUT.json --target-mb 1000

Copy k is shifted by k spans of the base, and so are the ids that tie events together: launches and kernels find each
other inside their copy and nowhere else. Process and thread names are written once. Whole copies are written until the
file holds the target, so every total is the base's times the number of copies.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIE_ARGS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Record function id",
    "Python id",
    "Python parent id",
)
"""Args that name another event. 0 names none and stays 0."""
GAP_US = 50
"""Between two copies, as between two steps."""

# Stand in for a value while the event becomes text; both are private-use characters, which no trace holds.
TIME, TIE = "\ue000", "\ue001"
HOLE = re.compile(f'"([{TIME}{TIE}])(\\d+)"')


def make_large_trace(base: Path, out: Path, target_mb: float) -> int:
    """Write ``out`` (at least ``target_mb`` times 10^6 bytes) and return how many copies it holds."""
    document = _loaded(base)
    events: list[dict[str, Any]] = document.pop("traceEvents")
    timed = [event for event in events if event.get("ph") != "M" and "ts" in event]
    names = [event for event in events if event.get("ph") == "M"]
    # whole microseconds, so that the digits after the point never change and no float is added to another
    span_us = math.ceil(max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed)) + GAP_US
    step = 1 + max(value for event in timed for value in _ties(event))

    head = json.dumps(document, ensure_ascii=False)[:-1] + (", " if document else "") + '"traceEvents": [\n'
    lines, holes = _template([_with_holes(event) for event in timed])
    # The first value and what one copy adds to it, of every hole.
    first = [value for _, value in holes]
    added = [span_us if kind == TIME else step for kind, _ in holes]
    copies = 0
    with out.open("wb") as file:
        written = file.write((head + "".join(_line(event) + ",\n" for event in names)).encode())
        while written < target_mb * 1e6:
            values = tuple(value + copies * more for value, more in zip(first, added, strict=True))
            written += file.write(((",\n" if copies else "") + lines % values).encode())
            copies += 1
        file.write(b"\n]}\n")
    return copies


def _loaded(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    return document


def _ties(event: dict[str, Any]) -> Iterator[int]:
    """The ids of one event that name another."""
    args = event.get("args") or {}
    yield from (value for value in (event.get("id"), *map(args.get, TIE_ARGS)) if isinstance(value, int))


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False)


def _with_holes(event: dict[str, Any]) -> str:
    """One event as a ``%`` template's text before the values are taken out."""
    whole, _, thousandths = f"{event['ts']:.3f}".partition(".")
    held = {**event, "ts": f"{TIME}{whole}"}
    if isinstance(event.get("id"), int):
        held["id"] = f"{TIE}{event['id']}"
    if event.get("args"):
        ties = {key: value for key, value in event["args"].items() if key in TIE_ARGS and isinstance(value, int)}
        held["args"] = {**event["args"], **{key: f"{TIE}{value}" for key, value in ties.items() if value > 0}}
    return _line(held).replace(f'"{TIME}{whole}"', f'"{TIME}{whole}".{thousandths}', 1)


def _template(lines: list[str]) -> tuple[str, list[tuple[str, int]]]:
    """All events as one ``%`` template, and the kind and first value of each hole in the order of the text."""
    text = ",\n".join(lines).replace("%", "%%")
    holes = [(kind, int(value)) for kind, value in HOLE.findall(text)]
    return HOLE.sub("%d", text), holes


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a large trace out of shifted copies of a real one.")
    parser.add_argument("base", type=Path, metavar="BASE", help="torch-profiler trace, .json or .json.gz")
    parser.add_argument("out", type=Path, metavar="OUT", help="where to write, .json")
    parser.add_argument("--target-mb", type=float, default=1000, metavar="MB", help="stop at 10^6 bytes times this")
    args = parser.parse_args()
    copies = make_large_trace(args.base, args.out, args.target_mb)
    print(json.dumps({"copies": copies, "bytes": args.out.stat().st_size}))


if __name__ == "__main__":
    main()
