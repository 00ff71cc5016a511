"""The tables of a recording, each column declared once: name, dtype, unit, meaning.

Strings are ids into ``Recording.strings``; -1 in an id, count or row column means "not known" or
"none" and is never a measured value. Times are int64 ns on the clock of their file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from m3probe.model.counter_tables import COUNTER_TABLES
from m3probe.model.device_tables import DEVICE_TABLES
from m3probe.model.live_tables import LIVE_TABLES
from m3probe.model.log_tables import LOG_TABLES
from m3probe.model.metric_tables import METRIC_TABLES

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]

NONE = -1
"""Id, row or count that is not known; no column uses it for anything else."""


LONGEST_NS = 10**15
"""A kernel of more than 11 days is damage; sums of a million such records still fit int64."""

OTHER_CALL, LAUNCH, GRAPH_LAUNCH = 0, 1, 2
"""``launches.kind``: what a runtime call does."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its dtype, unit and meaning."""

    name: str
    dtype: str
    unit: str
    meaning: str


def _cols(*rows: tuple[str, str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_WHERE = (
    ("file", "int32", "id", "index into Recording.files"),
    ("name", "int32", "string id", "as stored in the trace"),
    ("start_ns", "int64", "ns", "start on the file's clock"),
    ("dur_ns", "int64", "ns", "duration"),
)
_HOST = (
    ("pid", "int64", "id", "process that made the call"),
    ("tid", "int64", "id", "thread that made the call"),
)
_DEVICE = (
    ("device", "int32", "id", "args.device, else the track; never a process"),
    ("stream", "int64", "id", "64 bits: ROCm stream ids can be handles"),
    ("correlation", "int64", "id", "launch link within one file; 0 links nothing"),
    ("launch", "int32", "row of launches", "runtime call with the same (file, correlation)"),
    ("step", "int32", "row of steps", "step whose window holds the launch"),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "steps": _cols(
        *_WHERE,
        *_HOST,
        ("end_ns", "int64", "ns", "start of the next step, or the end of the file"),
        ("phase", "int8", "index into PHASES", "what the step computed"),
        ("requests", "int64", "requests", "context + generation requests"),
        ("rows", "int64", "tokens", "real tokens: context + generation"),
        ("ctx_reqs", "int64", "requests", "prefill requests"),
        ("ctx_tokens", "int64", "tokens", "prefill tokens"),
        ("gen_reqs", "int64", "requests", "decode requests"),
        ("gen_tokens", "int64", "tokens", "decode tokens, drafts included"),
        ("ctx_seq_len_sum", "int64", "tokens", "sum of key lengths of prefill requests"),
        ("gen_seq_len_sum", "int64", "tokens", "sum of key lengths of decode requests"),
        ("ctx_sq_sum", "int64", "tokens^2", "sum of squared prefill lengths"),
        ("graph_launches", "int32", "calls", "graph launches in the step"),
        ("graph_mode", "int8", "index into GRAPH_MODES", "FULL, PIECEWISE or NONE"),
    ),
    "kernels": _cols(
        *_WHERE,
        *_DEVICE,
        ("op", "int32", "row of ops", "innermost op around the launch"),
        ("family", "int8", "index into FAMILIES", "from the kernel name"),
        ("timed", "bool", "", "has a timestamp and no negative duration"),
        ("in_graph", "bool", "", "its launch is a graph launch"),
        ("grid", "int32", "row of dims", "launch grid in workgroups"),
    ),
    "launches": _cols(
        *_WHERE,
        *_HOST,
        ("correlation", "int64", "id", "0 links nothing"),
        ("kind", "int8", "0 other, 1 launch, 2 graph launch", "what the runtime call does"),
        ("step", "int32", "row of steps", "step whose window holds the call"),
        ("op", "int32", "row of ops", "innermost op around the call"),
        ("kernels", "int32", "kernels", "kernel records that carry this correlation"),
        ("graph", "int32", "graph id", "census graph that this replay was matched to"),
    ),
    "ops": _cols(
        *_WHERE,
        *_HOST,
        ("dims", "int32", "string id", "Input Dims as JSON text"),
        ("types", "int32", "string id", "Input type as JSON text"),
        ("strides", "int32", "string id", "Input Strides as JSON text"),
        ("collective", "int32", "string id", "collective name, of communication ops"),
        ("payload_elems", "int64", "elements", "In msg nelems of a collective"),
        ("payload_dtype", "int32", "string id", "dtype of a collective"),
        ("group_size", "int32", "ranks", "ranks of a collective"),
    ),
    "graphs": _cols(
        ("file", "int32", "id", "capture file"),
        ("graph", "int32", "graph id", "one captured graph"),
        ("position", "int32", "index", "launch order inside the graph"),
        ("mode", "int8", "index into GRAPH_MODES", "FULL or PIECEWISE"),
        ("padded_rows", "int64", "tokens", "batch size the graph was captured for"),
        ("name", "int32", "string id", "kernel"),
        ("family", "int8", "index into FAMILIES", "from the kernel name"),
        ("op", "int32", "string id", "op that launched it"),
        ("dims", "int32", "string id", "Input Dims of that op"),
        ("types", "int32", "string id", "Input type of that op"),
        ("strides", "int32", "string id", "Input Strides of that op"),
        ("grid", "int32", "row of dims", "launch grid in workgroups"),
    ),
    "transfers": _cols(
        *_WHERE,
        *_DEVICE,
        ("kind", "int8", "0 memcpy, 1 memset", "what moved"),
        ("payload_bytes", "int64", "bytes", "-1 when the trace does not say"),
        ("op", "int32", "row of ops", "innermost op around the call"),
        ("in_graph", "bool", "", "its launch is a graph launch"),
    ),
    "whole_graphs": _cols(
        ("file", "int32", "id", "index into Recording.files"),
        ("start_ns", "int64", "ns", "start on the file's clock"),
        ("dur_ns", "int64", "ns", "of the whole graph"),
        ("timed", "bool", "", "has a time stamp and no negative duration"),
        ("device", "int32", "id", "of the launch"),
        ("stream", "int64", "id", "of the launch"),
        ("correlation", "int64", "id", "that of its launch in the same file"),
        ("graph", "int64", "id", "graph as the profiler numbers it"),
    ),
    **{name: _cols(*columns) for name, columns in LIVE_TABLES.items()},
    **{name: _cols(*columns) for name, columns in METRIC_TABLES.items()},
    **{name: _cols(*columns) for name, columns in (LOG_TABLES | DEVICE_TABLES | COUNTER_TABLES).items()},
}


class Table:
    """Columns of equal length, checked against their declaration on entry.

    Args:
        name: one of ``TABLES``.
        columns: column name -> array of the declared dtype (castable without loss).

    Raises:
        ValueError: a column is missing, unknown, or of another length.
    """

    __slots__ = ("columns", "grids", "name", "texts")

    def __init__(self, name: str, columns: Mapping[str, Array]) -> None:
        declared = {column.name: column for column in TABLES[name]}
        if columns.keys() != declared.keys():
            raise ValueError(f"table {name}: columns differ: {sorted(columns.keys() ^ declared.keys())}")
        checked = {key: np.asarray(columns[key], dtype=declared[key].dtype) for key in declared}
        lengths = {len(values) for values in checked.values()}
        if len(lengths) > 1:
            raise ValueError(f"table {name}: columns of {sorted(lengths)} rows")
        self.name = name
        self.columns = checked
        self.texts: Sequence[str] | None = None
        """Text of each string id, and ``grids`` of each row of dims: the recording's own, once the table is in one."""
        self.grids: Sequence[tuple[int, ...]] | None = None

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self):,} rows of {', '.join(self.columns)}>"

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def df(self) -> pd.DataFrame:
        """The table as a DataFrame: one row each, so that ``kernels.df()["step"]`` is the index of ``steps.df()``.

        String ids become their text and indexes their word (categories), yes/no becomes booleans, and whole numbers are
        ``Int32`` or ``Int64`` with ``<NA>`` for what is not known; a grid is a tuple of workgroups. Start, end and
        duration stay int64 as they were recorded: ``timed`` says of a kernel whether they are any good.
        ``attrs["units"]`` and ``attrs["meanings"]`` have a word for each column. The raw columns are ``table["name"]``.

        Raises:
            MissingExtra: pandas is not installed (``pip install 'm3probe[df]'``).
        """
        from m3probe.model._dataframes import table_df  # deferred with its pandas: `analyze` never needs it

        return table_df(self)


def empty_columns(name: str) -> dict[str, Array]:
    """Columns of a table without rows."""
    return {column.name: np.empty(0, dtype=column.dtype) for column in TABLES[name]}
