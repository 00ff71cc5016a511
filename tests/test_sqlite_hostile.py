"""Databases that are cut, wrong or made to harm: a sentence or a counted loss, in bounded memory, and nothing of theirs runs."""

from __future__ import annotations

import gzip
import sqlite3
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlite_kit import GUID, layout_a, nsys, rocpd_a, write

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.readers import _sqlite, sqlite
from m3probe.sources import open_recording


def losses(rec: Recording) -> dict[str, int]:
    return {note.word: note.count for note in rec.notes if note.lossy}


def changed(table: str, **cells: Any) -> dict[str, Any]:
    """Layout A with some cells of the first row of a table replaced, by column."""
    columns, rows = layout_a()[table]
    names = [part.split()[0].strip('"') for part in columns.split(",")]
    first = tuple(cells.get(name, cell) for name, cell in zip(names, rows[0], strict=True))
    return {table: (columns, [first, *rows[1:]])}


def test_views_and_triggers_and_virtual_tables_are_not_read(tmp_path: Path) -> None:
    """The view would run a query of the file's author; here it would also give other kernels."""
    trick = 'CREATE VIEW "rocpd_kernel_dispatch_zz" AS SELECT * FROM "rocpd_kernel_dispatch" UNION ALL SELECT * FROM "rocpd_kernel_dispatch"'
    trigger = "CREATE TRIGGER t AFTER INSERT ON rocpd_string BEGIN DELETE FROM rocpd_string; END"
    rec = open_recording(
        [rocpd_a(tmp_path / "x.db", trick, trigger, "CREATE VIRTUAL TABLE rocpd_kernel_dispatch_v USING fts5(id)")]
    )
    assert (len(rec.kernels), losses(rec)) == (3, {})


def test_a_view_instead_of_the_table_is_no_database_of_ours(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.db",
        {"a": ("id", [(1,)])},
        "CREATE VIEW rocpd_kernel_dispatch AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r",
    )
    with pytest.raises(UnreadableInput, match="of no profiler that m3probe knows"):
        open_recording([path])


def test_a_generated_column_is_not_computed(tmp_path: Path) -> None:
    """``end`` made by an expression is a column that the file lacks: its kernels have no duration."""
    columns, rows = layout_a()["rocpd_kernel_dispatch"]
    columns = columns.replace('"end"', '"end" AS (length(zeroblob(900000000)))')
    path = tmp_path / "x.db"
    tables = layout_a() | {"rocpd_kernel_dispatch": (columns, [])}
    write(path, tables)
    with sqlite3.connect(path) as db:
        names = "id, guid, nid, pid, tid, agent_id, kernel_id, queue_id, stream_id, start"
        db.executemany(
            f"INSERT INTO rocpd_kernel_dispatch ({names}) VALUES (?,?,?,?,?,?,?,?,?,?)", [row[:10] for row in rows]
        )
    db.close()
    rec = open_recording([path])
    assert (len(rec.kernels), rec.kernels["timed"].any()) == (3, False)


@pytest.mark.parametrize("cell", ["text", b"\x00\xff", 9e999, "9" * 30, 2.0**63])
def test_what_is_no_number_is_counted_and_the_row_kept(tmp_path: Path, cell: Any) -> None:
    columns, rows = layout_a()["rocpd_kernel_dispatch"]
    bad = [(*rows[0][:9], cell, *rows[0][10:]), *rows[1:]]
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_kernel_dispatch=(columns, bad))])
    assert (len(rec.kernels), rec.kernels["timed"].tolist(), losses(rec)) == (
        3,
        [False, True, True],
        {"bad_numbers": 1},
    )
    assert rec.kernels["dur_ns"].tolist()[1:] == [500, 700]


def test_numbers_written_as_text_and_missing_ones_are_no_loss(tmp_path: Path) -> None:
    tables = changed("rocpd_kernel_dispatch", start="2000", end="5000", tid=None, event_id=None, stream_id=None)
    rec = open_recording([rocpd_a(tmp_path / "x.db", **tables)])
    assert (rec.kernels["dur_ns"].tolist(), losses(rec)) == ([3_000, 500, 700], {})


@pytest.mark.parametrize(
    ("start", "end"), [(2**63 - 1, -(2**63)), (-(2**63), 2**63 - 1), (0, 2**62), (2**62, 2**62 + 5)]
)
def test_times_that_are_none_are_in_no_sum(tmp_path: Path, start: int, end: int) -> None:
    rec = open_recording([rocpd_a(tmp_path / "x.db", **changed("rocpd_kernel_dispatch", start=start, end=end))])
    facts = pipeline.inspect(rec).facts
    assert (facts["kernels"], facts["kernel_time_ns"]) == (3, 1_200)


