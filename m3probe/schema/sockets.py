"""Where a guest's control socket lies, and how both ends make sure of each other."""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from pathlib import Path

from m3probe.schema.frames import MOST_BYTES

FOLDER = "M3PROBE_RUN"
"""Variable that names another folder for the sockets, for guests and ``attach`` alike."""

_PEER = struct.Struct("3i")
_HEAD = struct.Struct("<II")
MOST_MESSAGE = min(MOST_BYTES, 1024 * 1024)


def run_folder(uid: int | None = None) -> Path:
    """The folder of one user's sockets; ``uid``: another user's than this process's."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else Path("/tmp") / f"m3probe-{os.geteuid() if uid is None else uid}"


def socket_path(pid: int, uid: int | None = None) -> Path:
    """The socket of the guest in process ``pid``."""
    return run_folder(uid) / f"{pid}.sock"


def owned(folder: Path) -> bool:
    """Whether ``folder`` is a real folder of this user that nobody else can enter."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def peer(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end, as the kernel saw it connect."""
    pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid


def receive(connection: socket.socket, within_s: float | None = None) -> bytes:
    """One whole frame; short where the other end closed early.

    Args:
        within_s: for all of it together, so that a byte now and then holds nobody up; None: the connection's own timeout
            for each piece.

    Raises:
        OSError: the connection broke or timed out.
        ValueError: the frame is longer than a message may be.
    """
    until = None if within_s is None else time.monotonic() + within_s
    head = _exactly(connection, _HEAD.size, until)
    if len(head) < _HEAD.size:
        return head
    length, _crc = _HEAD.unpack(head)
    if length > MOST_MESSAGE:
        raise ValueError(f"a message of {length:,} bytes")
    return head + _exactly(connection, length, until)


def _exactly(connection: socket.socket, size: int, until: float | None) -> bytes:
    got = bytearray()
    while len(got) < size:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        more = connection.recv(size - len(got))
        if not more:
            break
        got += more
    return bytes(got)
