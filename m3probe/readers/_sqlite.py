"""One SQLite file, opened read-only and never trusted: rows of its real tables in blocks, within bounds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.tables import Array

BLOCK_ROWS = 32_768
LONGEST_CELL = 16 * 2**20
"""Bytes of the largest cell that is loaded; SQLite refuses a larger one before it takes memory for it."""
LONGEST_TEXT = 65_536
"""Characters of a name that are kept."""
MOST_TABLES = 10_000
MOST_TEXT = 128 * 2**20
"""Characters of all names together. Rows of a hostile file can share the pages of their texts."""
MOST_SKIPPED = 100
"""Rows of one table that are left out one by one; beyond it the table's rest is lost."""
_STEPS_PER_BYTE = 16
"""Instructions of SQLite's machine per byte of the file, for one walk: a row of k columns costs 2k + 6 of them and takes
k + 5 bytes at least, so that only pages which lead in circles cost more."""
_FEWEST_STEPS = 10**7
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_FUNCTIONS = frozenset({"coalesce", "max"})

Row = tuple[Any, ...]
FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""A database of which SQLite names a broken part with that part's own bytes gives the second."""


class Database:
    """Real tables only: a view, a trigger, a virtual table or a generated column of the file never runs.

    Args:
        opened: the database file itself, inflated.
        named: what the user named; errors tell this.

    Raises:
        UnreadableInput: SQLite cannot open it, or cannot read which tables it has.
    """

    def __init__(self, opened: Path, named: Path) -> None:
        self.named = named
        self.skipped = 0
        self.damage: dict[str, str] = {}
        self._steps_left = 0
        self._size = opened.stat().st_size
        self._steps = _FEWEST_STEPS + _STEPS_PER_BYTE * self._size
        try:
            self._db = sqlite3.connect(f"{opened.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            self._harden()
            self.tables = self._real_tables()
        except FAULTS as error:
            raise UnreadableInput(
                f"a SQLite database that cannot be read ({said(error)})",
                where=str(named),
                next_move="It is cut or damaged: copy it again once the profiler has ended",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_said: object) -> None:
        self._db.close()

    def _harden(self) -> None:
        db = self._db
        db.text_factory = _text
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
        for words in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0", "cache_size=-4096"):
            db.execute(f"PRAGMA {words}")
        db.set_progress_handler(self._step, 100_000)

    def _step(self) -> int:
        self._steps_left -= 100_000
        return int(self._steps_left < 0)

    def _real_tables(self) -> dict[str, dict[str, bool]]:
        """name -> its stored columns, and of each whether it is the table's integer key."""
        self._steps_left = self._steps
        query = f"SELECT name, sql FROM sqlite_master WHERE type = 'table' LIMIT {MOST_TABLES}"
        named = [(name, sql) for name, sql in self._db.execute(query) if isinstance(name, str) and isinstance(sql, str)]
        found = {}
        for name, sql in named:
            if "VIRTUAL" not in sql[:32].upper():
                columns = self._db.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
                # hidden: 1 a virtual table's argument, 2 and 3 generated columns
                found[name] = {row[1]: bool(row[5]) and row[2].upper() == "INTEGER" for row in columns if not row[6]}
        self._db.set_authorizer(_allow)
        return found

    def has(self, table: str, *columns: str) -> bool:
        """Whether a real table has all of these columns."""
        return table in self.tables and set(columns) <= self.tables[table].keys()

    def most_rows(self, table: str, columns: int) -> int:
        """More rows cannot be there, whatever ids say: a cell takes 2 bytes in its page's index, 3 of header and a type each."""
        try:
            self._steps_left = self._steps
            last = self._db.execute(f"SELECT max(rowid) FROM {quoted(table)}").fetchone()[0]
        except FAULTS:
            return 0
        return max(0, min(last or 0, self._size // (5 + columns))) if isinstance(last, int | None) else 0

    def rows(self, table: str, columns: list[str], where: str = "", values: tuple[str, ...] = ()) -> Iterator[Row]:
        """Rows in stored order; one that cannot be read is counted in ``skipped``, a lost rest told in ``damage``.

        Args:
            columns: names, each quoted by the caller.
        """
        at = misses = 0
        while True:
            try:
                for row in self._started(table, columns, where, values, at):
                    at += 1
                    yield row
            except FAULTS as error:
                misses += 1
                if not self.left_out(table, error, misses):
                    return
                at += 1
            else:
                return

    def _started(self, table: str, columns: list[str], where: str, values: tuple[str, ...], at: int) -> Iterator[Row]:
        """A walk over a table's rows from the ``at``-th on; an index of the file could lead elsewhere and is not used."""
        self._steps_left = self._steps
        query = f"SELECT {', '.join(columns)} FROM {quoted(table)} NOT INDEXED {where} LIMIT -1 OFFSET ?"
        return iter(self._db.execute(query, (*values, at)))

    def left_out(self, table: str, error: Exception, misses: int) -> bool:
        """Whether the walk goes on behind the row that gave this error."""
        if "too big" in str(error) and misses <= MOST_SKIPPED:
            self.skipped += 1
            return True
        self.damage.setdefault(table, said(error))
        return False

    def numbers(
        self, table: str, columns: list[str], where: str, values: tuple[str, ...], number: Callable[[Any], int]
    ) -> Iterator[Array]:
        """Blocks of whole numbers, int64 [rows, columns].

        One row is held at a time, whatever its cells hold. Each table is walked in the fastest way that it allows: cells
        as they are, then with NULL replaced by SQLite, then cell by cell through ``number``.
        """
        ways = [list(map(quoted, columns)), [f"coalesce({quoted(name)}, {-(2**63)})" for name in columns]]
        at = misses = way = 0
        rows: Iterator[Row] | None = None
        guarded = False
        failed: list[Exception] = []
        while True:
            try:
                rows = rows or self._started(table, ways[min(way, 1)], where, values, at)
                cells = chain.from_iterable(islice(_until_error(rows, failed) if guarded else rows, BLOCK_ROWS))
                flat = np.fromiter(cells if way < 2 else map(number, cells), dtype=np.int64)
            except FAULTS as error:
                if guarded:
                    self.damage.setdefault(table, said(error))
                    return
                rows, guarded = None, True  # what stands before the bad row is read again, and kept
                continue
            except (TypeError, ValueError, OverflowError):
                rows, way = None, way + 1
                failed.clear()
                continue
            at += len(flat) // len(columns)
            if len(flat):
                yield flat.reshape(-1, len(columns))
            if failed:
                misses += 1
                if not self.left_out(table, failed.pop(), misses):
                    return
                rows, at = None, at + 1
            elif not len(flat):
                return


def said(error: Exception) -> str:
    """SQLite's words, which can hold words of the file."""
    return ascii(str(error))[1:-1][:200]


def _until_error(rows: Iterator[Row], failed: list[Exception]) -> Iterator[Row]:
    """The rows before the first that cannot be read; its error is put into ``failed``."""
    try:
        yield from rows
    except FAULTS as error:
        failed.append(error)


def _text(raw: bytes) -> str:
    r"""A text cell, cut; bytes that are no UTF-8 written ``\xNN``."""
    return raw[: 4 * LONGEST_TEXT].decode("utf-8", "backslashreplace")[:LONGEST_TEXT]


def _allow(action: int, _first: str | None, second: str | None, *_more: str | None) -> int:
    fine = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def quoted(name: str) -> str:
    """A foreign name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
