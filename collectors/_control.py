"""The socket by which ``m3probe attach`` reaches a guest: one thread, one exchange a connection, same user only."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from m3probe.schema.control import Answer, Ask, Refused
from m3probe.schema.frames import Cut, frame, payloads
from m3probe.schema.sockets import owned, peer, receive, run_folder, socket_path

WAIT_S = 2.0
_ASK: msgspec.msgpack.Decoder[Ask] = msgspec.msgpack.Decoder(Ask)


class Control:
    """Listens for this process until ``close``.

    Args:
        answer: carries a message out; what it raises is answered as ``Refused``.
    """

    def __init__(self, answer: Callable[[Ask], Answer]) -> None:
        self._answer = answer
        self._socket: socket.socket | None = None
        self.why_not = ""
        """Why there is no socket (a read-only or foreign folder); empty when there is one."""

    def open(self) -> None:
        """Make the socket (0600) and its thread; where that fails, ``why_not`` says why and serving goes on."""
        folder, path = run_folder(), socket_path(os.getpid())
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not owned(folder):
                self.why_not = f"{folder} is not this user's alone"
                return
            path.unlink(missing_ok=True)
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.bind(str(path))
            path.chmod(0o600)  # nobody else can enter the folder; the umask is all threads' and stays as it is
            made.listen(4)
            self._socket = made
            threading.Thread(target=self._serve, args=(made,), name="m3probe-control", daemon=True).start()
        except (OSError, RuntimeError) as error:
            self.why_not = f"{path}: {getattr(error, 'strerror', None) or error}"
            self.close()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        listening, self._socket = self._socket, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            with suppress(OSError):
                socket_path(os.getpid()).unlink(missing_ok=True)

    def abandon(self) -> None:
        """In a forked child: the socket is the parent's."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                if self._socket is not listening:
                    return  # closed
                time.sleep(WAIT_S)  # the server has no file descriptor left
                continue
            with connection, suppress(Exception):  # whatever a client does, the next one is heard
                if peer(connection)[1] == os.geteuid():
                    asked = receive(connection, WAIT_S)
                    connection.settimeout(WAIT_S)
                    connection.sendall(frame(self._carried_out(asked)))

    def _carried_out(self, received: bytes) -> Answer:
        try:
            message = _ASK.decode(next(payloads(received, Cut()), b""))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Refused(text="the message is not one of this version", next_move="Use the same m3probe on both ends")
        try:
            return self._answer(message)
        except Exception as error:  # noqa: BLE001 - the guest stays; who asked is told
            return Refused(text=f"{type(error).__name__}: {error}")
