"""Reads ``/proc/self``; every function answers -1, None or nothing where the host does not tell."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

MOST_LINKS = 16_384
"""Descriptors whose links are read (1 to 2 us each); a process with more of them has unknown sockets."""
MOST_THREADS = 24
"""Thread names told; the rest is summed. A worker has an OpenMP thread per core, all of one name."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads there are, and CPU time from their start by name; -1 and nothing where not known."""

    count: int
    cpu_ns: Mapping[str, int]


def pid() -> int:
    """This process's number, in its own pid namespace."""
    return os.getpid()


def fd_limits() -> tuple[int, int]:
    """(soft, hard) limit of open descriptors; no limit is the largest int."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _limit(soft), _limit(hard)


def fds() -> list[str] | None:
    """Names of the open descriptors, among them the one that lists them (the lowest that was free)."""
    try:
        return os.listdir("/proc/self/fd")  # noqa: PTH208 - names suffice
    except OSError:
        return None


def sockets(names: list[str] | None) -> int:
    """Descriptors that are sockets; -1 where not known, or where there are too many to look at each."""
    if names is None or len(names) > MOST_LINKS:
        return -1
    return sum(_link(name).startswith("socket:") for name in names)


def rss_bytes() -> int:
    """Resident memory; -1 where not known."""
    try:
        return int(_read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return -1


def cpu_by_thread() -> Threads:
    """CPU time (user and system, in clock ticks of 10 ms) by thread name: Python's where it has one, else the kernel's."""
    try:
        ids = os.listdir("/proc/self/task")  # noqa: PTH208 - as above
    except OSError:
        return Threads(-1, {})
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    by_name: Counter[str] = Counter()
    for thread in ids:
        told = _thread(thread)
        if told is not None:
            by_name[names.get(int(thread), told[0])] += told[1]
    return Threads(len(ids), _most(by_name))


def _thread(thread: str) -> tuple[str, int] | None:
    """(kernel's name, CPU time in ns) of one thread; None when it has ended meanwhile."""
    try:
        head, _, rest = _read(f"/proc/self/task/{thread}/stat").rpartition(")")
        fields = rest.split()
        ticks = int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None
    return head.partition("(")[2], ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _most(by_name: Counter[str]) -> dict[str, int]:
    told = dict(by_name.most_common(MOST_THREADS))
    rest = by_name.total() - sum(told.values())
    return told | {OTHERS: rest} if len(by_name) > MOST_THREADS else told


def _limit(value: int) -> int:
    return sys.maxsize if value == resource.RLIM_INFINITY else value


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - pathlib costs five times as much
    except OSError:
        return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
        return file.read()
