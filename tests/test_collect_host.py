"""Limits and use of this process, against what the kernel and the test itself know."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from m3probe.collectors import _host_proc as proc
from m3probe.collectors import host as collector
from m3probe.collectors._probe import Probe
from m3probe.schema import records
from m3probe.schema.roles import Level, Role


def test_open_files_and_sockets_are_counted_one_by_one(tmp_path: Path) -> None:
    before = collector.host("api", 0)
    held = [socket.socket() for _ in range(3)]
    files = [(tmp_path / str(n)).open("wb") for n in range(4)]
    try:
        now = collector.host("api", 0)
    finally:
        for one in held:
            one.close()
        for file in files:
            file.close()
    assert now.fds - before.fds == 7
    assert now.sockets - before.sockets == 3
    assert collector.host("api", 0).fds == before.fds


def test_the_figures_are_those_that_another_process_sees() -> None:
    # a shell with /proc of its parent: the descriptors of this process, without those of any listing here
    script = (
        f"ls /proc/{os.getpid()}/fd | wc -l; ls /proc/{os.getpid()}/task | wc -l; grep VmRSS /proc/{os.getpid()}/status"
    )
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        found, now = shell.stdout.read().split(), collector.host("worker", 7)
    assert (now.fds, now.threads) == (int(found[0]), int(found[1]))
    assert now.rss_bytes == pytest.approx(int(found[3]) * 1024, rel=0.02)
    assert (now.pid, now.role, now.mono_ns) == (os.getpid(), "worker", 7)


def test_limits_are_those_of_the_process_and_no_limit_is_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert proc.fd_limits() == (soft, hard)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, resource.RLIM_INFINITY))
    assert proc.fd_limits()[0] == 1024
    assert proc.fd_limits()[1] > 2**60


def test_a_thread_that_works_has_its_time_under_its_name() -> None:
    stop = threading.Event()

    def work() -> None:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
        stop.wait()

    thread = threading.Thread(target=work, name="busy-one")
    thread.start()
    deadline = time.monotonic() + 60
    found, taken = proc.cpu_by_thread(), 0
    while taken < 290_000_000 and time.monotonic() < deadline:
        time.sleep(0.05)
        found = proc.cpu_by_thread()
        taken = found.cpu_ns.get("busy-one", 0)
    stop.set()
    thread.join()
    assert 290_000_000 <= taken <= 330_000_000
    assert found.count >= 2


def test_cpu_of_the_process_is_all_its_threads() -> None:
    now = collector.host("engine", 0)
    user, system, *_rest = os.times()
    assert now.cpu_ns == pytest.approx((user + system) * 1e9, abs=50_000_000)


def test_many_thread_names_are_cut_and_nothing_is_lost() -> None:
    by_name = Counter({f"t{n}": 100 - n for n in range(proc.MOST_THREADS + 6)})
    told = proc._most(by_name)
    assert len(told) == proc.MOST_THREADS + 1
    assert sum(told.values()) == sum(by_name.values())
    assert told["t0"] == 100
    assert told[proc.OTHERS] == sum(100 - n for n in range(proc.MOST_THREADS, proc.MOST_THREADS + 6))


def test_more_descriptors_than_are_looked_at_leave_sockets_unknown() -> None:
    assert proc.sockets([str(n) for n in range(proc.MOST_LINKS + 1)]) == -1
    assert proc.sockets(None) == -1


def test_a_host_without_proc_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_args: object, **_kwargs: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", gone)
    monkeypatch.setattr(proc, "_read", gone)
    now = collector.host("api", 0)
    assert (now.fds, now.sockets, now.threads, now.rss_bytes, now.cpu_by_thread) == (-1, -1, -1, -1, {})


def test_a_process_of_several_roles_tells_once_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[records.AnyRecord] = []
    probe = Probe(Level.LEDGER)
    monkeypatch.setattr(probe, "put", kept.append)
    parts = [collector.Host(probe), collector.Host(probe)]
    probe.parts = [("host", Role.ENGINE, parts[0]), ("host", Role.API, parts[1])]
    now = 100 * 10**9
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    for part in parts:
        part.arm()
    for seconds in range(11):
        now = (100 + seconds) * 10**9
        for part in parts:
            part.tick()
    assert [r.mono_ns // 10**9 for r in kept if isinstance(r, records.Host)] == [100, 105, 110]