IDS = ("pid", "tid", "agent_id", "kernel_id", "queue_id", "event_id", "grid_size_x", "workgroup_size_x")


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**53 + 1])
def test_ids_and_sizes_of_any_size_are_read(tmp_path: Path, value: int) -> None:
    for column in IDS:
        path = tmp_path / f"{column}.db"
        rec = open_recording([rocpd_a(path, **changed("rocpd_kernel_dispatch", **{column: value}))])
        assert (len(rec.kernels), int(rec.kernels["dur_ns"].sum())) == (3, 4_200)
    pipeline.report(rec)


def test_a_repeated_id_gives_the_first_of_its_rows(tmp_path: Path) -> None:
    columns, rows = layout_a()["rocpd_info_kernel_symbol"]
    twice = (columns.replace("INTEGER PRIMARY KEY", ""), [*rows, (7, GUID, "other", "other")])
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_info_kernel_symbol=twice)])
    assert rec.names("kernels") == ["gemm(void)", "norm", "gemm(void)"]


def test_names_are_kept_cut_and_escaped(tmp_path: Path) -> None:
    names = [(7, GUID, None, "a\x00b\x1b[31m\u202e"), (8, GUID, None, "n" * 100_000)]
    columns, _ = layout_a()["rocpd_info_kernel_symbol"]
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_info_kernel_symbol=(columns, names))])
    assert [len(name) for name in rec.names("kernels")] == [9, 65_536, 9]
    assert not [n for n in pipeline.inspect(rec).facts["calls"] if "\x1b" in n or "\x00" in n]


def test_bad_utf8_is_written_out(tmp_path: Path) -> None:
    path = rocpd_a(
        tmp_path / "x.db",
        "UPDATE rocpd_info_kernel_symbol SET display_name = CAST(x'61ff62eda080' AS TEXT) WHERE id = 7",
    )
    assert open_recording([path]).names("kernels")[0] == "a\\xffb\\xed\\xa0\\x80"


def test_a_huge_cell_costs_one_row_and_no_memory(tmp_path: Path) -> None:
    more = f"UPDATE rocpd_info_kernel_symbol SET display_name = CAST(zeroblob({_sqlite.LONGEST_CELL + 9}) AS TEXT) WHERE id = 7"
    rec = open_recording([rocpd_a(tmp_path / "x.db", more)])
    assert (rec.names("kernels")[1], losses(rec)["lost_rows"] >= 1) == ("norm", True)
    assert int(rec.kernels["dur_ns"].sum()) == 4_200


def test_a_cell_of_the_wrong_kind_is_let_go_at_once(tmp_path: Path) -> None:
    """3,000 texts of 64 KiB where numbers belong: one is held at a time."""
    columns, rows = layout_a()["rocpd_region"]
    many = [(i, GUID, 1, 50, 51, "x" * 65_536, 5, 5, None) for i in range(1_000, 1_300)]
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_region=(columns, [*rows, *many]))])
    assert losses(rec) == {"bad_numbers": 300}
    assert len(rec.kernels) == 3


# --- the file itself ---------------------------------------------------------------------------------------


def big(path: Path, rows: int = 4_000) -> Path:
    """Enough dispatches for many pages."""
    columns, (first, *_) = layout_a()["rocpd_kernel_dispatch"]
    return rocpd_a(path, rocpd_kernel_dispatch=(columns, [(i, *first[1:]) for i in range(1, rows + 1)]))


def test_a_cut_file_keeps_what_is_whole_and_says_so(tmp_path: Path) -> None:
    path = big(tmp_path / "x.db")
    whole = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        try:
            rec = open_recording([path])
        except UnreadableInput as error:
            assert error.where == str(path)
        else:
            assert "damaged_table" in losses(rec)
            assert len(rec.kernels) < 4_000
            assert rec.files[0].counts.truncated


def test_damaged_pages_are_a_loss_or_a_sentence(tmp_path: Path) -> None:
    path = big(tmp_path / "x.db")
    whole = path.read_bytes()
    noise = np.random.default_rng(3)
    for number in range(6):
        broken = bytearray(whole)
        for at in noise.integers(100, len(whole), 12).tolist():
            broken[at] = int(noise.integers(256))
        path.write_bytes(broken)
        try:
            rec = open_recording([path])
        except UnreadableInput as error:
            assert error.where == str(path), number
        else:
            assert len(rec.kernels) <= 4_000, number


