"""What the kernel tells of other processes, from /proc: every figure may be unknown, as a process may go at any time.

``comm`` is cut at 15 characters (``VLLM::EngineCor``), so names come from the command line; a zombie has only ``comm``.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MOST_READ = 1024 * 1024
"""Bytes of one file of /proc; a command line or an environment is far below."""
OPEN_FILES, LOCKED_MEMORY = "Max open files", "Max locked memory"
UNLIMITED = 2**63 - 1
"""A limit that there is not."""
_UNLIMITED = "unlimited"
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc shows it. ``uid``: the effective one; ``inner_pid``: its pid in its own namespace."""

    pid: int
    ppid: int
    state: str
    comm: str
    command: tuple[str, ...]
    uid: int
    inner_pid: int

    @property
    def zombie(self) -> bool:
        """Ended, and not waited for by its parent."""
        return self.state in {"Z", "X"}

    @property
    def title(self) -> str:
        """What it calls itself: the first word of its command line, or ``comm`` where it has none."""
        return self.command[0] if self.command else self.comm


def look(pid: int, proc: Path = PROC) -> Process | None:
    """One process; None when there is none (any more)."""
    status = _fields(_text(proc / str(pid) / "status"))
    if "State" not in status:
        return None
    raw = _text(proc / str(pid) / "cmdline").rstrip("\0")
    return Process(
        pid=pid,
        ppid=_number(status.get("PPid", "")),
        state=status["State"][:1],
        comm=status.get("Name", ""),
        command=tuple(raw.split("\0")) if raw else (),
        uid=_number(status.get("Uid", "").split()[1:2]),
        inner_pid=_number(status.get("NSpid", "").split()[-1:] or str(pid)),
    )


def everyone(proc: Path = PROC) -> dict[int, Process]:
    """All processes that can be seen, by pid."""
    try:
        names = [name for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 - names, no Path for each
    except OSError:
        return {}
    found = (look(int(name), proc) for name in names)
    return {process.pid: process for process in found if process is not None}


def alive(pid: int, proc: Path = PROC) -> bool:
    """Whether it runs: neither gone nor a zombie."""
    found = look(pid, proc)
    return found is not None and not found.zombie


def environ(pid: int, proc: Path = PROC) -> dict[str, str] | None:
    """Its environment as it was started; None where it cannot be read.

    A process that renamed itself (setproctitle: vLLM's engines and workers) has put zeros over most of it: what is left
    would make variables look unset, so all of it is unknown.
    """
    raw = _text(proc / str(pid) / "environ")
    if raw.startswith("\0"):
        return None
    pairs = (entry.partition("=") for entry in raw.split("\0"))
    found = {name: value for name, equals, value in pairs if equals and name.isidentifier()}
    return found or None


def status_text(pid: int | str, proc: Path = PROC) -> str:
    """``/proc/PID/status``; empty where there is none. ``self`` is this process."""
    return _text(proc / str(pid) / "status")


def namespace(pid: int | str, kind: str, proc: Path = PROC) -> str | None:
    """``pid:[4026531836]``; None where it may not be read."""
    try:
        return os.readlink(proc / str(pid) / "ns" / kind)  # noqa: PTH115 - the text is wanted, it is no path
    except OSError:
        return None


def cgroup(pid: int, proc: Path = PROC) -> str:
    """``/proc/PID/cgroup``; empty where it cannot be read."""
    return _text(proc / str(pid) / "cgroup")


@dataclass(frozen=True, slots=True)
class Use:
    """Limits and use of one process; -1 where the kernel does not tell."""

    fds: int = -1
    fd_soft: int = -1
    fd_hard: int = -1
    threads: int = -1
    rss_bytes: int = -1
    cpu_ns: int = -1


def use(pid: int, proc: Path = PROC) -> Use:
    """What one process holds now."""
    at = proc / str(pid)
    status = _fields(_text(at / "status"))
    soft, hard = limit(pid, OPEN_FILES, proc)
    after_name = _text(at / "stat").rpartition(")")[2].split()
    ticks = sum(int(word) for word in after_name[11:13]) if len(after_name) > 13 else -1
    return Use(
        fds=len(descriptors(pid, proc) or ()) or -1,
        fd_soft=soft,
        fd_hard=hard,
        threads=_number(status.get("Threads", "")),
        rss_bytes=_number(status.get("VmRSS", "").split()[:1]) * 1024 if "VmRSS" in status else -1,
        cpu_ns=ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK") if ticks >= 0 else -1,
    )


def descriptors(pid: int, proc: Path = PROC) -> tuple[str, ...] | None:
    """What its open descriptors lead to (``socket:[12345]``); None where they may not be read."""
    folder = proc / str(pid) / "fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return None
    found = []
    for name in names:
        with suppress(OSError):
            found.append(os.readlink(folder / name))  # noqa: PTH115 - as above
    return tuple(found)


def listening(pid: int, proc: Path = PROC) -> tuple[tuple[str, int], ...]:
    """(address, port) of the TCP sockets on which it listens, in the order of the ports."""
    inodes = {text[8:-1] for text in descriptors(pid, proc) or () if text.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in _text(proc / str(pid) / "net" / table).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTEN and words[9] in inodes:
                address, _, port = words[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return tuple(sorted(found, key=lambda item: item[1]))


def _address(text: str) -> str:
    """Words of four bytes, each in the host's byte order, as text that a URL takes."""
    import socket

    raw = b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def limit(pid: int | str, name: str, proc: Path = PROC) -> tuple[int, int]:
    """(soft, hard) of one of its limits, by the name in /proc; -1 where it is not told. ``self`` is this process."""
    lines = _text(proc / str(pid) / "limits").splitlines()
    line = next((line for line in lines if line.startswith(name)), "")
    soft, hard, *_ = [*line.removeprefix(name).split()[:2], "", ""]
    return _limit(soft), _limit(hard)


def _limit(word: str) -> int:
    return UNLIMITED if word == _UNLIMITED else _number(word)


def _fields(status: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in status.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _number(words: str | list[str]) -> int:
    word = words if isinstance(words, str) else words[0] if words else ""
    return int(word) if word.isascii() and word.isdecimal() else -1


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_READ).decode("utf-8", "replace")
    except OSError:
        return ""
