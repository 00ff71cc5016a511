"""Arrow IPC files (Feather version 2), one a table: mapped into memory as they are by pyarrow, Polars and pandas."""

from __future__ import annotations

from pathlib import Path

from m3probe.exporting._arrow_batches import batches_of, schema_of
from m3probe.exporting._format import Export, Format, Written, a_folder
from m3probe.exporting._grid import OutTable
from m3probe.exporting._tables import write_tables


def write(export: Export, folder: Path) -> Written:
    """All tables as ``NAME.arrow``."""
    return write_tables(export, folder, ".arrow", _one)


def _one(table: OutTable, path: Path) -> None:
    import pyarrow as pa

    schema = schema_of(table)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for batch in batches_of(table, schema):
            writer.write_batch(batch)


FORMAT = Format("Arrow IPC", ("", "-arrow"), a_folder, write, needs=("pyarrow.ipc",))
