"""Tables of a recording and rows of a report as DataFrames: text for ids, ``<NA>`` for what is not known."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from m3probe.errors import MissingExtra, UsageError
from m3probe.model.counter_report import CounterRow, CountersSection
from m3probe.model.device_report import DeviceRow, DevicesSection, UnansweredRow
from m3probe.model.findings import Bound, Finding
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.repeat_report import RepeatRow, RepeatsSection
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    BytesSection,
    FamilyRow,
    PhaseRow,
    PlaneRow,
    QueueRow,
    QueuesSection,
    RankedRow,
    ShapeRow,
    ShapesSection,
    StepRow,
    SummarySection,
)
from m3probe.model.roofline_report import RooflineRow, RooflineSection
from m3probe.model.tables import TABLES, Array, Column, Table
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES

if TYPE_CHECKING:
    import pandas as pd

_WORDS: Mapping[str, Sequence[str]] = {
    "index into PHASES": [str(word) for word in PHASES],
    "index into FAMILIES": [str(word) for word in FAMILIES],
    "index into GRAPH_MODES": [str(word) for word in GRAPH_MODES],
}
_AS_RECORDED = ("start_ns", "dur_ns", "end_ns")
"""A trace may hold any number here, so that -1 is no word for what is not known."""
_DTYPES = ((bool, "boolean"), (int, "Int64"), (float, "Float64"), (str, "string"))
"""Of a row's field: the first that its type is one of (a bool is an int too)."""


def table_df(table: Table) -> pd.DataFrame:
    """A table with its units and meanings in ``attrs``.

    Raises:
        MissingExtra: pandas is not installed.
    """
    pd = _pandas()
    columns = TABLES[table.name]
    frame = pd.DataFrame({column.name: _resolved(pd, table, column) for column in columns})
    units = {column.name: _unit(column.unit) for column in columns}
    frame.attrs = {"table": table.name, "units": units, "meanings": {c.name: c.meaning for c in columns}}
    return frame


def _unit(unit: str) -> str:
    """Of what stands in the DataFrame."""
    if unit == "string id" or unit in _WORDS or _listed(unit):
        return "text"
    return "workgroups" if unit == "row of dims" else unit


def _resolved(pd: Any, table: Table, column: Column) -> Any:
    values, unit = table[column.name], column.unit
    words = _WORDS.get(unit) or _listed(unit)
    if words:
        return pd.Categorical.from_codes(values, words)
    if unit == "string id" and table.texts is not None:
        return _texts(pd, values, table.texts)
    if unit == "row of dims" and table.grids is not None:
        return pd.Series([table.grids[i] if i >= 0 else None for i in values.tolist()], dtype=object)
    if values.dtype.kind != "i" or column.name in _AS_RECORDED:
        return values
    unknown = values == -1
    return pd.arrays.BooleanArray(values == 1, unknown) if unit == "yes/no" else pd.arrays.IntegerArray(values, unknown)


def _texts(pd: Any, ids: Array, texts: Sequence[str]) -> Any:
    """Categories of the texts that occur: a recording has many more than one column needs."""
    used, codes = np.unique(ids, return_inverse=True)
    unknown = int(len(used) > 0 and used[0] < 0)
    return pd.Categorical.from_codes(codes.reshape(-1) - unknown, [texts[i] for i in used[unknown:].tolist()])


def _listed(unit: str) -> list[str]:
    """Words of a unit that lists them from 0: ``0 memcpy, 1 memset``."""
    found = re.findall(r"(?:^|, )(\d+) ([a-z ]+)", unit)
    return [word for _, word in found] if [int(n) for n, _ in found] == list(range(len(found))) else []


# --- rows of a report --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that ``Report.df`` gives: where they stand, their type, and the columns of what they belong to."""

    section: type[Any] | None
    kind: type[Any]
    of: Callable[[Any], Sequence[Any]]
    owners: tuple[str, ...] = ()


PLANES = ("compute", "state", "comm")
ROWS: Mapping[str, Rows] = {
    "cells": Rows(PathsSection, PathCell, lambda s: [(path.id, c) for path in s.paths for c in path.cells], ("path",)),
    "counters": Rows(CountersSection, CounterRow, lambda s: s.counters.rows),
    "devices": Rows(DevicesSection, DeviceRow, lambda s: s.device_time),
    "families": Rows(SummarySection, FamilyRow, lambda s: s.summary.families),
    "findings": Rows(None, Finding, lambda answer: answer.findings),
    "paths": Rows(PathsSection, PathRow, lambda s: s.paths),
    "phases": Rows(SummarySection, PhaseRow, lambda s: s.summary.phases),
    "planes": Rows(
        BytesSection, PlaneRow, lambda s: [(name, row) for name in PLANES for row in getattr(s.bytes, name)], ("plane",)
    ),
    "queues": Rows(QueuesSection, QueueRow, lambda s: s.queue_rows),
    "ranking": Rows(BottleneckSection, RankedRow, lambda s: s.ranking),
    "repeats": Rows(RepeatsSection, RepeatRow, lambda s: s.repeats),
    "roofline": Rows(RooflineSection, RooflineRow, lambda s: s.roofline.rows),
    "shapes": Rows(ShapesSection, ShapeRow, lambda s: s.shapes),
    "steps": Rows(SummarySection, StepRow, lambda s: s.steps),
    "unanswered": Rows(DevicesSection, UnansweredRow, lambda s: s.unanswered),
}


def rows_df(answer: Answer, name: str) -> pd.DataFrame:
    """Rows of a report by name; a bound becomes columns of its own, a list or a mapping stays an object.

    Raises:
        UsageError: no such rows, or their analyzer did not run.
        MissingExtra: pandas is not installed.
    """
    asked = ROWS.get(name)
    if asked is None:
        raise UsageError(f"a report has no rows called {name[:80]!r}", next_move=f"Known are {', '.join(ROWS)}")
    found = answer.section(asked.section) if asked.section else answer
    if found is None:
        raise UsageError(f"this report has no {name}: their analyzer failed", next_move="A finding *.failed says why")
    pd = _pandas()
    rows = [row if asked.owners else (row,) for row in asked.of(found)]
    columns = {owner: pd.array([row[i] for row in rows], dtype="string") for i, owner in enumerate(asked.owners)}
    for field, hint in get_type_hints(asked.kind).items():
        columns |= _columns(pd, field, hint, [getattr(row[-1], field) for row in rows])
    frame = pd.DataFrame(columns)
    frame.attrs = {"rows": name, "meaning": inspect.getdoc(asked.kind)}
    return frame


def _columns(pd: Any, name: str, hint: Any, values: list[Any]) -> dict[str, Any]:
    options = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    known = [option for option in options if option is not NoneType]
    if known == [Bound]:
        inner = get_type_hints(Bound)
        parts = {part: [None if b is None else getattr(b, part) for b in values] for part in inner}
        return {k: v for part in inner for k, v in _columns(pd, f"{name}_{part}", inner[part], parts[part]).items()}
    dtype = next((dtype for kind, dtype in _DTYPES if len(known) == 1 and _is(known[0], kind)), None)
    return {name: pd.Series(values, dtype=object) if dtype is None else pd.array(values, dtype=dtype)}


def _is(found: Any, kind: type) -> bool:
    return isinstance(found, type) and issubclass(found, kind)


def _pandas() -> Any:
    try:
        import pandas as pd  # 0.5-0.7 s and 70-109 MB
    except ImportError as error:
        raise MissingExtra("pandas", "df", error) from error
    return pd
