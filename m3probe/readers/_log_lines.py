"""Bytes of a server's log -> lines with their prefixes taken off, in bounded memory.

Every form of docs/server-log.md: ``(EngineCore pid=1) INFO 02-01 13:17:26 [utils.py:325] text`` with or without what
stands before the level, V0's without the bracket, JSON records, colours, CRLF, progress bars that end in a carriage return.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

MOST_LINE = 1 << 20
"""Bytes of a line that are looked at; vLLM's longest, its configuration, is about 12 KB."""
_BEFORE = 400
"""Bytes in front of a record in which its process is looked for: progress bars may stand before it."""
_COLOUR = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
RECORD = re.compile(
    rb"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL) +\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?([^\s\]\[:]{1,200}):\d{1,7}\] ?"
)
_LABEL = re.compile(rb"[(\[]([A-Za-z][\w ]{0,60}?) pid=(\d{1,10})[^)\]\n]{0,60}[)\]]")
_FOREIGN = re.compile(
    rb"\[aiter\] ?|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\] ?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\s:]{1,200}:\d{1,7}: ?"
)
_REPEATED = re.compile(r" ?\[repeated \d+x across cluster\].*$")
_MESSAGE, _LEVEL = b'"message"', b'"levelname"'


class _JsonRecord(msgspec.Struct):
    """``--logging-config.formatter json`` (0.32, 0.33)."""

    levelname: str
    message: str
    name: str = ""
    process_name: Any = msgspec.field(default="", name="processName")
    process: Any = None


_DECODER = msgspec.json.Decoder(_JsonRecord)


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Args:
        level: of a record of vLLM; empty for any other line.
        label: of the process; empty without one.
        source: file that wrote it (``rocm.py``); empty for any other line.
        foreign: another library's record (``[aiter] ...``).
        json: it was a JSON record.
        pid: of the process; None without one.
        indented: the text stands behind more blanks than one, as code in a traceback does.
    """

    number: int
    level: str
    label: str
    source: str
    text: str
    foreign: bool = False
    json: bool = False
    pid: int | None = None
    indented: bool = False


def whole_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """(lines that end here, how many of them were longer than is looked at)."""
    carry, skipping = b"", False
    for chunk in chunks:
        data = chunk
        if skipping:
            at = data.find(b"\n")
            if at < 0:
                continue
            data, skipping = data[at + 1 :], False
        data = carry + data
        at = data.rfind(b"\n")
        whole, carry = (data[: at + 1], data[at + 1 :]) if at >= 0 else (b"", data)
        if len(whole) > MOST_LINE:
            yield from _shortened(whole)
        elif whole:
            yield whole, 0
        if len(carry) > MOST_LINE:
            yield carry[:MOST_LINE] + b"\n", 1
            carry, skipping = b"", True
    if carry:
        yield carry + b"\n", 0


def _shortened(whole: bytes) -> Iterator[tuple[bytes, int]]:
    """The same without what is too long; a window of 4 MiB rarely holds any such line."""
    cut = 0
    if max(map(len, whole.split(b"\n"))) > MOST_LINE:
        lines = whole.split(b"\n")
        cut = sum(len(line) > MOST_LINE for line in lines)
        whole = b"\n".join(line[:MOST_LINE] for line in lines)
    yield whole, cut


def without_colours(data: bytes) -> bytes:
    """Without escape sequences and NUL bytes."""
    if b"\x1b" in data:
        data = _COLOUR.sub(b"", data)
    return data.replace(b"\0", b"") if b"\0" in data else data


def line_of(raw: bytes, number: int) -> Line:
    """One line, taken apart."""
    if raw.startswith(b"{") and _MESSAGE in raw and _LEVEL in raw:
        found = _json(raw, number)
        if found is not None:
            return found
    record = RECORD.search(raw)
    if record is not None:
        before, rest = raw[max(record.start() - _BEFORE, 0) : record.start()], raw[record.end() :]
        label, pid = _label(before)
        text, indented = _text(rest.split(b"\r", 1)[0]), rest[:1] in (b" ", b"\t")
        return Line(number, record[1].decode(), label, _file(record[2]), text, pid=pid, indented=indented)
    # a progress bar begins with the label and ends in its last state
    head = raw[:_BEFORE]
    labels = list(_LABEL.finditer(head))
    rest = raw[labels[-1].end() if labels else 0 :].rstrip(b"\r").rpartition(b"\r")[2]
    indented = rest[:1] in (b" ", b"\t") if not labels else rest[:2].isspace()
    foreign = _FOREIGN.search(rest, 0, _BEFORE)
    rest = rest[foreign.end() if foreign else 0 :]
    label, pid = _label(head)
    return Line(number, "", label, "", _text(rest.strip()), foreign=foreign is not None, pid=pid, indented=indented)


def _json(raw: bytes, number: int) -> Line | None:
    try:
        found = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    source = f"{found.name.rpartition('.')[2]}.py" if found.name else ""
    name = found.process_name if isinstance(found.process_name, str) else ""
    pid = found.process if isinstance(found.process, int) else None
    return Line(number, found.levelname[:20], name[:80], source[:200], found.message, json=True, pid=pid)


def _label(before: bytes) -> tuple[str, int | None]:
    """The last one and its process id: what stands before it is the one of a supervisor."""
    found = _LABEL.findall(before)
    return (found[-1][0].decode("utf-8", "replace"), int(found[-1][1])) if found else ("", None)


def _file(source: bytes) -> str:
    return source.rpartition(b"/")[2].decode("utf-8", "replace")


def _text(rest: bytes) -> str:
    text = rest.decode("utf-8", "backslashreplace").rstrip()
    return _REPEATED.sub("", text) if text.endswith("cluster]") else text
