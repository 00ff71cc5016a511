"""What happens to files: values that no writer should write, trees and tables with one wrong place, bytes that are gone."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from typing import Any

from hypothesis import strategies as some
from hypothesis.strategies import DrawFn, SearchStrategy

TEXTS = (
    "",
    " ",
    "NaN",
    "null",
    "-1",
    "0x10",
    "1e999",
    "9" * 400,
    "१२",
    "\x00",
    "\x1b[31mred\x1b[0m",
    "\x9b2J",
    "\u202eevil\u2069",
    "\ufeff",
    "\ud800",
    "tab\tnew\nline\r",
    "<fzz>",
    """' onfzz='1' " onfzz="1""",
    "</script><fzz>",
    "]]>&amp;",
    "=cmd|' /C calc'!A0",
    "'\"`\\",
    "a" * 9_000,
    "_ZN" + "9" * 30 + "E",
    "_Z" + "N" * 300,
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64",
    "%s{}[0]*?[!a",
)
NUMBERS = (0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**70), 10**30)
FLOATS = (0.5, -0.0, 1e18, 1e300, -1e300, 5e-324, float("nan"), float("inf"), float("-inf"))
DEEP: Any = json.loads("[" * 60 + "]" * 60)

wrong: SearchStrategy[Any] = some.one_of(
    some.sampled_from(TEXTS),
    some.sampled_from(NUMBERS),
    some.sampled_from(FLOATS),
    some.sampled_from((None, True, False, [], {}, [[]], {"": {}}, DEEP)),
    some.text(max_size=4),
).map(deepcopy)
"""A value where another was due: a new one each time, since the next damage may happen inside it."""
texts: SearchStrategy[str] = some.sampled_from(TEXTS) | some.text(max_size=6)
TOKENS = (
    *(b"\0", b"\xff", b"\xc3", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r\n", b"\x1b[2J", b"NaN"),
    *(b"-", b"1e999", b"[" * 3_000, b'{"a":' * 500, b"=", b"#", b"'", b"\xef\xbb\xbf", b" " * 70, b"\xe2\x80\xae"),
)


@some.composite
def spoilt_tree(draw: DrawFn, tree: Any, most: int = 3) -> Any:
    """A copy of ``tree`` in which a few places are replaced, lost, doubled, moved or renamed."""
    root = [json.loads(json.dumps(tree))]
    for _ in range(draw(some.integers(1, most))):
        holder: Any = root
        place: Any = 0
        while isinstance(holder[place], dict | list) and holder[place] and draw(some.integers(0, 5)):
            holder = holder[place]
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            place = draw(some.sampled_from(keys))
        _change(draw, holder, place)
        root = root or [None]
    return root[0]


def _change(draw: DrawFn, holder: Any, place: Any) -> None:
    what = draw(some.sampled_from(("replace", "replace", "lose", "double", "rename", "inside")))
    if what == "replace":
        holder[place] = draw(wrong)
    elif what == "lose":
        del holder[place]
    elif what == "inside":
        holder[place] = draw(some.sampled_from(([holder[place]], {"a": holder[place]})))
    elif isinstance(holder, list):
        at = draw(some.integers(0, len(holder) - 1))
        if what == "double":
            holder.insert(at, holder[place])
        else:
            holder[at], holder[place] = holder[place], holder[at]
    else:
        holder[draw(texts)] = holder[place] if what == "double" else holder.pop(place)


@some.composite
def as_json(draw: DrawFn, tree: Any) -> bytes:
    """A tree as text, in one of the layouts that writers use."""
    indent = draw(some.sampled_from((None, None, 1)))
    text = json.dumps(tree, indent=indent, ensure_ascii=draw(some.booleans()))
    return text.encode("utf-8", "surrogatepass")


@some.composite
def spoilt_bytes(draw: DrawFn, data: bytes, most: int = 3) -> bytes:
    """``data`` cut, spliced, doubled, flipped, or mixed with itself."""
    for _ in range(draw(some.integers(1, most))):
        at, end = sorted((draw(some.integers(0, len(data))), draw(some.integers(0, len(data)))))
        what = draw(some.sampled_from(("cut", "head", "lose", "double", "token", "flip", "writers", "lines")))
        if what == "cut":
            data = data[:end]
        elif what == "head":
            data = data[at:]
        elif what == "lose":
            data = data[:at] + data[min(end, at + 40) :]
        elif what == "double":
            data = data[:end] + data[at:]
        elif what == "token":
            data = data[:at] + draw(some.sampled_from(TOKENS)) + data[at:]
        elif what == "flip" and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes((data[at] ^ draw(some.integers(1, 255)),)) + data[at + 1 :]
        elif what == "writers":
            data = data[:at] + data[:end] + data[at:]
        else:
            lines = data.split(b"\n")
            one, other = (draw(some.integers(0, len(lines) - 1)) for _ in range(2))
            lines[one], lines[other] = lines[other], lines[one]
            data = b"\n".join(lines)
    return data


@some.composite
def packed(draw: DrawFn, data: bytes, *, sound: bool = True) -> bytes:
    """``data`` as gzip, in one member or several; damaged where it need not be sound."""
    at = draw(some.integers(0, len(data)))
    whole = gzip.compress(data, 1, mtime=0)
    if draw(some.booleans()):
        whole = gzip.compress(data[:at], 1, mtime=0) + gzip.compress(data[at:], 1, mtime=0)
    return whole if sound else draw(spoilt_bytes(whole, 2))


@some.composite
def spoilt_rows(draw: DrawFn, rows: list[list[str]], most: int = 3) -> list[list[str]]:
    """A table (its head is row 0) in which cells, rows and columns are wrong, lost, doubled or elsewhere."""
    rows = [list(row) for row in rows]
    for _ in range(draw(some.integers(1, most))):
        at = draw(some.integers(0, len(rows) - 1))
        cell = draw(some.integers(0, max(0, len(rows[at]) - 1)))
        what = draw(some.sampled_from(("cell", "cell", "short", "long", "lose", "double", "column", "swap")))
        if what == "cell" and rows[at]:
            rows[at][cell] = str(draw(wrong))
        elif what == "short":
            rows[at] = rows[at][:cell]
        elif what == "long":
            rows[at].append(str(draw(wrong)))
        elif what == "double":
            rows.insert(at, list(rows[at]))
        elif what == "column":
            rows = [row[:cell] + row[cell + 1 :] for row in rows]
        elif what == "swap":
            other = draw(some.integers(0, len(rows) - 1))
            rows[at], rows[other] = rows[other], rows[at]
        elif len(rows) > 1:
            del rows[at]
    return rows
