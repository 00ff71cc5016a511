"""Rows of a recording's tables as cells: ids as their texts, -1 and NaN as not known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, TABLES
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES
from m3probe.tui.adapters._told import in_us, whole, words
from m3probe.tui.sheet import Cell
from m3probe.tui.sheet import Column as Shown

_WORDS: dict[str, Sequence[str]] = {
    "index into PHASES": PHASES,
    "index into FAMILIES": FAMILIES,
    "index into GRAPH_MODES": GRAPH_MODES,
}


def declared(table: str) -> tuple[Shown, ...]:
    """Columns of a table as declared, unit in the heading; the first ones stay longest."""
    return tuple(
        Shown(_heading(column.name, column.unit), right=_is_number(column.unit), keep=place, wide=column.name == "name")
        for place, column in enumerate(TABLES[table])
    )


def _heading(name: str, unit: str) -> str:
    bare = words(name.removesuffix("_ns").removesuffix("_bytes"))
    return f"{bare} {unit}" if unit in {"ns", "bytes", "%", "MHz", "W", "C", "MB", "1/s"} else bare


def _is_number(unit: str) -> bool:
    return unit not in {"string id", "yes/no", *_WORDS}


def as_declared(rec: Recording, table: str, row: int) -> tuple[Cell, ...]:
    """Every column of one row."""
    columns = rec.tables[table].columns
    return tuple(_cell(rec, columns[column.name][row].item(), column.unit) for column in TABLES[table])


def _cell(rec: Recording, value: float, unit: str) -> Cell:
    if isinstance(value, bool):
        return Cell("yes" if value else "no", int(value))
    if value == NONE or not math.isfinite(value):
        return Cell(UNKNOWN)
    if unit == "string id":
        return text(rec, int(value))
    if unit in _WORDS:
        word = str(_WORDS[unit][int(value)])
        return Cell(word, word)
    if unit == "yes/no":
        return Cell("yes" if value else "no", int(value))
    if unit == "row of dims":
        return grid(rec, int(value))
    return Cell(fixed(value, 0 if float(value).is_integer() else 3), value)


def text(rec: Recording, index: int) -> Cell:
    """A string of the recording; a dash for none."""
    said = rec.strings[index]
    return Cell(said or UNKNOWN, said or None)


def grid(rec: Recording, index: int) -> Cell:
    """A launch grid: ``132 x 1 x 1``."""
    if index == NONE:
        return Cell(UNKNOWN)
    size = rec.dims[index]
    return Cell(" x ".join(f"{n:,}" for n in size), math.prod(size))


def file_name(rec: Recording, index: int) -> Cell:
    """The last part of a file's path."""
    name = rec.files[index].path.rsplit("/", 1)[-1]
    return Cell(name, name)


KERNEL = (
    Shown("kernel", wide=True),
    Shown("family"),
    Shown("step", right=True, keep=1),
    Shown("start µs", right=True),
    Shown("µs", right=True),
    Shown("grid", right=True, keep=2),
    Shown("stream", right=True, keep=3),
)
"""``start µs``: from the begin of the kernel's step on the host."""


def kernel(rec: Recording, row: int) -> tuple[Cell, ...]:
    """One kernel under ``KERNEL``; without a time where its record has none."""
    table = rec.kernels
    step, timed = int(table["step"][row]), bool(table["timed"][row])
    family = str(FAMILIES[int(table["family"][row])])
    since = int(table["start_ns"][row]) - int(rec.steps["start_ns"][step]) if timed and step != NONE else None
    return (
        text(rec, int(table["name"][row])),
        Cell(words(family), family),
        whole(None if step == NONE else step),
        in_us(since),
        in_us(int(table["dur_ns"][row]) if timed else None, 2),
        grid(rec, int(table["grid"][row])),
        Cell(str(int(table["stream"][row])), int(table["stream"][row])),
    )
