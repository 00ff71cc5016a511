"""Limits of processes and of the network stack, held against ``2 x concurrency + base``."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.attach import proc as processes
from m3probe.attach.proc import LOCKED_MEMORY, OPEN_FILES, UNLIMITED
from m3probe.doctor.place import Place, alike
from m3probe.model.doctor_report import Check, Word
from m3probe.model.limits import BASE_FDS, PER_REQUEST, descriptors_for, requests_within

PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
BACKLOG = "/proc/sys/net/core/somaxconn"
_RAISED = 65_535
"""vLLM's API server raises its own soft limit to this where the hard one lets it."""
_UVICORN = 2_048
"""Connections that uvicorn, vLLM's HTTP server, asks the kernel to keep until it takes them."""
_FEW = 1_024
"""The soft limit that most systems and containers start with."""
_NOFILE_SOURCE = "InferenceX 2140 (limit 1,024 at concurrency 1,024); vLLM, utils/system_utils.py set_ulimit"
_MEMLOCK_SOURCE = "NCCL documentation, troubleshooting: the memlock limit under InfiniBand"
_PORTS_SOURCE = "Linux, Documentation/networking/ip-sysctl.rst"
_BACKLOG_SOURCE = "Linux, listen(2); uvicorn's backlog is 2,048"


def checks(place: Place, concurrency: int | None) -> Iterator[Check]:
    """Open files and locked memory of each process, ephemeral ports, and the queue of new connections."""
    for (soft, hard), who in alike(place.subjects, lambda s: processes.limit(s.pid, OPEN_FILES, place.proc)):
        yield _nofile(who, soft, hard, concurrency)
    for (soft, _hard), who in alike(place.subjects, lambda s: processes.limit(s.pid, LOCKED_MEMORY, place.proc)):
        yield _memlock(who, soft)
    yield _ports(place, concurrency)
    yield _backlog(place, concurrency)


def _nofile(who: str, soft: int, hard: int, concurrency: int | None) -> Check:
    name = "limits.nofile"
    if soft < 0:
        return Check(
            name, Word.UNKNOWN, f"{who}: its limits cannot be read", "Run doctor as the server's user, beside it"
        )
    said = f"{who}: {_told(soft)} open files (hard limit {_told(hard)})"
    if concurrency is None:
        room = (
            f"room for {requests_within(soft):,} requests at once"
            if soft < UNLIMITED
            else "room for any number of requests"
        )
        word = Word.WARN if soft <= _FEW else Word.OK
        return Check(name, word, f"{said}: {room}", _raise(hard) if word is Word.WARN else "", _NOFILE_SOURCE)
    need = descriptors_for(concurrency)
    sum_ = f"{PER_REQUEST} x {concurrency:,} + {BASE_FDS:,} = {need:,}"
    if soft >= need:
        return Check(name, Word.OK, f"{said}, {sum_} needed", source=_NOFILE_SOURCE)
    text = f"{said} < {sum_}: connections fail with `Too many open files`"
    if hard >= need and soft < _RAISED:
        text += "; vLLM's API server raises its own soft limit, a client or proxy does not"
    return Check(name, Word.BAD, text, _raise(max(need, _RAISED)), _NOFILE_SOURCE)


def _raise(wanted: int) -> str:
    return f"ulimit -n {min(max(wanted, _RAISED), 1_048_576)} before the start; docker: --ulimit nofile=1048576"


def _memlock(who: str, soft: int) -> Check:
    name = "limits.memlock"
    if soft < 0:
        return Check(
            name, Word.UNKNOWN, f"{who}: its limits cannot be read", "Run doctor as the server's user, beside it"
        )
    if soft == UNLIMITED:
        return Check(name, Word.OK, f"{who}: unlimited locked memory", source=_MEMLOCK_SOURCE)
    text = f"{who}: {soft / 2**20:,.1f} MiB of locked memory: RDMA (KV transfer, RCCL over several nodes) registers more and fails"
    return Check(name, Word.WARN, text, "ulimit -l unlimited; docker: --ulimit memlock=-1", _MEMLOCK_SOURCE)


def _ports(place: Place, concurrency: int | None) -> Check:
    name = "limits.ephemeral_ports"
    words = (place.text(PORTS) or "").split()
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return Check(name, Word.UNKNOWN, f"{PORTS} is not visible here", "Read it where the client and the proxy run")
    ports = max(int(words[1]) - int(words[0]) + 1, 0)
    said = f"{ports:,} ports for outgoing connections to one address ({words[0]} to {words[1]})"
    need = descriptors_for(concurrency) if concurrency is not None else None
    if need is None:
        return Check(name, Word.OK if ports > _FEW else Word.WARN, said, source=_PORTS_SOURCE)
    sum_ = f"{PER_REQUEST} x {concurrency:,} + {BASE_FDS:,} = {need:,}"
    if ports >= need:
        return Check(name, Word.OK, f"{said}, {sum_} needed", source=_PORTS_SOURCE)
    text = f"{said} < {sum_}: a client or proxy here gets no port for more (and each closed one is kept for 60 s)"
    return Check(name, Word.BAD, text, 'sysctl -w net.ipv4.ip_local_port_range="1024 65535"', _PORTS_SOURCE)


def _backlog(place: Place, concurrency: int | None) -> Check:
    name, most = "limits.somaxconn", place.number(BACKLOG)
    if most is None or most < 0:
        return Check(name, Word.UNKNOWN, f"{BACKLOG} is not visible here", "Read it in the server's network namespace")
    kept = min(most, _UVICORN)
    said = f"{most:,}: {kept:,} connections may wait until the server takes them"
    if concurrency is None:
        return Check(name, Word.OK if most >= _UVICORN else Word.WARN, said, source=_BACKLOG_SOURCE)
    if kept >= concurrency:
        return Check(name, Word.OK, f"{said}, {concurrency:,} may come at once", source=_BACKLOG_SOURCE)
    text = f"{said} < {concurrency:,} that may come at once: the rest is dropped and tried again after 1 s or more"
    advice = f"sysctl -w net.core.somaxconn={concurrency}" if most < concurrency <= _UVICORN else ""
    ramp = "Let clients ramp up, or keep their connections"
    return Check(
        name, Word.WARN, text, f"{advice}; or: {ramp[0].lower()}{ramp[1:]}" if advice else ramp, _BACKLOG_SOURCE
    )


def _told(limit: int) -> str:
    return "unlimited" if limit == UNLIMITED else f"{limit:,}"
