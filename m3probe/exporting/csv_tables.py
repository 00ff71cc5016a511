"""CSV by RFC 4180, one file a table: UTF-8, a head line, CRLF, quotes where they are needed.

A cell of text that a spreadsheet would take for a formula gets an apostrophe in front
(https://owasp.org/www-community/attacks/CSV_Injection names the characters); numbers stay numbers, negative ones too.
What is not known is an empty cell.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from m3probe.exporting._format import Export, Format, Written, a_folder
from m3probe.exporting._grid import BOOL, FLOAT, INT, TEXT, Out, OutTable
from m3probe.exporting._tables import write_tables

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings that make a formula of a cell, in the wide forms too."""
_ROWS = 2**14


def write(export: Export, folder: Path) -> Written:
    """All tables as ``NAME.csv``."""
    return write_tables(export, folder, ".csv", _one)


def inert(text: str) -> str:
    """A cell that no spreadsheet computes."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _one(table: OutTable, path: Path) -> None:
    known = [tuple(_cell(column, value) for value in column.known) for column in table.columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([inert(column.name) for column in table.columns])
        for first in range(0, table.rows, _ROWS):
            rows = slice(first, first + _ROWS)
            cells = [_cells(column, texts, rows) for column, texts in zip(table.columns, known, strict=True)]
            writer.writerows(zip(*cells, strict=True))


def _cell(column: Out, value: Any) -> str:
    if column.kind == TEXT:
        return inert(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)  # begins with a bracket


def _cells(column: Out, known: tuple[str, ...], rows: slice) -> list[Any]:
    values: list[Any] = column.values[rows].tolist()
    if column.kind == BOOL:
        values = ["true" if value else "false" for value in values]
    elif column.kind not in {INT, FLOAT}:
        values = [known[value] for value in values] if known else [""] * len(values)
    for row in np.flatnonzero(column.null[rows]).tolist():
        values[row] = ""
    return values


FORMAT = Format("CSV", ("", "-csv"), a_folder, write)
