"""Tables as Arrow record batches: text as dictionaries, lists as lists, unit and meaning in the fields' metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from m3probe.exporting._grid import BOOL, FLOAT, INT, INTS, SHAPES, TEXT, TEXTS, Out, OutTable

ROWS_A_BATCH = 2**17
"""Rows that are converted at a time: what is held beside the recording stays below 50 MB at 25 columns."""


def schema_of(table: OutTable) -> Any:
    """The table's ``pyarrow.Schema``."""
    import pyarrow as pa

    types = _types()
    made = []
    for column in table.columns:
        said = {"unit": column.unit, "meaning": column.meaning}
        kind = pa.dictionary(pa.int32(), pa.string()) if column.kind == TEXT else types[column.kind]
        made.append(pa.field(column.name, kind, metadata={key: text for key, text in said.items() if text}))
    return pa.schema(made, metadata={"table": table.name, "meaning": table.meaning})


def batches_of(table: OutTable, schema: Any) -> Iterator[Any]:
    """Its rows as ``pyarrow.RecordBatch``es of at most ``ROWS_A_BATCH``."""
    import pyarrow as pa

    known = [pa.array(column.known, type=_known_type(column)) for column in table.columns]
    for first in range(0, table.rows, ROWS_A_BATCH):
        rows = slice(first, min(first + ROWS_A_BATCH, table.rows))
        arrays = [_array(column, values, rows) for column, values in zip(table.columns, known, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _types() -> dict[str, Any]:
    import pyarrow as pa

    ints = pa.list_(pa.int64())
    plain = {INT: pa.int64(), FLOAT: pa.float64(), BOOL: pa.bool_()}
    return plain | {TEXT: pa.string(), INTS: ints, SHAPES: pa.list_(ints), TEXTS: pa.list_(pa.string())}


def _known_type(column: Out) -> Any:
    return _types()[column.kind]


def _array(column: Out, known: Any, rows: slice) -> Any:
    import numpy as np
    import pyarrow as pa

    values, null = column.values[rows], column.null[rows]
    if column.kind in {INT, FLOAT, BOOL}:
        wanted = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_}[column.kind]
        return pa.array(values.astype(wanted, copy=False), mask=null)
    at = pa.array(values, type=pa.int32(), mask=null)
    return pa.DictionaryArray.from_arrays(at, known) if column.kind == TEXT else known.take(at)
