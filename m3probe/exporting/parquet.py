"""Apache Parquet, one file a table: what DuckDB, pandas, Polars and Spark read.

Written by pyarrow; ``ARROW:schema`` in each file's metadata brings dictionaries, units and meanings back.
"""

from __future__ import annotations

from pathlib import Path

from m3probe.exporting._arrow_batches import ROWS_A_BATCH, batches_of, schema_of
from m3probe.exporting._format import Export, Format, Written, a_folder
from m3probe.exporting._grid import OutTable
from m3probe.exporting._tables import write_tables


def write(export: Export, folder: Path) -> Written:
    """All tables as ``NAME.parquet``."""
    return write_tables(export, folder, ".parquet", _one)


def _one(table: OutTable, path: Path) -> None:
    from pyarrow import parquet

    schema = schema_of(table)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches_of(table, schema):
            writer.write_batch(batch, row_group_size=ROWS_A_BATCH)


FORMAT = Format("Apache Parquet", ("", "-parquet"), a_folder, write, needs=("pyarrow.parquet",))
