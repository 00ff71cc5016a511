"""The process that records for a viewer: ``attach`` on one side, a line of JSON for each thing told on the other.

A process of its own: recording takes signals, which only a main thread may, and must end in order when the viewer is
gone, however it went: the viewer holds the other end of stdin, and its closing is the word to stop. What was asked for
comes on stdin too, because headers may hold a key and command lines are for all to read.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from m3probe.attach.asked import Asked
from m3probe.attach.attaching import address_of, attach
from m3probe.attach.servers import find
from m3probe.errors import M3ProbeError
from m3probe.model.attach_report import Now


class Order(msgspec.Struct, frozen=True):
    """What the viewer asks for.

    Args:
        asked: fields of ``Asked`` that are not their defaults; paths as text.
        remove: the folder is temporary: it goes when the viewer does.
    """

    asked: dict[str, Any]
    remove: bool = False


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing told.

    Args:
        say: a line of narration.
        now: the recording as it stands.
        address: of the server's metrics.
        error: why nothing is recorded.
        ended: how the recording ended, with its losses behind it.
    """

    say: str = ""
    now: Now | None = None
    address: str = ""
    error: str = ""
    ended: str = ""


PATHS = ("out", "cacert", "proc")


def order_of(asked: Asked, *, remove: bool) -> bytes:
    """What goes to the recorder: one line."""
    fields = {name: getattr(asked, name) for name in Asked.__slots__}
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    plain["headers"] = dict(asked.headers)
    return msgspec.json.encode(Order(plain, remove)) + b"\n"


def asked_of(fields: Mapping[str, Any]) -> Asked:
    """The other way round."""
    plain: dict[str, Any] = {n: Path(v) if n in PATHS and v is not None else v for n, v in fields.items()}
    return Asked(**plain)


class _Teller:
    """``Told`` as lines on stdout."""

    def say(self, text: str) -> None:
        _tell(Line(say=text))

    def show(self, now: Now) -> None:
        _tell(Line(now=now))


def main() -> None:
    """Record until stdin is closed, then give everything back."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    asked = asked_of(order.asked)
    over = threading.Event()
    recording = threading.Event()
    threading.Thread(target=_watch, args=(over, recording), daemon=True).start()
    try:
        _tell_address(asked)
        recording.set()
        if not over.is_set():
            report = attach(asked, _Teller())
            _tell(Line(ended="; ".join((report.ended or report.outcome, *report.losses))))
    except M3ProbeError as error:
        _tell(Line(error=error.sentence()))
    except KeyboardInterrupt:
        pass
    finally:
        recording.clear()
        over.wait()  # the viewer still reads the folder
        if order.remove and asked.out is not None:
            shutil.rmtree(asked.out, ignore_errors=True)


def _watch(over: threading.Event, recording: threading.Event) -> None:
    while sys.stdin.buffer.readline():
        pass
    over.set()
    if recording.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _tell_address(asked: Asked) -> None:
    """Where its metrics are, also where no process of it can be recorded."""
    if asked.by_url:
        _tell(Line(address=asked.target))
        return
    with suppress(M3ProbeError):
        address = address_of(find(asked.target, asked.proc), asked)
        if address is not None:
            _tell(Line(address=address.url))


def _tell(line: Line) -> None:
    with suppress(OSError):
        os.write(1, msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    main()
