"""Paths to one recording: what belongs together, and what does not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.model.report import BottleneckSection, TrustSection

DECODE = "execute_context_0(0)_generation_1(1)"


def run_of(path: Path, us: float) -> Path:
    """Two decode steps of one kernel each."""
    events = []
    for at in (100.0, 200.0):
        correlation = int(at)
        events += [step(at, 50.0, DECODE), launch(at + 1, correlation), kernel(at + 10, us, correlation, "gemm")]
    return write_trace(path, events)


def test_two_recordings_of_one_rank_name_no_bottleneck(tmp_path: Path) -> None:
    paths = [run_of(tmp_path / "a.json", 20.0), run_of(tmp_path / "b.json", 40.0)]
    answer = pipeline.analyze(paths).answer
    trust, bottleneck = answer.section(TrustSection), answer.section(BottleneckSection)
    assert trust is not None
    assert bottleneck is not None
    assert (trust.trust.verdict, [r.word for r in trust.trust.reasons]) == ("degraded", ["same_rank"])
    assert bottleneck.next_bottleneck is None
    alone = pipeline.analyze(paths[:1]).answer.section(BottleneckSection)
    assert alone is not None
    assert alone.next_bottleneck is not None


def test_a_folder_is_searched_below_and_foreign_files_are_left_out(tmp_path: Path) -> None:
    below = tmp_path / "profile" / "run1"
    below.mkdir(parents=True)
    run_of(below / "dp0_pp0_tp0_dcp0_ep0_rank0.1.pt.trace.json", 5.0)
    (below / "execution_details.json").write_text('[{"file": "x", "batch_size": 32, "mode": "FULL"}]')
    (below / "profiler_out_0.txt").write_text("Name  Self CPU %")
    rec = pipeline.read([tmp_path])
    assert [f.rank for f in rec.files] == [0]
    assert len(rec.kernels) == 2
    assert [n.text for n in rec.notes] == ["1 file(s) that are no trace left out"]


# --- what cannot be read ------------------------------------------------------------------------------------

UNREADABLE = {
    "empty": b"",
    "cut": gzip.compress(b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}')[:12],
    "nothing_in_gzip": gzip.compress(b""),
    "one_byte": b"{",
    "no_events": b'{"schemaVersion": 1, "traceEvents": []}',
    "cut_in_its_header": b'{"schemaVersion": 1, "traceEvents": [',
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_one_unreadable_rank_file_of_a_folder_is_a_loss(tmp_path: Path, content: bytes) -> None:
    run_of(tmp_path / "rank0.json", 5.0)
    bad = tmp_path / "rank1.json"
    bad.write_bytes(content)
    run_of(tmp_path / "rank2.json", 5.0)
    for paths in ([tmp_path], sorted(tmp_path.iterdir())):
        rec = pipeline.read(paths)
        assert [Path(f.path).name for f in rec.files] == ["rank0.json", "rank2.json"]
        assert (len(rec.kernels), sorted(set(rec.kernels["file"].tolist()))) == (4, [0, 1])
        (note,) = [n for n in rec.notes if n.lossy]
        assert (note.word, note.path, rec.outcome) == ("unread", str(bad), "partial")


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_alone_an_unreadable_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "rank1.json"
    bad.write_bytes(content)
    for paths in ([bad], [tmp_path]):
        with pytest.raises(UnreadableInput) as caught:
            pipeline.read(paths)
        assert caught.value.where == str(bad)


def test_several_unreadable_files_are_one_sentence_with_their_number(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.json"):
        (tmp_path / name).touch()
    with pytest.raises(UnreadableInput) as caught:
        pipeline.read([tmp_path])
    assert "a.json: the file is empty (0 bytes) (2 more" in caught.value.sentence()


def test_what_could_not_be_read_leaves_no_verdict_proven(tmp_path: Path) -> None:
    run_of(tmp_path / "a.json", 5.0)
    (tmp_path / "b.json").touch()
    trust = pipeline.analyze([tmp_path]).answer.section(TrustSection)
    assert trust is not None
    said = {reason.word: reason.hides_kernels for reason in trust.trust.reasons}
    assert (trust.trust.verdict, said) == ("degraded", {"unread": True})


@pytest.mark.parametrize("name", ["gone.json", "good.json/x", "a" * 300])
def test_a_misspelt_name_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    good = run_of(tmp_path / "good.json", 5.0)
    told: list[Path] = []
    with pytest.raises(UnreadableInput) as caught:
        pipeline.read([good, tmp_path / name], progress=lambda path, _read, _size: told.append(path))
    assert caught.value.where == str(tmp_path / name)
    assert told == []


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    run_of(tmp_path / "rank0.json", 5.0)
    os.mkfifo(tmp_path / "rank1.json")
    (note,) = [n for n in pipeline.read([tmp_path]).notes if n.lossy]
    assert "no regular file" in note.text


# --- the same file twice ------------------------------------------------------------------------------------


def test_a_file_counts_once_however_often_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    path = run_of(folder / "rank0.json", 5.0)
    other = run_of(tmp_path / "other.json", 5.0)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    for paths, again in (
        ([path, path], 1),
        ([path, folder], 1),
        ([folder, path, folder], 2),
        ([path, link], 1),
        ([path, other], 0),
    ):
        rec = pipeline.read(paths)
        assert len(rec.kernels) == (2 if again else 4)
        assert [(n.word, n.count) for n in rec.notes if not n.quiet] == [("repeated", again)][: bool(again)]
    (folder / "rank0_latest.json").symlink_to(path)
    assert len(pipeline.read([folder]).kernels) == 2


def test_a_file_that_is_named_beside_its_folder_still_has_sibling_ranks(tmp_path: Path) -> None:
    """World size 2 and one file: found in a folder, its sibling is missing, whatever else was named."""
    events = [launch(0.0, 1), kernel(1.0, 2.0, 1, "k")]
    path = write_trace(tmp_path / "r0.json", events, distributedInfo={"rank": 0, "world_size": 2})
    for paths in ([tmp_path], [path, tmp_path], [tmp_path, path]):
        assert pipeline.inspect(pipeline.read(paths)).facts["missing_ranks"] == [1]


def test_a_foreign_file_that_is_named_is_told_although_its_folder_leaves_it_out(tmp_path: Path) -> None:
    run_of(tmp_path / "r0.json", 5.0)
    foreign = tmp_path / "details.json"
    foreign.write_text('{"batch_size": 32}')
    assert [n for n in pipeline.read([tmp_path]).notes if n.lossy] == []
    (note,) = [n for n in pipeline.read([tmp_path, foreign]).notes if n.lossy]
    assert note.path == str(foreign)


def test_a_linked_folder_is_not_searched_but_told(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "profile", tmp_path / "elsewhere"
    for each in (folder, elsewhere):
        each.mkdir()
        run_of(each / "r.json", 5.0)
    (folder / "self").symlink_to(folder)
    assert [n for n in pipeline.read([folder]).notes if not n.quiet] == []
    (folder / "rank1").symlink_to(elsewhere)
    rec = pipeline.read([folder])
    assert len(rec.files) == 1
    assert [(n.word, n.path) for n in rec.notes if not n.quiet] == [("linked_folder", str(folder / "rank1"))]
