"""Rows of a recording's tables as cells: ids as their texts, -1 and NaN as not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, TABLES, Column
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.sheets._told import in_us, whole, words
from m3probe.present.sheets.sheet import Cell
from m3probe.present.sheets.sheet import Column as Shown
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES

_WORDS: dict[str, Sequence[str]] = {
    "index into PHASES": PHASES,
    "index into FAMILIES": FAMILIES,
    "index into GRAPH_MODES": GRAPH_MODES,
}


def declared(table: str) -> tuple[Shown, ...]:
    """Columns of a table as declared, unit in the heading; the first ones stay longest."""
    return tuple(
        Shown(_heading(column), right=_is_number(column.unit), keep=place, wide=column.name == "name")
        for place, column in enumerate(TABLES[table])
    )


def _heading(column: Column) -> str:
    bare = words(column.name.removesuffix("_ns").removesuffix("_bytes"))
    unit = _shown_unit(column)[0]
    return f"{bare} {unit}" if unit in {"s", "µs", "bytes", "%", "MHz", "W", "C", "MB", "1/s"} else bare


def _shown_unit(column: Column) -> tuple[str, float]:
    """(unit, of how many of the declared one): clocks in s, durations in µs."""
    if column.unit != "ns":
        return column.unit, 1
    return ("s", 1e9) if column.name in {"mono_ns", "at_ns", "start_ns", "end_ns"} else ("µs", 1e3)


def _is_number(unit: str) -> bool:
    return unit not in {"string id", "yes/no", *_WORDS}


def as_declared(rec: Recording, table: str, row: int) -> tuple[Cell, ...]:
    """Every column of one row."""
    columns = rec.tables[table].columns
    return tuple(_cell(rec, column, columns[column.name][row].item()) for column in TABLES[table])


def _cell(rec: Recording, column: Column, value: float) -> Cell:
    unit = column.unit
    if isinstance(value, bool) or (unit == "yes/no" and value != NONE):
        return Cell("yes" if value else "no", int(value))
    if value == NONE or not math.isfinite(value):
        return Cell(UNKNOWN)
    if column.name == "file":
        return file_name(rec, int(value))
    if unit in _IDS:
        return _IDS[unit](rec, int(value))
    if unit in _WORDS:
        told = str(_WORDS[unit][int(value)])
        return Cell(told, told) if unit == "index into FAMILIES" else word(told)
    shown = value / _shown_unit(column)[1]
    return Cell(fixed(shown, 0 if float(shown).is_integer() else 3), value)


def word(said: str) -> Cell:
    """One of the fixed words."""
    return Cell(words(said), str(said))


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


_IDS: dict[str, Callable[[Recording, int], Cell]] = {"string id": text, "row of dims": grid}
UNNAMED = "(without a name)"
LONGEST_NAME = 4096
"""Characters of a name that are looked at for its short form."""
SHORT_WORD = 8
"""A last word below this says too little alone: ``gemvx::kernel``."""
KERNEL = (
    Shown("kernel", wide=True),
    Shown("family"),
    Shown("step", right=True, keep=1),
    Shown("start µs", right=True),
    Shown("µs", right=True),
    Shown("grid", right=True, keep=2),
    Shown("stream", right=True, keep=3),
    Shown("full name", keep=4, wide=True),
)
"""``start µs``: from the begin of the kernel's step on the host."""


def kernel(rec: Recording, row: int) -> tuple[Cell, ...]:
    """One kernel under ``KERNEL``; without a time where its record has none."""
    table = rec.kernels
    step, timed = int(table["step"][row]), bool(table["timed"][row])
    family = str(FAMILIES[int(table["family"][row])])
    since = int(table["start_ns"][row]) - int(rec.steps["start_ns"][step]) if timed and step != NONE else None
    name = rec.strings[int(table["name"][row])]
    return (
        Cell(bare_name(name) if name.strip() else UNNAMED, name),
        Cell(family, family),
        whole(None if step == NONE else step),
        in_us(since),
        in_us(int(table["dur_ns"][row]) if timed else None, 2),
        grid(rec, int(table["grid"][row])),
        Cell(str(int(table["stream"][row])), int(table["stream"][row])),
        Cell(name, name),
    )


def bare_name(name: str) -> str:
    """A kernel's name without its return type, namespaces, template arguments and parameters, which stand in the full one."""
    depth, kept = 0, []
    plain = name[:LONGEST_NAME].replace("(anonymous namespace)::", "")
    for char in plain:
        depth += char == "<"
        if not depth:
            kept.append(char)
        depth -= char == ">" and depth > 0
    before = "".join(kept).partition("(")[0].split()
    parts = before[-1].split("::") if before and not depth else []
    short = parts[-1] if parts else ""
    return ("::".join(parts[-2:]) if len(short) < SHORT_WORD else short) or name
