"""A recording that is followed while it is written, and replayed: a real one, written again frame by frame."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tree import ROOT
from viewing_kit import never, nobody

from m3probe.errors import UnreadableInput
from m3probe.model.view import Absent, View, Word
from m3probe.pipeline import read
from m3probe.schema.frames import MAGIC, Cut, payloads
from m3probe.viewing._clock import Paced
from m3probe.viewing.follow import FIRST_S, FollowFeed
from m3probe.viewing.replay import Timeline

SAMPLE = ROOT / "samples/live-cpu-moe-tp2"
TRACE = ROOT / "samples/h200-m3-tp4rank-graph.pt.trace.json.gz"
REQUESTS = 32


@dataclass
class Followed:
    feed: FollowFeed
    now: float = 1e9

    def poll(self, after_s: float = 0.0) -> View:
        self.now += after_s
        return self.feed.poll(nobody, never)


def followed(folder: Path) -> Followed:
    made = Followed(FollowFeed(folder, clock=lambda: made.now))
    return made


def ends(path: Path) -> list[int]:
    """Where the frames of a file end."""
    cut = Cut()
    return [cut.at for _ in payloads(path.read_bytes(), cut, len(MAGIC))]


def write(folder: Path, share: float) -> None:
    """So much of the sample's frames, as its processes would have flushed them."""
    for path in SAMPLE.glob("*.m3p"):
        stops = ends(path)
        (folder / path.name).write_bytes(path.read_bytes()[: stops[max(0, round(share * len(stops)) - 1)]])


def test_a_recording_is_read_again_as_it_grows_and_is_read_at_its_end(tmp_path: Path) -> None:
    followed_ = followed(tmp_path)
    assert followed_.poll().word is Word.CONNECTING
    write(tmp_path, 0.5)
    half = followed_.poll(1.0)
    assert half.word is Word.LIVE and half.report is not None and half.recording is not None
    before = len(half.recording.tables["step_counts"])
    write(tmp_path, 1.0)
    for path in tmp_path.glob("*.m3p"):
        assert path.read_bytes() == (SAMPLE / path.name).read_bytes()
    whole = followed_.poll(600.0)  # whatever reading cost, it may be read again by now
    assert whole.word is Word.READ and whole.recording is not None
    assert len(whole.recording.tables["requests"]) == REQUESTS
    assert len(whole.recording.tables["step_counts"]) > before
    assert whole.gauges["running"].value == 0
    assert whole.sources[0].kind == "recording"


def test_reading_waits_until_its_cost_is_a_small_share(tmp_path: Path) -> None:
    write(tmp_path, 0.5)
    followed_ = followed(tmp_path)
    first = followed_.poll()
    write(tmp_path, 1.0)
    soon = followed_.poll(1.0)
    assert soon.recording is first.recording  # less than two seconds after the first
    assert followed_.poll(600.0).recording is not first.recording


def test_a_recording_that_stops_growing_says_since_when(tmp_path: Path) -> None:
    followed_ = followed(tmp_path)
    followed_.poll()
    write(tmp_path, 0.5)
    followed_.poll(1.0)
    stale = followed_.poll(30.0)
    assert stale.word is Word.STALE and "30 s" in stale.detail
    assert stale.report is not None


def test_an_old_recording_without_an_end_is_read_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, 0.5)
    for path in tmp_path.glob("*.m3p"):
        os.utime(path, (1e9, 1e9))
    view = followed(tmp_path).poll()
    assert view.word is Word.READ and "no end record" in view.detail


def test_figures_of_a_finished_recording_are_as_old_as_it_says_itself_not_as_its_files(tmp_path: Path) -> None:
    """A copy, or a checkout, of today holds what was recorded then."""
    shutil.copytree(SAMPLE, tmp_path / "rec")
    rec = read([SAMPLE])
    base = {number: file.base_time_ns or 0 for number, file in enumerate(rec.files)}
    samples = rec.tables["samples"]
    last_s = max(
        (base[file] + at) / 1e9 for file, at in zip(samples["file"].tolist(), samples["mono_ns"].tolist(), strict=True)
    )
    followed_ = followed(tmp_path / "rec")
    followed_.now = last_s + 7_200.0
    view = followed_.poll()
    assert view.word is Word.READ
    assert view.gauges["running"].age_s == pytest.approx(7_200.0, abs=5.0)
    followed_.feed.scrub(-3.0)
    assert followed_.poll().gauges["running"].age_s is None


def test_two_samples_of_one_burst_make_no_rate() -> None:
    """That server's guest sampled twice within 49 ms, and no more."""
    view = followed(ROOT / "samples/live-h200-m3-graph").poll()
    assert view.gauges["requests_per_s"].value is None
    assert view.gauges["requests_per_s"].absent is Absent.TOO_FEW
    assert view.gauges["running"].value == 0


