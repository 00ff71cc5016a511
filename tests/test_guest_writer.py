"""The writer: what it loses, when it stops, and that it never holds the process up."""

import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from guest_kit import files, only, read, run, start

from m3probe.collectors import _writer
from m3probe.collectors._writer import Writer
from m3probe.schema import records


def nothing() -> None:
    """A tick of no collectors."""


def note(number: int) -> records.Note:
    return records.Note(word="n", text=str(number))


def end(reason: str = "test") -> records.End:
    return records.End(mono_ns=0, reason=reason)


def texts(path: Path) -> list[str]:
    return [n.text for n in only(records.Note, read(path)[0])]  # type: ignore[union-attr]


def test_records_come_back_in_order_and_the_end_is_last(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.m3p", nothing)
    writer.start()
    for number in range(1000):
        writer.put(note(number))
    writer.close(end)
    found, cut = read(tmp_path / "a.m3p")
    assert texts(tmp_path / "a.m3p") == [str(n) for n in range(1000)]
    assert isinstance(found[-1], records.End)
    assert (cut.why, cut.at) == ("", (tmp_path / "a.m3p").stat().st_size == cut.at and cut.at)
    assert writer.bytes == (tmp_path / "a.m3p").stat().st_size


def test_what_collectors_counted_in_the_last_second_is_written_before_the_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.m3p", lambda: writer.put(note(7)))
    writer.close(end)
    assert texts(tmp_path / "a.m3p") == ["7"]


def test_every_record_that_found_no_room_is_counted_by_kind(tmp_path: Path) -> None:
    """Eight threads, so that a count that is read and written in two steps would lose some."""
    writer = Writer(tmp_path / "a.m3p", nothing, most=100)
    threads = [
        threading.Thread(target=lambda: [writer.put(note(n)) for n in range(5000)]),
        *(threading.Thread(target=lambda: [writer.put(_writer.clock()) for _ in range(5000)]) for _ in range(7)),
    ]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    queued = len(writer._queue)
    assert 100 <= queued < 100 + len(threads)  # a thread may append what another's check had room for
    assert set(writer.dropped) <= {"Note", "Clock"}
    assert queued + sum(writer.dropped.values()) == 8 * 5000
    writer.close(end)


def test_a_value_that_cannot_be_encoded_loses_its_record_alone(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.m3p", nothing)
    writer.put(records.Config(sections={"bad": object()}))
    writer.put(note(1))
    writer.close(end)
    assert texts(tmp_path / "a.m3p") == ["1"]
    assert writer.dropped == {"Config (not encodable)": 1}


def test_a_killed_process_loses_at_most_one_second(tmp_path: Path) -> None:
    """It writes the time of each note; the youngest that is read is compared with the moment of the kill."""
    script = """
worker(); print("up", flush=True)
from m3probe.schema import records
while True:
    probe.put(records.Note(word="t", text="", mono_ns=time.monotonic_ns())); time.sleep(0.01)
"""
    process = start(tmp_path, script, M3PROBE="1", M3PROBE_DIR=str(tmp_path / "rec"))
    try:
        time.sleep(2.6)
    finally:
        killed = time.monotonic_ns()
        process.send_signal(signal.SIGKILL)
        process.wait()
    found, cut = read(files(tmp_path / "rec")[0])
    times = [n.mono_ns for n in only(records.Note, found) if n.word == "t"]  # type: ignore[union-attr]
    lost_s = (killed - times[-1]) / 1e9
    assert not only(records.End, found)
    assert cut.why == ""
    assert len(times) > 50
    assert 0 <= lost_s <= 1.0 + 0.25  # one flush, and a machine that is busy


def test_a_file_that_may_not_grow_ends_the_recording_and_not_the_process(tmp_path: Path) -> None:
    """RLIMIT_FSIZE is a full disk in miniature: the write fails in the middle."""
    script = """
import resource, signal
worker(); print("up", flush=True)
from m3probe.schema import records
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
for second in range(40):
    for n in range(500): probe.put(records.Note(word="t", text=str(n)))
    time.sleep(0.1)
    if not probe.recording: break
status = probe.status()
print(probe.recording, status.stopped, sum(status.dropped.values()) > 0, status.left_behind, len(probe.patches.standing))
print(worker().load_model())
"""
    process = start(tmp_path, script, M3PROBE="1", M3PROBE_DIR=str(tmp_path / "rec"))
    said, _ = process.communicate(timeout=30)
    (path,) = files(tmp_path / "rec")
    assert said.splitlines() == [f"False cannot write {path.name}: File too large True () 2", "loaded"]
    assert process.returncode == 0
    found, cut = read(path)
    assert path.stat().st_size == 20000
    assert len(found) > 100
    assert cut.why.endswith("is cut")


def test_a_disk_that_is_full_from_the_start_makes_no_file(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, limit[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write a\.m3p: File too large"):
            Writer(tmp_path / "a.m3p", nothing)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_deleted_meanwhile_ends_the_recording(tmp_path: Path) -> None:
    told: list[str] = []
    writer = Writer(tmp_path / "a.m3p", nothing, stopped=told.append)
    writer.start()
    (tmp_path / "a.m3p").unlink()
    writer.put(note(1))
    deadline = time.monotonic() + 5
    while not told and time.monotonic() < deadline:
        time.sleep(0.05)
    assert told == ["a.m3p was deleted"]
    writer.put(note(2))
    assert writer.dropped == {"(not written)": 2, "Note": 1}  # the clock, and the note that was queued
    writer.close(end)


def test_a_clock_that_is_set_is_seen_beside_the_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = iter([1_000_000_000_000, 1_000_000_000_000 - 3600 * 10**9, 5])
    monkeypatch.setattr(_writer.time, "time_ns", lambda: next(wall))
    writer = Writer(tmp_path / "a.m3p", nothing)
    for number in range(2):
        writer.put(note(number))
        writer.flush()
    writer.close(end)
    first, second = only(records.Clock, read(tmp_path / "a.m3p")[0])
    assert second.wall_ns - first.wall_ns == -3600 * 10**9
    assert 0 <= second.mono_ns - first.mono_ns < 10**9


def test_a_disk_that_does_not_answer_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writer, "PATIENCE_S", 0.2)
    writer = Writer(tmp_path / "a.m3p", nothing)
    writer._flushing.acquire()  # as a flush that waits in the kernel holds it
    started = time.monotonic()
    writer.put(note(1))
    writer.close(end)
    assert time.monotonic() - started < 1.0
    assert writer.stopped == "the disk does not answer"


def test_an_idle_writer_wakes_once_a_second(tmp_path: Path) -> None:
    ticks: list[float] = []
    writer = Writer(tmp_path / "a.m3p", lambda: ticks.append(time.monotonic()))
    writer.start()
    before = time.thread_time(), time.process_time()
    time.sleep(2.5)
    used = time.process_time() - before[1]
    assert 1 <= len(ticks) <= 3
    assert used < 0.1
    writer.close(end)


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise RuntimeError('planted')"])
def test_however_the_interpreter_ends_the_file_has_its_end(tmp_path: Path, ending: str) -> None:
    done = run(tmp_path, "worker()\n" + ending, M3PROBE="1", M3PROBE_DIR="rec")
    assert done.returncode == (0 if not ending else 3 if "exit" in ending else 1)
    last = read(files(tmp_path / "rec")[0])[0][-1]
    assert isinstance(last, records.End)
    assert last.reason == "exit"
    assert list((tmp_path / "run").iterdir()) == []
