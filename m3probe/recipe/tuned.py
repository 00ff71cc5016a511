"""Tuned tables of the serving host, and which local shapes they hold."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.fastpaths.tuned_table import best, dense_kind, keys_of, tables_in_force
from m3probe.model.recipe_report import ShapeLine, WorkPoint
from m3probe.readers.small_file import read_small
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.schema.setup import Setup
from m3probe.schema.tuned import GemmKey, MoeKey, TableKind, TunedTable

Tables = Mapping[str, TunedTable]
REPLACES = "AITER_CONFIG_FMOE"
MOST_BYTES = 8 * 2**20
"""Of one table: AITER's largest has about 2 MiB; 8 MiB of rows are read in 5 s."""
MOST_FILES = 2000
"""AITER ships about 150 tables."""


def read_tables(paths: Sequence[Path], env: Mapping[str, str]) -> tuple[Tables, tuple[str, ...]]:
    """(tables by file, what of them could not be read): those given, else those that AITER_CONFIG_FMOE names, else the
    environment's AITER's own.

    A folder is searched; in it a file that is no table is passed over, and one that should be is told. AITER is found,
    not imported.

    Raises:
        UnreadableInput: a path that was given is missing, no table, or a folder without one.
    """
    lost: list[str] = []
    if paths:
        return {name: table for path in paths for name, table in _given(path, lost)}, tuple(lost)
    named = [Path(part) for part in env.get(REPLACES, "").split(":") if part.strip()]
    # AITER appends what it finds to one list: where nothing was named, all tables of the package are in force.
    return dict(_found(named or _installed(), lost)), tuple(lost)


def _given(path: Path, lost: list[str]) -> Iterator[tuple[str, TunedTable]]:
    if not _is_folder(path):
        yield str(path), _table(path)
        return
    found = dict(_found(_csv_files(path), lost))
    if not found:
        raise UnreadableInput(
            "no tuned table in this folder", where=str(path), next_move="Name a folder with AITER's *_tuned_*.csv files"
        )
    yield from found.items()


def _found(files: Sequence[Path], lost: list[str]) -> Iterator[tuple[str, TunedTable]]:
    """Tables among files; what is named like a tuned table and is none is told in ``lost``."""
    for file in files:
        try:
            yield str(file), _table(file)
        except UnreadableInput as error:
            if "untuned" not in file.name and "tuned" in file.name:
                lost.append(f"a tuned table is left out: {error.sentence()}")


def _csv_files(folder: Path) -> list[Path]:
    """CSV files below a folder.

    Raises:
        UnreadableInput: it cannot be searched, or holds more than 2,000.
    """
    try:
        found = list(islice((path for path in folder.rglob("*.csv") if path.is_file()), MOST_FILES + 1))
    except OSError as error:
        raise UnreadableInput(f"cannot be searched ({error.strerror})", where=str(folder)) from error
    if len(found) > MOST_FILES:
        raise UnreadableInput(
            f"more than {MOST_FILES:,} CSV files", where=str(folder), next_move="Name the tuned tables themselves"
        )
    return sorted(found)


def _installed() -> list[Path]:
    try:
        spec = importlib.util.find_spec("aiter")
    except (ImportError, ValueError):
        return []
    places = (spec.submodule_search_locations or ()) if spec else ()
    return [file for place in places for file in _csv_files(Path(place) / "configs")]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _table(path: Path) -> TunedTable:
    return read_tuned_table(read_small(path, MOST_BYTES), str(path))


def with_tuned(shapes: Sequence[ShapeLine], setup: Setup, points: Sequence[WorkPoint]) -> tuple[ShapeLine, ...]:
    """Each local shape with ``tuned`` or ``default`` per step, where a library looks a table up for it."""
    return tuple(replace(shape, tuned=dict(_looked_up(shape, setup, points))) for shape in shapes)


def _looked_up(shape: ShapeLine, setup: Setup, points: Sequence[WorkPoint]) -> Iterator[tuple[str, str]]:
    for point in points:
        for key in keys_of(setup, point.rows):
            kind = TableKind.FMOE if isinstance(key, MoeKey) else dense_kind(setup)
            mine = shape.module == "moe_w13" if isinstance(key, MoeKey) else (key.n, key.k) == (shape.N, shape.K)
            tables = tables_in_force(setup, kind) if kind and mine and _dense_or_moe(shape, key) else ()
            if tables:
                yield point.label, best(tables, key).text


def _dense_or_moe(shape: ShapeLine, key: MoeKey | GemmKey) -> bool:
    return (shape.experts is not None) is isinstance(key, MoeKey)
