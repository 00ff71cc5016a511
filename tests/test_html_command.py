"""``analyze --html``: the result stays on stdout, the file is whole or not there, and never an input."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace

from m3probe import _writing
from m3probe.cli import main
from m3probe.errors import UnwrittenResult, UsageError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    events = [step(0.0, 900.0, "execute_context_0(0)_generation_8(8)"), launch(10.0, 1), kernel(50.0, 400.0, 1, "k")]
    return write_trace(tmp_path / "t.pt.trace.json", events)


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["m3probe", *map(str, words)])
    return main()


def test_writes_the_page_beside_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: Path
) -> None:
    out = tmp_path / "report.html"
    assert run(monkeypatch, "analyze", "--json", trace, "--html", out) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["summary"]["kernel_count"] == 1
    assert said.err == f"{out}: {out.stat().st_size / 1e6:.2f} MB, opens in a browser\n"
    assert out.read_text().startswith("<!doctype html>")
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "t.pt.trace.json"]
    # an older page is replaced, under the name of a link too
    link = tmp_path / "link.html"
    link.symlink_to(out)
    out.write_text("old")
    assert run(monkeypatch, "analyze", trace, "--html", link) == 0
    assert link.is_symlink()
    assert out.read_text().startswith("<!doctype html>")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_never_overwrites_an_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: Path
) -> None:
    before = trace.read_bytes()
    other = tmp_path / "other.html"
    os.link(trace, other)
    for out in (trace, other):
        assert run(monkeypatch, "analyze", trace, "--html", out) == 2
        assert "--html would overwrite an input" in capsys.readouterr().err
    assert run(monkeypatch, "analyze", tmp_path, "--html", trace) == 2
    assert "would overwrite a file of an input folder" in capsys.readouterr().err
    assert trace.read_bytes() == before


@pytest.mark.parametrize("where", ["nowhere/report.html", "folder"])
def test_tells_before_the_work_what_stops_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, where: str
) -> None:
    (tmp_path / "folder").mkdir()
    assert run(monkeypatch, "analyze", tmp_path / "no-such-trace.json", "--html", tmp_path / where) == 3
    said = capsys.readouterr()
    assert where in said.err
    assert "no-such-trace" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("name", ["n" * 300 + ".html", "loop.html", "dangling.html"])
def test_names_that_nothing_can_be_written_under_are_told_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "loop.html").symlink_to("loop.html")
    (tmp_path / "dangling.html").symlink_to("nowhere/page.html")
    if name == "loop.html" and sys.version_info >= (3, 13):
        pytest.skip("from 3.13 on a link to itself resolves to itself, and the page takes its place")
    assert run(monkeypatch, "analyze", tmp_path / "no-such-trace.json", "--html", tmp_path / name) == 3
    said = capsys.readouterr()
    assert name in said.err
    assert "no-such-trace" not in said.err


def test_where_stdout_goes_takes_no_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: Path
) -> None:
    result = tmp_path / "result.txt"
    result.write_text("")
    there, real = result.stat(), os.fstat
    monkeypatch.setattr(os, "fstat", lambda handle: there if handle == 1 else real(handle))
    assert run(monkeypatch, "analyze", trace, "--html", result) == 2
    assert "--html names what stdout goes to" in capsys.readouterr().err
    assert run(monkeypatch, "assert", "m3-mxfp8", trace, "--junit", result) == 2
    assert "--junit names what stdout goes to" in capsys.readouterr().err
    assert result.read_text() == ""
    assert run(monkeypatch, "analyze", trace, "--html", tmp_path / "other.html") == 0


def test_without_plotly_the_page_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert run(monkeypatch, "analyze", tmp_path / "no-such-trace.json", "--html", tmp_path / "p.html") == 2
    assert "--html needs plotly, which is not installed whole. pip install plotly" in capsys.readouterr().err


def test_full_disk_leaves_the_result_and_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    assert run(monkeypatch, "analyze", trace, "--html", "/dev/full") == 3
    said = capsys.readouterr()
    assert "Trust" in said.out
    assert said.err == "m3probe: /dev/full: cannot be written (No space left on device).\n"


def test_what_fails_half_way_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(UnwrittenResult, match="No space left"):
        _writing.write_whole(out, "new")
    assert out.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_page_may_lie_beside_the_traces_of_an_input_folder(tmp_path: Path, trace: Path) -> None:
    _writing.begin("--html", tmp_path / "report.html", [tmp_path])
    shutil.copy(trace, tmp_path / "report.html")
    _writing.begin("--html", tmp_path / "report.html", [tmp_path])
    with pytest.raises(UsageError):
        _writing.begin("--html", trace, [tmp_path])
