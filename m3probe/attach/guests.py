"""Asks the guest of one process: one frame there, one back, over its socket; same user on both ends or nothing."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec

from m3probe.schema.control import Answer, Ask, Hello, Refused, Status
from m3probe.schema.frames import Cut, frame, payloads
from m3probe.schema.sockets import owned, peer, receive, run_folder

WAIT_S = 10.0
"""A guest answers from a thread of its own, which waits for the interpreter lock of a busy process; Arm opens a file
and puts the hooks on before it answers."""
_ANSWER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class Unreached(Exception):
    """A guest did not answer. ``gone``: nobody listens (any more), so that its process may have ended."""

    def __init__(self, why: str, *, gone: bool = False) -> None:
        super().__init__(why)
        self.gone = gone


def ask(pid: int, path: Path, message: Ask, within_s: float = WAIT_S) -> Answer:
    """One exchange with the guest of ``pid``.

    Raises:
        Unreached: there is no socket, nobody answers, or who answers is another process or user.
    """
    try:
        if not owned(path.parent):
            raise Unreached(f"{path.parent} is not this user's alone")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(within_s)
            connection.connect(str(path))
            _check(connection, pid)
            connection.sendall(frame(message))
            received = receive(connection, within_s)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise Unreached("nobody listens on its socket", gone=True) from error
    except TimeoutError as error:
        raise Unreached(f"no answer within {within_s:.0f} s") from error
    except (OSError, ValueError) as error:
        raise Unreached(f"{path}: {error}") from error
    return _decoded(received)


def status(pid: int, path: Path, within_s: float = WAIT_S) -> Status:
    """How the guest of ``pid`` stands.

    Raises:
        Unreached: as ``ask``; also where it refuses to say.
    """
    said = ask(pid, path, Hello(), within_s)
    if isinstance(said, Status):
        return said
    raise Unreached(said.text)


def remove_stale(path: Path, pid: int, proc: Path) -> bool:
    """Remove the socket of a process that has ended; whether there was one.

    One that answers is left alone: in another pid namespace that shares the folder its process may live unseen.
    """
    if (proc / str(pid)).exists() or not path.is_socket() or not owned(path.parent):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(1.0)
            connection.connect(str(path))
        except ConnectionRefusedError:
            with suppress(OSError):
                path.unlink()
                return True
        except OSError:
            pass
    return False


def sweep(proc: Path) -> int:
    """Remove what processes that were killed have left in this user's folder; how many sockets that were."""
    folder = run_folder()
    with suppress(OSError):
        named = [path for path in folder.iterdir() if path.suffix == ".sock" and path.stem.isdecimal()]
        return sum(remove_stale(path, int(path.stem), proc) for path in named)
    return 0


def _check(connection: socket.socket, pid: int) -> None:
    answering, uid = peer(connection)
    if uid != os.geteuid():
        raise Unreached(f"its socket is held by uid {uid}, this is uid {os.geteuid()}")
    if answering != pid:
        raise Unreached(f"its socket is held by pid {answering}")


def _decoded(received: bytes) -> Answer:
    cut = Cut()
    payload = next(payloads(received, cut), None)
    if payload is None:
        raise Unreached(f"its answer is cut ({cut.why or 'empty'})")
    try:
        return _ANSWER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Refused(text="its answer is not one of this version", next_move="Use the same m3probe on both ends")
