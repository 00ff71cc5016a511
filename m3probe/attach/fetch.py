"""HTTP with a hard end: a fetch takes at most its seconds and its bytes, whatever the server does."""

from __future__ import annotations

import http.client
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from m3probe.errors import UnreadableInput, UsageError

WAIT_S = 5.0
MOST_BYTES = 16 * 1024 * 1024
"""A scrape of a vLLM with 8 engines is below 1 MB; a dev-mode server_info below 2 MB."""
OK, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, WRONG_METHOD = 200, 401, 403, 404, 405


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; ``error`` says why nothing (usable) did, and then ``status`` may be 0."""

    status: int = 0
    body: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """One server's address. No proxy is asked and no redirect followed: headers may hold a key.

    Args:
        base: path in front of every path asked for, without a slash at its end.
    """

    host: str
    port: int
    tls: bool = False
    base: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    cacert: Path | None = None

    @property
    def url(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.base}"

    def get(self, path: str, within_s: float = WAIT_S) -> Reply:
        """GET, on a connection of its own, so that a load balancer shows itself."""
        return self._within("GET", path, None, within_s)

    def post(self, path: str, body: bytes, within_s: float) -> Reply:
        """POST of JSON."""
        return self._within("POST", path, body, within_s)

    def _within(self, method: str, path: str, body: bytes | None, within_s: float) -> Reply:
        """In a thread: a server that sends one byte a second would pass every timeout of a socket."""
        answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        connection = self._connection(within_s)

        def fetch() -> None:
            answers.put(_fetched(connection, method, self.base + path, body, dict(self.headers)))

        threading.Thread(target=fetch, name="m3probe-fetch", daemon=True).start()
        try:
            return answers.get(timeout=within_s)
        except queue.Empty:
            return Reply(error=f"no whole answer within {within_s:.0f} s")
        finally:
            with suppress(OSError):
                connection.close()

    def _connection(self, within_s: float) -> http.client.HTTPConnection:
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=within_s)
        import ssl

        try:
            context = ssl.create_default_context(cafile=str(self.cacert) if self.cacert else None)
        except OSError as error:  # ssl.SSLError is one
            raise UnreadableInput(f"no certificates in it ({error})", where=str(self.cacert)) from error
        return http.client.HTTPSConnection(self.host, self.port, timeout=within_s, context=context)


def client(url: str, headers: Mapping[str, str], cacert: Path | None = None) -> Client:
    """Take a URL apart.

    Raises:
        UsageError: it is none that a vLLM server can have.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"no URL ({error})", where=url[:200]) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None or parts.query:
        raise UsageError(
            "no URL of a server: http(s)://HOST:PORT, without user, password or query",
            where=url[:200],
            next_move="A key goes into --header 'Authorization: Bearer KEY'",
        )
    tls = parts.scheme == "https"
    return Client(parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"), headers, cacert)


def header(text: str) -> tuple[str, str]:
    """``Name: value``.

    Raises:
        ValueError: it is none.
    """
    name, colon, value = text.partition(":")
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    if not colon or not plain or not value.strip().isprintable():
        raise ValueError("no header: give 'Name: value'")
    return name, value.strip()


def _fetched(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> Reply:
    if body is not None:
        headers = {"Content-Type": "application/json"} | headers
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        taken = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
        # AttributeError: the connection was closed under the thread, because its time was over
        return Reply(error=f"{type(error).__name__}: {error}"[:300])
    if len(taken) > MOST_BYTES:
        return Reply(answer.status, error=f"more than {MOST_BYTES:,} bytes")
    return Reply(answer.status, taken)
