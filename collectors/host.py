"""Limits and use of this process: file descriptors, sockets, CPU per process and thread, memory.

All from ``/proc/self`` and in the writer's thread, every 5 s. On a host without ``/proc`` the figures are -1.
"""

from __future__ import annotations

import time

from m3probe.collectors import _host_proc as proc
from m3probe.collectors._part import Collector, Part
from m3probe.schema import records
from m3probe.schema.roles import Role

EVERY_NS = 5_000_000_000


class Host(Part):
    """One record every 5 s, from the first part of its kind where a process has several roles."""

    _due_ns = 0

    def arm(self) -> None:
        """The first record comes with the first tick."""
        self._due_ns = 0

    def tick(self) -> None:
        """Write a record when it is time."""
        now = time.monotonic_ns()
        if now >= self._due_ns and self._is_first():
            self._due_ns = now + EVERY_NS
            self.probe.put(host(str(self.probe.role), now))

    def _is_first(self) -> bool:
        return next((part for _name, _role, part in self.probe.parts if isinstance(part, Host)), None) is self


def host(role: str, now_ns: int) -> records.Host:
    """This process now; CPU times count from its start."""
    soft, hard = proc.fd_limits()
    fds = proc.fds()
    threads = proc.cpu_by_thread()
    return records.Host(
        mono_ns=now_ns,
        pid=proc.pid(),
        role=role,
        fds=len(fds) - 1 if fds is not None else -1,
        fd_soft=soft,
        fd_hard=hard,
        sockets=proc.sockets(fds),
        threads=threads.count,
        rss_bytes=proc.rss_bytes(),
        cpu_ns=time.process_time_ns(),
        cpu_by_thread=threads.cpu_ns,
    )


COLLECTOR = Collector(
    title="limits and use of each process: descriptors, sockets, CPU by thread, memory",
    roles=(Role.API, Role.ENGINE, Role.WORKER),
    make=Host,
    order=90,
)
