"""SQLite databases made of tables, and what happens to them: cells, columns and tables that are wrong, pages that are gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import sqlite_kit as kit
from fuzz import damage
from fuzz.harness import Sample
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn, SearchStrategy

CELLS: SearchStrategy[Any] = some.one_of(
    some.sampled_from([number for number in damage.NUMBERS if abs(number) < 2**63]),
    some.sampled_from(damage.FLOATS),
    some.sampled_from([text for text in damage.TEXTS if text != "\ud800"]),
    some.sampled_from((None, b"", b"\xff\x00", b"5")),
)
Spans = list[tuple[int, int]]


@some.composite
def spans(draw: DrawFn, number: int) -> Spans:
    """(start, end) of kernels, one after the other."""
    found, at = [], draw(some.integers(1, 2**60))
    for _ in range(number):
        end = at + draw(some.integers(0, 10**9))
        found.append((at, end))
        at = end + draw(some.integers(0, 1_000))
    return found


def content(tables: kit.Tables, *after: str) -> bytes:
    """A database file; statements that cannot run are left out."""
    db = sqlite3.connect(":memory:")
    try:
        for name, (columns, rows) in tables.items():
            quoted = name.replace('"', '""')
            db.execute(f'CREATE TABLE "{quoted}" ({columns})')
            for row in rows:
                db.execute(f'INSERT OR IGNORE INTO "{quoted}" VALUES ({", ".join("?" * len(row))})', row)
        for statement in after:
            db.execute(statement)
        db.commit()
        return bytes(db.serialize())
    finally:
        db.close()


@some.composite
def spoilt(draw: DrawFn, tables: kit.Tables) -> kit.Tables:
    """Tables in which cells are of another kind, rows doubled or gone, columns or tables missing."""
    tables = {name: (columns, list(rows)) for name, (columns, rows) in tables.items()}
    for _ in range(draw(some.integers(1, 4))):
        name = draw(some.sampled_from(sorted(tables)))
        columns, rows = tables[name]
        what = draw(some.sampled_from(("cell", "cell", "cell", "row", "double", "column", "table", "bare")))
        if what == "table":
            tables.pop(name)
            if not tables:
                return {"nothing": ("a", [])}
        elif what == "bare":  # no declared type, so that no affinity repairs a cell, and no key
            bare = columns.replace(" INTEGER PRIMARY KEY", "").replace(" TEXT", "")
            tables[name] = (bare, rows)
        elif what == "column":
            names = columns.split(", ")
            at = draw(some.integers(0, len(names) - 1))
            if len(names) > 1:
                kept = [[cell for place, cell in enumerate(row) if place != at] for row in rows]
                tables[name] = (", ".join(names[:at] + names[at + 1 :]), [tuple(row) for row in kept])
        elif rows:
            at = draw(some.integers(0, len(rows) - 1))
            if what == "row":
                del rows[at]
            elif what == "double":
                rows.append(rows[at])
            else:
                cells = list(rows[at])
                cells[draw(some.integers(0, len(cells) - 1))] = draw(CELLS)
                rows[at] = tuple(cells)
            tables[name] = (columns, rows)
    return tables


@some.composite
def sample(draw: DrawFn, make: Callable[[Spans], kit.Tables], name: str, also: dict[str, Any] | None = None) -> Sample:
    """A database of one kind: whole, with wrong tables, or with wrong bytes.

    Args:
        make: tables of as many kernels as there are spans.
        name: of the file.
        also: further facts of a whole one.
    """
    found = draw(spans(draw(some.integers(1, 5))))
    tables = make(found)
    if draw(some.booleans()):
        said = {"kernels": len(found), "kernel_time_ns": sum(end - start for start, end in found)}
        return Sample({name: content(tables)}, said | (also or {}))
    if draw(some.booleans()):
        tables = draw(spoilt(tables))
    try:
        data = content(tables)
    except sqlite3.Error:  # damage that no database can hold
        data = b"SQLite format 3\0"
    if not draw(some.integers(0, 2)):
        data = draw(damage.spoilt_bytes(data))
    return Sample({name: data})
