"""A live feed against a real HTTP server on this host that is killed, restarted, and answers nonsense, late or never."""

from __future__ import annotations

import time

import pytest
from live_server import free_port
from metrics_kit import page
from viewing_kit import Served, gauge, never, nobody, serving, until

from m3probe._looking import Plain, _text
from m3probe.errors import UnreadableInput, UsageError
from m3probe.model.view import Absent, Word
from m3probe.viewing.live import UrlFeed


def body(tokens: float, started: float = 1000.0, running: float = 3) -> bytes:
    return page(
        {
            "num_requests_running": running,
            "num_requests_waiting": 2,
            "generation_tokens_total": tokens,
            "process_start_time_seconds": started,
        }
    ).encode()


def test_counters_that_move_become_a_rate_and_a_report() -> None:
    served = Served()
    served.body = body(1000)
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        first = feed.poll(nobody, never)
        assert (first.word, first.report) == (Word.COLLECTING, None)
        assert gauge(first, "running").value == 3
        assert gauge(first, "output_tokens_per_s").absent is Absent.TOO_FEW
        served.body = body(1600)
        live = until(feed, lambda view: view.word is Word.LIVE)
        feed.close()
    rate = gauge(live, "output_tokens_per_s").value
    assert rate is not None and 200 < rate < 700  # 600 tokens in about the second between two pages
    assert live.report is not None and live.recording is not None
    assert len(live.recording.tables["scrapes"]) == 2


def test_a_killed_server_is_down_with_its_reason_and_keeps_aged_figures() -> None:
    served = Served()
    served.body = body(1000)
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        until(feed, lambda view: view.word is Word.LIVE)
    down = until(feed, lambda view: view.word is Word.DOWN)
    assert "connection refused" in down.detail.lower()
    assert f"http://127.0.0.1:{port}/metrics" in down.detail
    assert "next try in" in down.detail
    assert gauge(down, "running").value == 3
    first_age = gauge(down, "running").age_s
    time.sleep(0.3)
    later = gauge(feed.poll(nobody, never), "running").age_s
    assert first_age is not None and later is not None and later > first_age > 0


def test_words_of_an_address_that_is_down_promise_no_further_try() -> None:
    with serving(Served()) as port:
        pass
    feed = UrlFeed(f"http://127.0.0.1:{port}")
    with pytest.raises(UnreadableInput, match="connection refused") as refused:
        _text(feed, Plain(80, color=False, ascii_only=True))
    feed.close()
    assert "next try" not in str(refused.value)


def test_a_restart_with_lower_counters_is_told_and_no_rate_is_negative() -> None:
    served = Served()
    served.body = body(100_000)
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        until(feed, lambda view: view.word is Word.LIVE)
    until(feed, lambda view: view.word is Word.DOWN)
    served.body = body(50, started=2000.0)
    with serving(served, port):
        feed.retry()
        reset = until(feed, lambda view: view.word is Word.RESET)
        assert gauge(reset, "output_tokens_per_s").absent is Absent.RESET
        assert gauge(reset, "output_tokens_per_s").value is None
        assert len(gauge(reset, "output_tokens_per_s").resets) == 1
        served.body = body(90, started=2000.0)
        after = until(feed, lambda view: gauge(view, "output_tokens_per_s").value is not None)
        feed.close()
    shown = gauge(after, "output_tokens_per_s")
    assert shown.value is not None and 0 <= shown.value < 60  # 40 in a second, whose length is the host's
    assert all(value is None or value >= 0 for _, value in shown.recent)
    assert None in [value for _, value in shown.recent]  # the time of the restart is a gap


def test_html_with_status_200_is_bad_data_with_its_first_bytes() -> None:
    served = Served()
    served.body = b"<!doctype html><title>Gateway sign-in</title>"
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        bad = feed.poll(nobody, never)
        feed.close()
    assert bad.word is Word.BAD_DATA
    assert "<!doctype html><title>Gateway sign-in" in bad.detail
    assert bad.gauges == {}  # nothing was measured: not even zeros
    assert bad.report is None


@pytest.mark.parametrize(
    ("answer", "status", "word", "said"),
    [
        (b"", 200, Word.BAD_DATA, "empty"),
        (b"nothing here\n", 404, Word.BAD_DATA, "no /metrics"),
        (b"", 401, Word.DOWN, "--header"),
        (b"", 503, Word.DOWN, "HTTP 503"),
        (b"process_open_fds 3\n", 200, Word.PARTIAL, "none of vLLM or SGLang"),
    ],
)
def test_an_answer_that_is_no_page_says_what_it_is(answer: bytes, status: int, word: Word, said: str) -> None:
    served = Served()
    served.body, served.status = answer, status
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        view = feed.poll(nobody, never)
        feed.close()
    assert view.word is word
    assert said in view.detail


def test_nobody_at_the_address_is_down_at_the_first_look() -> None:
    feed = UrlFeed(f"http://127.0.0.1:{free_port()}")
    view = feed.poll(nobody, never)
    feed.close()
    assert view.word is Word.DOWN and "refused" in view.detail.lower()
    assert view.gauges == {}
    assert view.sources[0].last_ok_s is None


def test_a_scrape_that_hangs_holds_no_poll_and_stays_the_only_one() -> None:
    served = Served()
    served.body = body(1000)
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        until(feed, lambda view: view.word is Word.LIVE)
        served.wait_s = 8.0
        took = [0.0]
        view = feed.poll(nobody, never)
        while view.word is not Word.STALE and len(took) < 50:
            time.sleep(min(view.next_poll_s or 0.0, 0.2))
            began = time.monotonic()
            view = feed.poll(nobody, never)
            took.append(time.monotonic() - began)
        closing = time.monotonic()
        feed.close()
        assert time.monotonic() - closing < 0.1
    assert max(took) < 1.5
    assert view.word is Word.STALE and "no answer yet" in view.detail
    assert gauge(view, "running").value == 3
    assert served.most_at_once == 1


def test_a_slow_page_is_taken_and_called_slow() -> None:
    served = Served()
    served.body = body(1000)
    served.wait_s = 1.6  # more than one poll waits
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        assert feed.poll(nobody, never).word is Word.CONNECTING
        slow = until(feed, lambda view: view.word is Word.SLOW)
        again = until(feed, lambda view: "asked 1 s ago" in view.detail)
        feed.close()
    assert again.word is Word.SLOW  # it takes no longer than the last one did
    took = slow.sources[0].took_ms
    assert took is not None and 1600 <= took < 3000
    assert gauge(slow, "running").value == 3


def test_a_poll_that_is_cancelled_returns() -> None:
    served = Served()
    served.wait_s = 8.0
    with serving(served) as port:
        feed = UrlFeed(f"http://127.0.0.1:{port}")
        began = time.monotonic()
        feed.poll(nobody, lambda: time.monotonic() - began > 0.1)
        assert time.monotonic() - began < 0.4
        feed.close()


def test_an_address_that_can_be_none_is_refused_at_once() -> None:
    with pytest.raises(UsageError):
        UrlFeed("http://user:secret@host:8000")
