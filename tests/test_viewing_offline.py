"""Views of files: what was read, what was lost, and that reading can be given up."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest
from sqlite_kit import nsys, write
from tree import ROOT

from m3probe.comparing import AskedRun
from m3probe.errors import UnreadableInput, UsageError
from m3probe.model.view import Word
from m3probe.viewing.follow import FollowFeed
from m3probe.viewing.offline import JUDGING, GivenUp, PathFeed
from m3probe.viewing.opening import feed_of_words, is_server
from m3probe.workload import Workload

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
RECORDING = ROOT / "samples" / "live-h200-m3-graph"
NOW = 1_700_000_000.0


def never() -> bool:
    return False


def test_a_file_is_read_whole_once_and_says_what_it_is() -> None:
    told: list[str] = []
    view = PathFeed([SAMPLE], clock=lambda: NOW).poll(lambda what, *_: told.append(what), never)
    assert (view.title, view.word, view.detail, view.at_s, view.next_poll_s) == (SAMPLE.name, Word.READ, "", NOW, None)
    assert [(s.name, s.kind, s.word) for s in view.sources] == [(SAMPLE.name, "kineto", Word.READ)]
    assert view.sources[0].found == f"rank 0, {SAMPLE.stat().st_size:,} bytes"
    assert view.report is not None
    assert len(view.recording.kernels) == 2059
    assert told[-1] == JUDGING
    assert set(told[:-1]) == {SAMPLE.name}


def test_a_cut_file_is_partial_and_says_why(tmp_path: Path) -> None:
    whole = gzip.decompress(SAMPLE.read_bytes())
    cut = tmp_path / "rank3.pt.trace.json"
    cut.write_bytes(whole[: len(whole) // 2])
    told: list[str] = []
    view = PathFeed([cut], clock=lambda: NOW).poll(lambda what, *_: told.append(what), never)
    assert view.word is Word.PARTIAL
    assert view.detail
    assert view.sources[0].word is Word.PARTIAL
    assert set(told) <= {"rank 3: rank3.pt.trace.json", JUDGING}


def test_reading_is_given_up_when_nobody_waits(tmp_path: Path) -> None:
    big = tmp_path / "rank0.json"
    big.write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    with pytest.raises(GivenUp):
        PathFeed([big]).poll(lambda *_: None, lambda: True)


def test_what_cannot_be_read_is_an_error_with_its_place() -> None:
    with pytest.raises(UnreadableInput, match="no-such-file"):
        PathFeed([Path("no-such-file.json")]).poll(lambda *_: None, never)


def test_runs_are_held_against_the_first_and_the_last_one_is_shown() -> None:
    runs = [AskedRun((SAMPLE,), "before"), AskedRun((SAMPLE,), "after")]
    view = PathFeed([SAMPLE], runs=runs).poll(lambda *_: None, never)
    assert [(pair.before, pair.after) for pair in view.compare.pairs] == [("before", "after")]
    assert (view.title, view.report is not None) == (SAMPLE.name, True)


# --- the words of the command line -----------------------------------------------------------------------------


def words(*paths: object, **given: object) -> argparse.Namespace:
    known = {"compare": False, "header": [], "cacert": None, "out": None, "inject": False, "take_over": False}
    return argparse.Namespace(paths=[str(path) for path in paths], **(known | given))


@pytest.mark.parametrize(
    ("word", "server"),
    [
        ("http://127.0.0.1:1", True),
        ("https://x", True),
        ("4711", True),
        ("auto", True),
        ("run.json", False),
        (".", False),
    ],
)
def test_an_address_and_a_pid_are_servers(word: str, server: bool) -> None:
    assert is_server(word) is server


def test_a_file_that_is_called_like_a_pid_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("4711").touch()
    assert not is_server("4711")


def test_files_are_read_and_a_recording_is_followed() -> None:
    assert isinstance(feed_of_words(words(SAMPLE), Workload()), PathFeed)
    assert isinstance(feed_of_words(words(SAMPLE, RECORDING), Workload()), PathFeed)
    feed = feed_of_words(words(RECORDING), Workload())
    assert isinstance(feed, FollowFeed)
    feed.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (words("http://127.0.0.1:1", "a.json"), "looked at alone"),
        (words("a.json", out=Path("x")), "--out says how a running server"),
        (words("a.json", take_over=True), "--take-over says how"),
        (words("http://127.0.0.1:1", "a.json", compare=True), "recordings against each other"),
        (words("a.json", compare=True), "needs two runs or more, got 1"),
        (words("ftp://host/a.json"), "ftp://host/a.json: no such address is watched"),
    ],
)
def test_words_that_contradict_each_other_are_refused(given: argparse.Namespace, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        feed_of_words(given, Workload())


def test_one_database_of_two_devices_is_one_source_with_its_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", nsys())
    view = PathFeed([path], clock=lambda: NOW).poll(lambda *_: None, never)
    assert [s.name for s in view.sources] == ["run.sqlite"]
    assert view.sources[0].found == f"ranks 0, 1, {path.stat().st_size:,} bytes"
    assert view.sources[0].detail.count("some events were lost") == 1
