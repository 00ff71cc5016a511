"""A CSV as blocks of columns, by the names of its header; damaged rows are counted, never shifted."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, Strings
from m3probe.model.tables import NONE, Array
from m3probe.readers._rocprof_numbers import as_int64
from m3probe.readers.chunks import Chunks

BLOCK_ROWS = 32_768
LONGEST_LINE = 16 * 2**20
"""Bytes without a line's end above which this is no table."""
_BOM = "\ufeff"


class Block:
    """Some rows of a table, by column.

    Args:
        path: of the table.
        columns: lower-case name -> cells.
        rows: how many.
        bad: told how many cells of whole numbers hold something else.
    """

    def __init__(self, path: Path, columns: Mapping[str, Sequence[str]], rows: int, bad: Callable[[int], None]) -> None:
        self.path = path
        self._columns = columns
        self._bad = bad
        self.rows = rows

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def at(self, lines: Sequence[int]) -> Block:
        """Some of the lines."""
        columns = {name: [cells[line] for line in lines] for name, cells in self._columns.items()}
        return Block(self.path, columns, len(lines), self._bad)

    def ints(self, *names: str, default: int = NONE) -> Array:
        """The first of these columns as int64; ``default`` where no column or cell says a whole number of 64 bits."""
        cells = next((self._columns[name] for name in names if name in self._columns), None)
        if cells is None:
            return np.full(self.rows, default, dtype=np.int64)
        found, bad = as_int64(cells, default)
        self._bad(bad)
        return found

    def texts(self, *names: str) -> Sequence[str]:
        """The first of these columns; empty texts where there is none."""
        return next((self._columns[name] for name in names if name in self._columns), ("",) * self.rows)

    def ids(self, strings: Strings, *names: str) -> Array:
        """String ids of a column; -1 for an empty cell."""
        cells = self.texts(*names)
        known = {text: strings.intern(text) if text else NONE for text in dict.fromkeys(cells)}
        return np.fromiter(map(known.__getitem__, cells), dtype=np.int64, count=self.rows)


class CsvTable:
    """Iterates over blocks; the counts are whole afterwards. ``header`` is lower-case, ``names`` as written.

    Raises:
        UnreadableInput: it cannot be read, a line has no end, or no row has the header's columns.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: list[str] = []
        self.names: list[str] = []
        self.rows = 0
        self.bad_rows = 0
        self.bad_values = 0
        self.bad_utf8 = 0
        self.cut = False
        self._chunks = Chunks(path)
        self.size_bytes = self._chunks.size_bytes
        self._first_bad: tuple[int, int] = (0, 0)
        self._last_bad = False
        self._ended = True

    def __iter__(self) -> Iterator[Block]:
        self._reader = csv.reader(self._lines())
        rows = self._rows()
        self.names = [name.strip() for name in next(rows, [])]
        self.header = [name.lower() for name in self.names]
        wide = len(self.header)
        while read := list(islice(rows, BLOCK_ROWS)):
            sound = [row for row in read if len(row) == wide]
            self.rows += len(sound)
            if sound:
                columns = dict(zip(self.header, zip(*sound, strict=True), strict=True))
                yield Block(self.path, columns, len(sound), self._count_bad)
        self._end()

    def notes(self) -> Iterator[Note]:
        """Losses and repairs of the table."""
        path, (line, found) = str(self.path), self._first_bad
        if self.cut:
            yield Note(
                "truncated", f"truncated file: figures cover only the {self.rows:,} whole rows", path, lossy=True
            )
        if self.bad_rows:
            text = (
                f"column count mismatch: {self.bad_rows:,} row(s) left out, the first at line {line:,}: "
                f"{self._columns(found)}"
            )
            yield Note("lost_rows", text, path, self.bad_rows, lossy=True)
        if self.bad_values:
            text = f"{self.bad_values:,} cell(s) hold no whole number of 64 bits where one belongs: read as not known"
            yield Note("bad_numbers", text, path, self.bad_values, lossy=True)
        if self.bad_utf8:
            yield Note("bad_utf8", "byte sequences that are no UTF-8, written as \\xNN", path, self.bad_utf8)

    def _count_bad(self, cells: int) -> None:
        self.bad_values += cells

    def _lines(self) -> Iterator[str]:
        rest = b""
        for chunk in self._chunks:
            data = rest + chunk
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > LONGEST_LINE:
                what = f"a line without an end in {LONGEST_LINE // 2**20} MiB: this is no table"
                raise UnreadableInput(what, where=str(self.path), next_move="Record again")
            yield from io.StringIO(self._decoded(data[:end]), newline="\n")
        self._ended = not rest
        yield from io.StringIO(self._decoded(rest), newline="\n")

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.bad_utf8 += 1
            return data.decode("utf-8", "backslashreplace")

    def _rows(self) -> Iterator[list[str]]:
        """Rows that are not empty; one of another width is counted and given too, so that blocks stay in step."""
        while True:
            try:
                for row in self._reader:
                    if not row:
                        continue
                    self._last_bad = bool(self.header) and len(row) != len(self.header)
                    if self._last_bad:
                        self._mark(len(row))
                    elif not self.header:
                        row[0] = row[0].removeprefix(_BOM)
                    yield row
            except csv.Error:  # a lone carriage return, a field of more than 128 KiB
                self._mark(0)
                continue
            return

    def _mark(self, found: int) -> None:
        self.bad_rows += 1
        if not self._first_bad[0]:
            self._first_bad = (self._reader.line_num, found)

    def _columns(self, found: int) -> str:
        told = f"{found} found" if found else "no row found (a field of more than 128 KiB, or a lone carriage return)"
        return f"{len(self.header)} columns expected, {told}"

    def _end(self) -> None:
        """A last row that is short and has no line's end was cut; a table of nothing but bad rows is refused."""
        line, found = self._first_bad
        if self.bad_rows and not self.rows:
            what = f"column count mismatch at line {line}: {self._columns(found)}"
            move = "Nothing says which column is missing: record again, or repair the header"
            raise UnreadableInput(what, where=str(self.path), next_move=move)
        self.cut = self._chunks.cut
        if self._last_bad and not self._ended:
            self.cut = True
            self.bad_rows -= 1
