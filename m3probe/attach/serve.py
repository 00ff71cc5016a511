"""``attach --serve``: one small HTTP server on a thread of its own, which hands out a page that somebody else makes.

It holds no lock of the recording's and is never waited for: a client that reads slowly, or not at all, costs a thread for
a few seconds, and there are only so many of those.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from m3probe.errors import UsageError

LOCAL = "127.0.0.1"
PATH = "/metrics"
MOST_CLIENTS = 16
CLIENT_S = 10.0
Page = Callable[[], tuple[str, str]]
"""(content type, text); it must not block."""


def address(text: str) -> tuple[str, int]:
    """``:9400`` (this host alone), ``HOST:9400`` or ``[::1]:9400`` -> (host, port); port 0: any that is free.

    Raises:
        ValueError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65_536):
        raise ValueError(f"{text[:80]!r} is no :PORT and no HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text[:80]!r}: an IPv6 address stands in brackets, as in [::1]:9400")
    return host or LOCAL, int(port)


class Exporter:
    """Listens from the moment it is made, answers once it is started.

    Args:
        where: (host, port).
        page: makes what is handed out; called on the threads of clients.

    Raises:
        UsageError: the port is taken, or the address is none of this host's.
    """

    def __init__(self, where: tuple[str, int], page: Page) -> None:
        host, port = where
        try:
            self._server = _Server(where, page)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"cannot listen ({why})", where=f"--serve {host}:{port}", next_move="Name another port, or 0 for any"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="m3probe-serve", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}{PATH}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; a client in the middle of an answer is left alone."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a slow client must not hold up the end of a recording

    def __init__(self, where: tuple[str, int], page: Page) -> None:
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        self.page = page
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(where, _Handler)

    def server_bind(self) -> None:
        """Without http.server's question to DNS for this host's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each client, as far as there are any."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One client, whatever becomes of it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's fault, and stderr is the recording's."""


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_S
    server: _Server

    def do_GET(self) -> None:
        """The page, or the way to it."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """The same without its body."""
        self._answer(body=False)

    def version_string(self) -> str:
        """No version of Python in the answers."""
        return "m3probe"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Nothing: stderr is the recording's."""

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path == PATH:
            kind, text = self.server.page()
            self._send(HTTPStatus.OK, kind, text, body=body)
        elif path == "/":
            self._send(HTTPStatus.OK, "text/plain; charset=utf-8", f"m3probe attach: {PATH}\n", body=body)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"only {PATH} is here\n", body=body)

    def _send(self, status: HTTPStatus, kind: str, text: str, *, body: bool) -> None:
        data = text.encode("utf-8", "replace")
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)