def test_what_the_first_reading_cost_does_not_hold_the_second_back(tmp_path: Path) -> None:
    """Its imports alone take a second on a busy host, which would be paid for with most of a minute."""
    write(tmp_path, 0.5)
    followed_ = followed(tmp_path)
    cost = iter(range(0, 1000, 10))
    followed_.feed._paced = Paced(0.02, 2.0, lambda: float(next(cost)))
    first = followed_.poll()
    write(tmp_path, 0.8)
    second = followed_.poll(FIRST_S)
    assert second.recording is not first.recording
    write(tmp_path, 1.0)
    assert followed_.poll(FIRST_S).recording is second.recording


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput):
        FollowFeed(tmp_path / "nowhere")


def test_scrubbing_shows_what_was_written_until_then_and_the_end_again(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "rec")
    followed_ = followed(tmp_path / "rec")
    whole = followed_.poll()
    assert whole.replay is None and whole.recording is not None
    assert whole.length_s == pytest.approx(Timeline(whole.recording).length_s)
    followed_.feed.scrub(-6.0)
    back = followed_.poll()
    assert back.word is Word.REPLAY and back.replay is not None and back.recording is not None
    at, length = back.replay
    assert length - at == pytest.approx(6.0)
    # counted without the replay: finished requests have their own times
    times = whole.recording.tables["requests"]["mono_ns"]
    wall = (
        times
        + np.array([f.base_time_ns or 0 for f in whole.recording.files])[whole.recording.tables["requests"]["file"]]
    )
    line = Timeline(whole.recording)
    until = line.begin_ns + round(at * 1e9)
    # guests flush about once a second, and what one flush holds stays together
    shown = len(back.recording.tables["requests"])
    assert (wall <= until - 2_000_000_000).sum() <= shown <= (wall <= until).sum() and 0 < shown < REQUESTS
    assert 0 < len(back.recording.tables["step_counts"]) < len(whole.recording.tables["step_counts"])
    assert {Path(f.path).parent for f in back.recording.files} == {tmp_path / "rec"}
    followed_.feed.scrub(100.0)
    assert followed_.poll().recording is whole.recording


def test_scrubbing_stops_at_the_beginning(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "rec")
    followed_ = followed(tmp_path / "rec")
    followed_.poll()
    followed_.feed.scrub(-1e6)
    view = followed_.poll()
    assert view.replay is not None and view.replay[0] == 0.0
    assert view.recording is not None and len(view.recording.tables["requests"]) == 0


def test_a_trace_is_cut_between_steps_and_its_links_stay_right() -> None:
    rec = read([TRACE])
    line = Timeline(rec)
    fifth = int(np.sort(rec.steps["end_ns"])[4])
    base = rec.files[0].base_time_ns or 0
    cut = line.until((fifth + base - line.begin_ns) / 1e9 + 1e-9)
    assert len(cut.steps) == 5
    of_step = rec.kernels["step"]
    first_five = np.isin(of_step, np.argsort(rec.steps["end_ns"])[:5])
    assert int((cut.kernels["step"] >= 0).sum()) == int(first_five.sum()) > 0
    names = rec.strings.of(rec.launches["name"][rec.kernels["launch"][first_five]].tolist())
    kept = cut.kernels["step"] >= 0
    assert cut.strings.of(cut.launches["name"][cut.kernels["launch"][kept]].tolist()) == names
    assert cut.launches["correlation"][cut.kernels["launch"][kept]].tolist() == (
        rec.kernels["correlation"][first_five].tolist()
    )


def test_a_trace_as_long_as_its_kernels_tell() -> None:
    """The same first and last time, read without m3probe."""
    events = json.loads(gzip.decompress(TRACE.read_bytes()))["traceEvents"]
    timed = [
        e
        for e in events
        if e.get("ph") == "X" and e.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"}
    ]
    span_us = max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed)
    assert Timeline(read([TRACE])).length_s >= span_us / 1e6 > 0
    assert Timeline(read([TRACE])).length_s < 1.0


def test_the_records_of_the_sample_are_what_the_tests_say() -> None:
    """The number of finished requests, from the frames alone."""
    from m3probe.schema import records
    from m3probe.schema.frames import records as records_of

    found = 0
    for path in SAMPLE.glob("*.m3p"):
        for record in records_of(path.read_bytes(), Cut(), len(MAGIC)):
            found += isinstance(record, records.Request)
    assert found == REQUESTS
    assert msgspec.json.decode((SAMPLE / "manifest.json").read_bytes())
