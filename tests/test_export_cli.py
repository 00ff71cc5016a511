"""``m3probe export`` as it is typed: what it prints, where it writes, and that nothing half stands under the name."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, write_trace
from export_kit import GRAPH
from tree import shared_or_skip

from m3probe import _export_words, cli, exporting
from m3probe.exporting import csv_tables
from m3probe.exporting._track import INSTANTS, SLICES, Arg, Track, lanes, placed

FILES = {"perfetto": "out.pftrace", "chrome": "out.json"}


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small trace, in an empty current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return write_trace(tmp_path / "run.pt.trace.json", [kernel(10.0 * n, 1.0, 0, f"k{n}") for n in range(1, 3000)])


def run(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["m3probe", "export", *map(str, words)])
    return cli.main()


def test_what_our_reader_takes_is_not_written_among_its_inputs(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(traced.parent)
    assert run(monkeypatch, ".", "--to", "chrome", "--out", "here/twin.json") == 2
    assert "lies in the input folder ., where it would be read as a second recording" in capsys.readouterr().err
    assert run(monkeypatch, ".", "--to", "perfetto", "--out", "here/line.pftrace") == 0
    assert run(monkeypatch, traced, "--to", "chrome", "--out", "here/twin.json") == 0


def test_words_are_those_of_the_table() -> None:
    assert tuple(exporting.FORMATS) == _export_words.FORMATS


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("perfetto", "run.pftrace"),
        ("chrome", "run.m3probe.json.gz"),
        ("parquet", "run-parquet"),
        ("arrow", "run-arrow"),
        ("csv", "run-csv"),
    ],
)
def test_without_a_name_it_is_called_like_the_input(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str, name: str
) -> None:
    assert run(monkeypatch, traced, "--to", to) == 0
    assert [path.name for path in Path.cwd().iterdir()] == [name]
    said = capsys.readouterr()
    assert said.out.startswith(f"wrote {name} ({to}, ")
    assert run(monkeypatch, traced, "--to", to) == 2
    assert "it exists already. Give another --out, or --force to replace it" in capsys.readouterr().err
    assert run(monkeypatch, traced, "--to", to, "--force") == 0
    assert [path.name for path in Path.cwd().iterdir()] == [name]


def test_json_says_what_was_written(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, traced, "--to", "csv", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["to"], said["path"], said["outcome"]) == ("csv", "run-csv", "ok_with_warnings")
    for row in said["files"]:
        written = Path("run-csv") / row["path"]
        assert row["bytes"] == written.stat().st_size
        assert row["rows"] == len(written.read_text().splitlines()) - 1


def test_a_loss_is_said_on_stderr(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, shared_or_skip("cases/k15_truncated.json"), "--to", "csv", "--out", tmp_path / "o") == 0
    said = capsys.readouterr()
    assert "warning: " in said.err
    assert "truncated file: the tail is missing" in said.err
    manifest = json.loads((tmp_path / "o" / "manifest.json").read_text())
    assert manifest["outcome"] == "partial"
    assert any("truncated file" in sentence for sentence in manifest["lost"])


def test_places_that_cannot_be_written(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("link").symlink_to("nowhere")
    Path("file").write_text("mine")
    for to, out, why in (
        ("perfetto", "folder", "a folder stands there"),
        ("csv", "file", "a file stands there"),
        ("perfetto", "fifo", "link, pipe or device"),
        ("perfetto", "link", "link, pipe or device"),
        ("perfetto", "/dev/full", "link, pipe or device"),
        ("perfetto", "none/such/x", "its folder does not exist"),
        ("perfetto", ".", "names no new file"),
        ("perfetto", "x" * 300, "File name too long"),
        ("csv", "folder", "--force replaces only those"),
        ("perfetto", traced, "--force would replace an input"),
        ("csv", traced.parent, "--force would replace an input"),
    ):
        assert run(monkeypatch, traced, "--to", to, "--out", out, "--force") == 2, out
        assert why in capsys.readouterr().err
    assert Path("file").read_text() == "mine"
    assert traced.exists()


@pytest.mark.parametrize("to", ["perfetto", "chrome", "parquet", "arrow", "csv"])
def test_a_full_disk_leaves_nothing(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    """The kernel refuses to write beyond a limit as it does beyond a disk's end; Python ignores the signal of it."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        status = run(monkeypatch, traced, "--to", to, "--out", FILES.get(to, "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 3
    assert "cannot be written (" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


def test_an_interrupted_export_leaves_what_was_there(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, traced, "--to", "csv") == 0
    before = sorted(path.read_bytes() for path in Path("run-csv").iterdir())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(csv_tables, "inert", interrupt)
    assert run(monkeypatch, traced, "--to", "csv", "--force") == 130
    assert run(monkeypatch, traced, "--to", "csv", "--out", "new") == 130
    assert [path.name for path in Path.cwd().iterdir()] == ["run-csv"]
    assert sorted(path.read_bytes() for path in Path("run-csv").iterdir()) == before


@pytest.mark.parametrize(("to", "library"), [("perfetto", "perfetto"), ("parquet", "pyarrow"), ("arrow", "pyarrow")])
def test_a_missing_library_names_the_extra(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str, library: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert run(monkeypatch, traced, "--to", to) == 2
    said = capsys.readouterr().err
    assert f"{library} cannot be imported" in said
    assert "pip install 'm3probe[export]'" in said
    assert list(Path.cwd().iterdir()) == []


def test_host_is_for_time_lines(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, traced, "--to", "csv", "--host") == 2
    assert "writes every row anyway" in capsys.readouterr().err


def test_nothing_to_export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = write_trace(
        tmp_path / "t.json", [{"ph": "X", "cat": "other", "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]
    )
    for to in ("csv", "perfetto"):
        assert run(monkeypatch, bare, "--to", to, "--out", tmp_path / to) == 3
        assert "nothing to export" in capsys.readouterr().err
    assert run(monkeypatch, tmp_path / "none", "--to", "csv", "--out", tmp_path / "x") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_more_slices_at_once_than_lanes_are_counted() -> None:
    import numpy as np

    zeros, ids = np.zeros(40, dtype=np.int64), np.arange(40)
    track = Track("g", "t", SLICES, zeros + 5, ids, [str(i) for i in ids], zeros + 10, (Arg("n", ids),))
    whole, untimed = placed(track)
    side, crowded = lanes(whole)
    assert (untimed, crowded, len(side)) == (0, 24, 16)
    assert sum(len(lane) for lane in side) == 16
    marks = Track("g", "t", INSTANTS, zeros + 5, ids, track.texts)
    assert lanes(marks) == ([marks], 0)


def test_the_sample_is_named_by_its_file() -> None:
    assert exporting.asked("perfetto", [GRAPH], None).place.target == Path("h200-m3-tp4rank-graph.pftrace")
    assert exporting.asked("csv", [GRAPH.parent], None).place.target == Path("samples-csv")
