"""A server that is recorded while it is looked at: guests in real processes, the recorder in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from attach_kit import FakeVllm, guest
from attach_kit import serving as serving_vllm
from viewing_kit import never, nobody

from m3probe.attach.asked import Asked
from m3probe.attach.proc import PROC
from m3probe.model.view import View, Word
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as records_of
from m3probe.viewing import feed_of
from m3probe.viewing.attached import PidFeed
from m3probe.viewing.live import UrlFeed
from m3probe.viewing.recorder import Order, asked_of, order_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sockets of this test's own."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("M3PROBE_RUN", str(folder))
    return folder


@contextmanager
def closing(feed: PidFeed) -> Iterator[PidFeed]:
    try:
        yield feed
    finally:
        feed.close()


def until(feed: PidFeed, right: Callable[[View], bool], within_s: float = 30.0) -> View:
    deadline = time.monotonic() + within_s
    while True:
        view = feed.poll(nobody, never)
        if right(view):
            return view
        assert time.monotonic() < deadline, (view.word, view.detail, view.sources)
        time.sleep(0.1)


def ended(folder: Path, pid: int, within_s: float = 15.0) -> bool:
    """Whether a guest's file has its end record by then."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for file in folder.glob(f"*-{pid}-*.m3p"):
            if any(isinstance(r, records.End) for r in records_of(file.read_bytes(), Cut(), len(MAGIC))):
                return True
        time.sleep(0.1)
    return False


def test_a_guest_is_recorded_while_it_is_looked_at_and_given_back_at_the_end(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with guest(run, "worker") as process, closing(PidFeed(Asked(str(process.pid), out=out))) as feed:
        assert feed.poll(nobody, never).word is Word.CONNECTING
        live = until(feed, lambda view: view.report is not None)
        assert live.recording is not None
        kinds = {source.kind: source for source in live.sources}
        assert kinds["process"].word is Word.LIVE and kinds["recording"].kind == "recording"
        began = time.monotonic()
        feed.close()
        assert time.monotonic() - began < 0.3
        assert ended(out, process.pid)
    assert process.returncode == -signal.SIGKILL  # the guest's process itself was left alone until the test ended it


def test_a_window_that_cannot_be_is_refused_with_its_reason_and_recording_goes_on(run: Path) -> None:
    """A guest of an engine alone: a profiler needs one in a worker."""
    with guest(run, "engine") as process, closing(PidFeed(Asked(str(process.pid)))) as feed:
        until(feed, lambda view: view.report is not None)
        first = feed.folder
        assert "7 steps" in feed.window(7)
        view = until(feed, lambda view: "no window" in view.detail)
        assert "--profile-steps needs guests" in view.detail
        until(feed, lambda view: view.report is not None and feed.folder != first)


def test_a_viewer_that_is_killed_leaves_no_guest_armed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom m3probe.viewing.attached import PidFeed\n"
        "from m3probe.attach.asked import Asked\nfeed = PidFeed(Asked(sys.argv[1], out=Path(sys.argv[2])))\n"
        "while True:\n    feed.poll(lambda *_: None, lambda: False)\n    time.sleep(0.1)\n"
    )
    with guest(run, "worker") as process:
        viewer = subprocess.Popen([sys.executable, "-P", "-c", script, str(process.pid), str(out)])
        deadline = time.monotonic() + 30
        while not list(out.glob(f"*-{process.pid}-*.m3p")) and time.monotonic() < deadline:
            time.sleep(0.1)
        viewer.kill()
        viewer.wait()
        assert ended(out, process.pid)


def test_a_temporary_recording_goes_with_the_viewer(run: Path) -> None:
    with guest(run, "worker") as process, closing(PidFeed(Asked(str(process.pid)))) as feed:
        until(feed, lambda view: view.report is not None)
        assert feed.folder.is_dir()
        feed.close()
        deadline = time.monotonic() + 15
        while feed.folder.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not feed.folder.exists()


def test_a_process_that_is_no_server_says_why_nothing_is_seen(run: Path) -> None:
    del run
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        with closing(PidFeed(Asked(str(process.pid)))) as feed:
            view = until(feed, lambda view: view.word is Word.DOWN)
            assert "nothing of vLLM in it" in view.detail
            assert view.gauges == {} and view.report is None
            assert "No window" in feed.window(10)
        process.kill()


def test_without_guests_the_address_is_still_looked_at(run: Path, tmp_path: Path) -> None:
    """A server of which only the address is reached: --out asks for a recording, its metrics are what there is."""
    del run
    fake = FakeVllm()
    with serving_vllm(fake) as url, closing(PidFeed(Asked(url, guests=True, out=tmp_path / "out"))) as feed:
        view = until(feed, lambda view: view.word is Word.PARTIAL)
        assert "no process is recorded" in view.detail and "/metrics" in view.detail
        assert view.gauges["running"].value == 2.0


def test_an_address_alone_is_asked_for_its_metrics_and_nothing_else() -> None:
    fake = FakeVllm()
    with serving_vllm(fake) as url:
        feed = feed_of(url)
        assert isinstance(feed, UrlFeed)
        feed.poll(nobody, never)
        feed.close()
    assert {(method, path) for method, path, _ in fake.asked} == {("GET", "/metrics")}


def test_what_is_asked_for_reaches_the_recorder_whole() -> None:
    import msgspec

    asked = Asked("auto", steps=5, out=Path("/x"), headers={"A": "b"}, twin=3, proc=PROC)
    order = msgspec.json.decode(order_of(asked, remove=True), type=Order)
    assert order.remove and asked_of(order.asked) == asked
    assert os.fspath(asked_of(order.asked).proc) == "/proc"


def test_a_server_that_came_back_is_not_called_down_beside_its_live_figures(run: Path, tmp_path: Path) -> None:
    """Its processes are other ones: what guests recorded has ended, its address answers."""
    del run
    fake = FakeVllm()
    with ExitStack() as held:
        with serving_vllm(fake) as url:
            feed = held.enter_context(closing(PidFeed(Asked(url, guests=True, out=tmp_path / "out"))))
            until(feed, lambda view: view.word is Word.PARTIAL)
            feed._recorder.error, feed._recorder.ended = "", "the server has ended"
            view = until(feed, lambda view: "ended" in view.detail)
            assert view.word is Word.PARTIAL and "only /metrics is seen" in view.detail
        view = until(feed, lambda view: view.word is Word.DOWN)
        assert view.detail == "the recording has ended: the server has ended"


def test_a_page_that_comes_late_is_told_beside_guests_that_record(run: Path) -> None:
    late = View("m", Word.SLOW, 0.0, "the last page took 8,000 ms")
    with guest(run, "worker") as process, closing(PidFeed(Asked(str(process.pid)))) as feed:
        live = until(feed, lambda view: view.report is not None and view.word is Word.LIVE)
        assert feed._together(late, live).word is Word.SLOW
        assert feed._together(late, live).detail == late.detail
        assert all(source.last_ok_s is not None for source in live.sources if source.kind == "process")


def test_a_recording_that_has_what_was_asked_for_has_ended_and_its_processes_are_not_down(run: Path) -> None:
    with guest(run, "worker") as process, closing(PidFeed(Asked(str(process.pid), seconds=1.0))) as feed:
        view = until(feed, lambda view: "ended" in view.detail)
        assert view.detail == "the recording has ended: its time is over"
        states = [(source.word, source.detail) for source in view.sources if source.kind == "process"]
        assert states == [(Word.READ, "recorded until the recording ended")]
        assert view.report is not None
