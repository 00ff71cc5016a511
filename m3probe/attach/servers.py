"""Finds vLLM servers among the processes of this host: by command lines, sockets and who is whose child."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from m3probe.attach import proc as processes
from m3probe.attach.proc import Process
from m3probe.errors import UnreadableInput, UsageError
from m3probe.schema import sockets
from m3probe.schema.roles import Role

AUTO = "auto"
_TITLE = re.compile(r"^\w+::(EngineCore|Worker|APIServer|DPCoordinator|DPSupervisor)")
_TITLED = {"EngineCore": Role.ENGINE, "Worker": Role.WORKER, "APIServer": Role.API}
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main", "vllm.entrypoints.grpc_server")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_SPAWNED = "multiprocessing.spawn"
MOST_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a server. ``role``: as its command line says; a guest in it knows better."""

    process: Process
    role: Role
    name: str

    @property
    def pid(self) -> int:
        """Its number here."""
        return self.process.pid


@dataclass(frozen=True, slots=True)
class Server:
    """A tree of processes, the API server (or the script that holds the engine) first."""

    members: tuple[Member, ...]

    @property
    def root(self) -> Process:
        """The process that started the others."""
        return self.members[0].process

    def words(self) -> str:
        """One line to tell it from another server."""
        return f"{self.root.pid}: {' '.join(self.root.command)[:160]}"


def find(target: str, proc: Path = processes.PROC) -> Server:
    """The server that ``PID`` is a part of, or the only one here.

    Args:
        target: ``auto`` or a pid: of the API server, an engine, a worker, or of what started them.

    Raises:
        UsageError: ``auto``, and there are several.
        UnreadableInput: there is none; the pid is gone or has nothing of vLLM.
    """
    everyone = processes.everyone(proc)
    found = servers(everyone, proc)
    if target == AUTO:
        return _only(found)
    pid = int(target)
    if pid not in everyone:
        raise UnreadableInput("no such process", where=f"pid {pid}", next_move="It has ended, or is not visible here")
    within = [s for s in found if any(m.pid == pid for m in s.members) or pid in _ancestors(s.root.pid, everyone)]
    if within:
        return within[0] if len(within) == 1 else _only(within)
    if everyone[pid].zombie:
        raise UnreadableInput("it has ended and waits for its parent", where=f"pid {pid}")
    if _holds_vllm(pid, proc):
        return Server((Member(everyone[pid], Role.UNKNOWN, everyone[pid].title),))
    raise UnreadableInput(
        f"nothing of vLLM in it ({everyone[pid].title[:80]})",
        where=f"pid {pid}",
        next_move="Give the pid of the API server, an engine or a worker, or `auto`",
    )


def servers(everyone: Mapping[int, Process], proc: Path = processes.PROC) -> list[Server]:
    """All servers, by the pid of their first process."""
    known = {pid for pid, p in everyone.items() if _role(p) is not None or _has_socket(p, proc)}
    roots: dict[int, list[Process]] = {}
    for pid in sorted(known):
        root = max((up for up in [pid, *_ancestors(pid, everyone)] if up in known), key=lambda up: _depth(up, everyone))
        roots.setdefault(root, []).append(everyone[pid])
    for pid, process in everyone.items():
        if pid not in known and process.ppid in known and _spawned(process):
            root = next(r for r, part in roots.items() if process.ppid in {p.pid for p in part})
            roots[root].append(process)
    return [Server(tuple(_member(p) for p in _in_order(root, part))) for root, part in sorted(roots.items())]


def _only(found: list[Server]) -> Server:
    if not found:
        raise UnreadableInput(
            "no vLLM server was found on this host",
            where=AUTO,
            next_move="In a container run m3probe inside it (docker exec, kubectl exec); or give its pid or URL",
        )
    if len(found) > 1:
        listed = "; ".join(server.words() for server in found)
        raise UsageError(f"there are {len(found)} servers here: {listed}", where=AUTO, next_move="Name one by its pid")
    return found[0]


def _depth(pid: int, everyone: Mapping[int, Process]) -> int:
    """The nearer to the root of all processes, the larger."""
    return -len(_ancestors(pid, everyone))


def _ancestors(pid: int, everyone: Mapping[int, Process]) -> list[int]:
    found: list[int] = []
    process = everyone.get(pid)
    while process is not None and process.ppid > 0 and len(found) < MOST_DEPTH:
        found.append(process.ppid)
        process = everyone.get(process.ppid)
    return found


def _role(process: Process) -> Role | None:
    """What its command line says that it is; UNKNOWN: of vLLM, without a part in a step; None: not of vLLM."""
    titled = _TITLE.match(process.comm if process.zombie else process.title)
    if titled:
        return _TITLED.get(titled[1], Role.UNKNOWN)
    if process.zombie and process.comm.startswith("VLLM::"):
        return Role.UNKNOWN
    words = process.command
    if any(word in _MODULES for word in words) and "python" in Path(words[0]).name:
        return Role.API
    serves = next((i for i, word in enumerate(words[:4]) if Path(word).name == "vllm"), None)
    return Role.API if serves is not None and words[serves + 1 : serves + 2] == ("serve",) else None


def _spawned(process: Process) -> bool:
    """A child that Python's multiprocessing started and that has not told its name (no setproctitle there)."""
    line = " ".join(process.command)
    return _SPAWNED in line and not any(helper in line for helper in _HELPERS)


def _has_socket(process: Process, proc: Path) -> bool:
    if process.zombie or process.uid != os.geteuid():
        return False
    return socket_of(process, process, proc).exists()


def socket_of(process: Process, root: Process, proc: Path = processes.PROC) -> Path:
    """Where the guest of ``process`` listens: its own ``M3PROBE_RUN`` counts, or its server's, before this process's."""
    for known in (process, root):
        named = (processes.environ(known.pid, proc) or {}).get(sockets.FOLDER)
        if named:
            return Path(named) / f"{process.pid}.sock"
    return sockets.socket_path(process.pid, process.uid)


def _holds_vllm(pid: int, proc: Path) -> bool:
    """Whether it has one of vLLM's own libraries mapped: a script that runs the engine in its own process."""
    try:
        with (proc / str(pid) / "maps").open("rb") as file:
            return any(b"/vllm/" in line and b".so" in line for line in file)
    except OSError:
        return False


def _in_order(root: int, part: list[Process]) -> list[Process]:
    order = {Role.API: 0, Role.ENGINE: 1, Role.WORKER: 2}
    return sorted(part, key=lambda p: (p.pid != root, order.get(_role(p) or Role.UNKNOWN, 3), p.pid))


def _member(process: Process) -> Member:
    role = _role(process)
    name = process.title if role is not Role.API or "::" in process.title else "API server"
    return Member(process, role or Role.UNKNOWN, name[:80])
