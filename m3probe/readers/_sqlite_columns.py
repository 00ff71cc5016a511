"""Columns of SQLite tables as int64 arrays: any cell can hold anything, so what is no whole number is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from m3probe.model.recording import Strings
from m3probe.model.tables import NONE, Array
from m3probe.readers._sqlite import MOST_TEXT, Database, quoted
from m3probe.readers.events import NO_TIME

ABSENT = NO_TIME
"""Stands for a cell that is NULL or no whole number."""


class Columns:
    """Reads tables of one database.

    Args:
        guid: where given, only rows of this process count, in every table that has the column.
    """

    def __init__(self, db: Database, guid: str | None = None) -> None:
        self.db = db
        self.guid = guid
        self.bad = 0
        """Cells that hold something else than a whole number of 64 bits where one belongs."""
        self.text_left = MOST_TEXT

    def blocks(self, table: str, names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Blocks of int64 columns, ``ABSENT`` where a cell, or the whole column, is missing."""
        there = self.db.tables.get(table, {})
        asked = [name for name in names if name in there]
        for values in self.db.numbers(table, asked, *self._of_guid(table), self._number) if asked else ():
            found = {name: np.ascontiguousarray(values[:, i]) for i, name in enumerate(asked)}
            yield found | {name: np.full(len(values), ABSENT) for name in names if name not in there}

    def whole(self, table: str, names: Sequence[str]) -> dict[str, Array]:
        """All blocks joined."""
        return joined(self.blocks(table, names), names, self.db.most_rows(table, len(names)))

    def texts(self, table: str, key: str, text: str, wanted: Iterable[int] | None = None) -> dict[int, str]:
        """id -> text of the rows that are wanted (None: all); of a repeated id the first."""
        if not self.db.has(table, key, text):
            return {}
        asked = None if wanted is None else set(wanted)
        found: dict[int, str] = {}
        for number, said in self.db.rows(table, [quoted(key), quoted(text)], *self._of_guid(table)):
            if isinstance(number, int) and isinstance(said, str) and (asked is None or number in asked):
                self.text_left -= len(said)
                if self.text_left < 0:
                    self.db.damage.setdefault(table, f"more than {MOST_TEXT:,} characters of names")
                    break
                found.setdefault(number, said)
        return found

    def column_of_texts(self, table: str, text: str) -> list[str]:
        """Texts of all rows in stored order, "" for a cell that is none; shorter than the table where it is damaged."""
        found: list[str] = []
        for (said,) in self.db.rows(table, [quoted(text)], *self._of_guid(table)):
            self.text_left -= len(said) if isinstance(said, str) else 0
            if self.text_left < 0:
                self.db.damage.setdefault(table, f"more than {MOST_TEXT:,} characters of names")
                break
            found.append(said if isinstance(said, str) else "")
        return found

    def cells(self, table: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Rows of a small table: int or None in ``numbers``, str (cut) or "" in ``texts``; at most 65,536."""
        there = self.db.tables.get(table, {})
        asked = [name for name in (*numbers, *texts) if name in there]
        found: list[dict[str, Any]] = []
        for row in (
            islice(self.db.rows(table, [*map(quoted, asked)], *self._of_guid(table)), _MOST_CELLS) if asked else ()
        ):
            said = dict(zip(asked, row, strict=True))
            whole = {name: said[name] if isinstance(said.get(name), int) else None for name in numbers}
            found.append(whole | {name: _as_text(said.get(name)) for name in texts})
        return found

    def _of_guid(self, table: str) -> tuple[str, tuple[str, ...]]:
        if self.guid is None or not self.db.has(table, "guid"):
            return "", ()
        return 'WHERE "guid" = ?', (self.guid,)

    def _number(self, cell: Any) -> int:
        if isinstance(cell, int):
            return cell
        try:
            number = int(cell) if isinstance(cell, (str, float)) else 2**63
        except (ValueError, OverflowError):
            number = 2**63
        sound = -(2**63) < number < 2**63
        self.bad += not sound
        return number if sound else ABSENT


_MOST_CELLS = 65_536


def _as_text(cell: Any) -> str:
    return str(cell) if isinstance(cell, str | int | float) else ""


class Growing:
    """Blocks of columns, put one after the other as they come.

    Args:
        most: rows there may be at most, as a hint: room for them is taken at once, and costs memory where it is used.
    """

    def __init__(self, names: Sequence[str], most: int = 0) -> None:
        self._names = names
        self._most = most
        self._rows = 0
        self._held: dict[str, Array] = {}

    def add(self, block: Mapping[str, Array]) -> None:
        """One block, of at least these columns."""
        end = self._rows + len(block[self._names[0]])
        for name in self._names:
            held = self._held.get(name)
            if held is None or end > len(held):
                grown = np.empty(max(2 * end, self._most if held is None else 0), dtype=block[name].dtype)
                grown[: self._rows] = held[: self._rows] if held is not None else 0
                held = self._held[name] = grown
            held[self._rows : end] = block[name]
        self._rows = end

    def columns(self) -> dict[str, Array]:
        """All of them."""
        none = np.empty(0, dtype=np.int64)
        return {name: self._held.get(name, none)[: self._rows] for name in self._names}


def joined(blocks: Iterable[Mapping[str, Array]], names: Sequence[str], most: int = 0) -> dict[str, Array]:
    """All blocks, one after the other; ``most`` as in ``Growing``."""
    whole = Growing(names, most)
    for block in blocks:
        whole.add(block)
    return whole.columns()


class Ids:
    """Rows of a table by their id; of a repeated id the first row counts.

    Args:
        ids: int64, one a row.
        columns: arrays of the same length.
    """

    def __init__(self, ids: Array, **columns: Array) -> None:
        if len(ids) and not (ids[1:] > ids[:-1]).all():
            order = np.argsort(ids, kind="stable")
            ids = ids[order]
            first = order[np.append(True, ids[1:] != ids[:-1])]
            ids = ids[np.append(True, ids[1:] != ids[:-1])]
            columns = {name: values[first] for name, values in columns.items()}
        self._columns = columns
        self._n = len(ids)
        self._first = int(ids[0]) if len(ids) else 0
        # ids without gaps need no array: a database of 1 GB has five million events
        self._ids = None if len(ids) and int(ids[-1]) - self._first == len(ids) - 1 else ids

    def column(self, name: str) -> Array:
        """A column's values, in order of the ids."""
        return self._columns[name]

    def rows(self, asked: Array) -> Array:
        """Row of each id, -1 where there is none."""
        if not self._n:
            return np.full(len(asked), NONE, dtype=np.int64)
        if self._ids is None:
            inside = (asked >= self._first) & (asked <= self._first + self._n - 1)
            return np.where(inside, np.where(inside, asked, self._first) - self._first, NONE)
        at = np.minimum(np.searchsorted(self._ids, asked), self._n - 1)
        return np.where(self._ids[at] == asked, at, NONE)

    def take(self, column: str, rows: Array, default: int | Array = NONE) -> Array:
        """A column's value in each of ``rows``; ``default`` where a row is -1."""
        if not self._n:
            return np.broadcast_to(np.asarray(default, dtype=np.int64), rows.shape)
        found: Array = np.where(rows >= 0, self._columns[column][np.maximum(rows, 0)], default)
        return found

    def of(self, column: str, asked: Array, default: int | Array = NONE) -> Array:
        """A column's value for each id; ``default`` where no row has it."""
        return self.take(column, self.rows(asked), default)


def names_of(texts: Mapping[int, str], strings: Strings) -> Ids:
    """``name``: the string id of each text; an empty one names nothing."""
    known = {key: strings.intern(text) for key, text in texts.items() if text}
    ids, values = (np.fromiter(part, dtype=np.int64, count=len(known)) for part in (known.keys(), known.values()))
    return Ids(ids, name=values)


def or_else(values: Array, default: int) -> Array:
    """Absent cells as ``default``."""
    found: Array = np.where(values == ABSENT, default, values)
    return found


def in_int32(values: Array) -> Array:
    """Absent cells and numbers that fit no id of 31 bits as -1."""
    found: Array = np.where((values < 0) | (values >= 2**31), NONE, values)
    return found
