"""A server of /metrics that does what it is told to, a clock that stands still, and feeds that ask either."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from metrics_kit import page

from m3probe.attach.fetch import Reply
from m3probe.model.view import Gauge, View
from m3probe.viewing.live import UrlFeed

STARTED = 1_764_000_000.0
Values = Mapping[str, float | str]


@dataclass
class Hands:
    """A feed whose server answers from ``bodies`` in turn (the last one again and again) and whose clock is moved by hand."""

    bodies: list[bytes | Reply]
    now: float = STARTED
    took: float = 0.0
    feed: UrlFeed = field(init=False)

    def __post_init__(self) -> None:
        self.feed = UrlFeed("http://h:1", clock=lambda: self.now, get=self._get)

    def _get(self, _within_s: float) -> Reply:
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        self.now += self.took
        return body if isinstance(body, Reply) else Reply(200, body)

    def poll(self, after_s: float = 0.0) -> View:
        self.now += after_s
        return self.feed.poll(nobody, never)


def pages(*all_values: Values, after_s: float = 1.0, window_s: float | None = 60.0) -> View:
    """The view after these pages, so many seconds apart."""
    hands = Hands([page(values).encode() for values in all_values])
    hands.feed.look_back(window_s)
    view = hands.poll()
    for _ in all_values[1:]:
        view = hands.poll(after_s)
    return view


def gauge(view: View, name: str) -> Gauge:
    return view.gauges[name]


def nobody(_what: str, _done: int, _of: int) -> None:
    """Told, and forgets."""


def never() -> bool:
    """Not cancelled."""
    return False


class Served:
    """What a real server answers next: a body, or what it does instead."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.status = 200
        self.wait_s = 0.0
        self.asked = 0
        self.at_once = self.most_at_once = 0
        self.over = threading.Event()
        self.lock = threading.Lock()


@contextmanager
def serving(served: Served, port: int = 0) -> Iterator[int]:
    """Its port while it serves on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with served.lock:
                served.asked += 1
                served.at_once += 1
                served.most_at_once = max(served.most_at_once, served.at_once)
            try:
                served.over.wait(served.wait_s)
                self.send_response(served.status)
                self.send_header("Content-Length", str(len(served.body)))
                self.end_headers()
                self.wfile.write(served.body)
            except OSError:
                pass
            finally:
                with served.lock:
                    served.at_once -= 1

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

    served.over.clear()
    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        served.over.set()
        server.shutdown()
        server.server_close()


def until(feed: UrlFeed, right: Callable[[View], bool], within_s: float = 20.0) -> View:
    """Poll as an app does until a view is right."""
    deadline = time.monotonic() + within_s
    while True:
        view = feed.poll(nobody, never)
        if right(view):
            return view
        assert time.monotonic() < deadline, (view.word, view.detail)
        time.sleep(min(view.next_poll_s or 0.0, 0.2))
