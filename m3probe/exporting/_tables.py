"""What all formats of tables share: which tables, one file each, and the manifest beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.exporting._format import Export, Written
from m3probe.exporting._grid import OutTable
from m3probe.exporting._judged import judged
from m3probe.exporting._place import MANIFEST
from m3probe.exporting._recorded import recorded
from m3probe.exporting._said import manifest
from m3probe.model.export_report import WroteRow
from m3probe.model.recording import Recording

WriteOne = Callable[[OutTable, Path], None]


def tables(export: Export) -> Iterator[OutTable]:
    """The recording's tables and the report's, one after the other.

    Raises:
        UnreadableInput: the recording has no row in any table.
    """
    held(export.rec)
    yield from recorded(export.rec)
    yield from judged(export.report)


def held(rec: Recording) -> None:
    """Whether there is anything.

    Raises:
        UnreadableInput: there is not.
    """
    meta = rec.meta
    if not any(len(table) for table in rec.tables.values()) and not (meta.bench or meta.kernel_tables or meta.logs):
        move = "m3probe inspect says what is in it"
        raise UnreadableInput("nothing to export: no table has a row", where=rec.files[0].path, next_move=move)


def write_tables(export: Export, folder: Path, suffix: str, write_one: WriteOne) -> Written:
    """One file for each table, and ``manifest.json``."""
    files: list[WroteRow] = []
    told: list[dict[str, Any]] = []
    for table in tables(export):
        path = folder / f"{table.name}{suffix}"
        write_one(table, path)
        files.append(WroteRow(path.name, table.rows, path.stat().st_size))
        told.append(_told(table, path))
    there = {table["name"] for table in told}
    said = manifest(export) | {
        "tables": told,
        "without_rows": sorted(name for name in export.rec.tables if name not in there),
    }
    (folder / MANIFEST).write_text(json.dumps(said, indent=1) + "\n", encoding="ascii")
    return tuple(files), ()


def _told(table: OutTable, path: Path) -> dict[str, Any]:
    columns = [{"name": c.name, "kind": c.kind, "unit": c.unit, "meaning": c.meaning} for c in table.columns]
    return {
        "name": table.name,
        "file": path.name,
        "rows": table.rows,
        "bytes": path.stat().st_size,
        "meaning": table.meaning,
        "columns": columns,
    }