def test_pages_that_lead_in_circles_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every child of the table's root is made its first leaf: rows would come again and again."""
    path = big(tmp_path / "x.db", 20_000)
    with sqlite3.connect(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rocpd_kernel_dispatch'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    data = bytearray(path.read_bytes())
    start = (root - 1) * size
    cells = struct.unpack(">H", data[start + 3 : start + 5])[0]
    pointers = struct.unpack(f">{cells}H", data[start + 12 : start + 12 + 2 * cells])
    for pointer in pointers:
        data[start + pointer : start + pointer + 4] = struct.pack(">I", root)
    path.write_bytes(data)
    monkeypatch.setattr(_sqlite, "_FEWEST_STEPS", 0)
    with pytest.raises(UnreadableInput) as caught:
        rec = open_recording([path])
        assert "damaged_table" in losses(rec)
        raise UnreadableInput("read in part", where=str(path))
    assert caught.value.where == str(path)


def test_a_runaway_walk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite, "_FEWEST_STEPS", 0)
    monkeypatch.setattr(_sqlite, "_STEPS_PER_BYTE", 0)
    rec = open_recording([big(tmp_path / "x.db", 20_000)])
    assert "damaged_table" in losses(rec)
    assert len(rec.kernels) < 20_000


@pytest.mark.parametrize(
    "content", [sqlite.MAGIC, sqlite.MAGIC + b"\x10\x00" + b"\x01" * 82, sqlite.MAGIC + b"\xff" * 9_000]
)
def test_a_header_alone_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput) as caught:
        open_recording([path])
    assert caught.value.where == str(path)


def test_an_error_of_sqlite_that_holds_bytes_of_the_file_is_escaped(tmp_path: Path) -> None:
    """Found by damaging bytes at random: SQLite names the broken part of the schema, and that is no UTF-8."""
    path = rocpd_a(tmp_path / "x.db")
    data = path.read_bytes()
    at = data.index(b'CREATE TABLE "rocpd_string"')
    path.write_bytes(data[:at] + b'CREATE TABLE "r\xff\x1b[31m" (x' + data[at + 24 :])
    with pytest.raises(UnreadableInput) as caught:
        open_recording([path])
    assert "cannot be read" in caught.value.what
    assert "\x1b" not in caught.value.what


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    with pytest.raises(UnreadableInput, match="empty"):
        open_recording([tmp_path / "x.db"])


def test_a_recording_that_is_still_written_is_told(tmp_path: Path) -> None:
    path = rocpd_a(tmp_path / "x.db")
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("INSERT INTO rocpd_string VALUES (99, 'g', 'late')")
    db.commit()
    before = sorted(file.name for file in tmp_path.iterdir())
    rec = open_recording([path])
    (note,) = [note for note in rec.notes if note.word == "still_written"]
    assert note.lossy
    assert "x.db-wal" in note.text
    assert len(rec.kernels) == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == before, "nothing is written beside it"
    db.close()


def test_a_foreign_database_is_an_error_alone_and_left_out_of_a_folder(tmp_path: Path) -> None:
    foreign = write(tmp_path / "cookies.db", {"cookies": ("id, name", [(1, "x")])})
    with pytest.raises(UnreadableInput, match="cookies"):
        open_recording([foreign])
    rocpd_a(tmp_path / "host" / "42_results.db") if (tmp_path / "host").mkdir() is None else None
    rec = open_recording([tmp_path])
    assert (len(rec.files), rec.outcome) == (1, "ok")
    assert [note.word for note in rec.notes] == ["ignored"]


def test_more_processes_than_a_host_has_are_refused(tmp_path: Path) -> None:
    """Each would be a rank: 4,000 cost 4 s to judge."""
    tables = layout_a()
    columns, rows = tables["rocpd_kernel_dispatch"]
    many = [(n + 1, GUID, 1, n, *rows[0][4:]) for n in range(1_025)]
    path = write(tmp_path / "many.db", {**tables, "rocpd_kernel_dispatch": (columns, many)})
    with pytest.raises(UnreadableInput, match="more than 1,024 devices"):
        open_recording([path])
    path = write(tmp_path / "most.db", {**tables, "rocpd_kernel_dispatch": (columns, many[:1_000])})
    assert len({file.pid for file in open_recording([path]).files if file.device}) == 1_000


def test_odd_paths_open(tmp_path: Path) -> None:
    folder = tmp_path / "a?mode=rw#b %41"
    folder.mkdir()
    assert len(open_recording([rocpd_a(folder / "x y.db")]).kernels) == 3


def test_a_gzip_is_inflated_to_a_copy_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    data = write(tmp_path / "x.sqlite", nsys()).read_bytes()
    packed = tmp_path / "y.sqlite.gz"
    packed.write_bytes(gzip.compress(data))
    assert len(open_recording([packed]).kernels) == 3
    packed.write_bytes(gzip.compress(data)[:-400])
    try:
        assert "truncated" in losses(open_recording([packed]))
    except UnreadableInput as error:
        assert error.where == str(packed)
    monkeypatch.setattr(sqlite, "MOST_INFLATED", 10_000)
    packed.write_bytes(gzip.compress(data))
    with pytest.raises(UnreadableInput, match="inflates to more than 10,000 bytes"):
        open_recording([packed])
    assert list(scratch.iterdir()) == []
