"""What ``attach`` can do here: tracing, sockets, the plugin, and the servers that are visible."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from m3probe.attach import containers, ptrace
from m3probe.attach import proc as processes
from m3probe.attach.servers import Server, socket_of
from m3probe.doctor.place import HERE, Place
from m3probe.model.doctor_report import Check, Word
from m3probe.schema import secrets, sockets

_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_PLUGIN = "m3probe"
_LONGEST = 160  # characters of a command line in a sentence


def checks(place: Place) -> Iterator[Check]:
    """Injection, the folder of control sockets, variables that keep the plugin out, and each server."""
    yield _tracing(place)
    yield _sockets(place)
    yield from _plugin(place)
    yield from (_server(place, server) for server in place.servers)
    if not place.servers:
        text = "no vLLM server is visible here: in a container doctor has to run inside of it"
        yield Check("attach.servers", Word.UNKNOWN, text, "Start it, or give doctor the server's user and namespace")


def _tracing(place: Place) -> Check:
    """Whether a server that was started without the plugin can be reached by ``--inject``."""
    name, source = "attach.inject", "Linux, ptrace(2) and Documentation/admin-guide/LSM/Yama.rst"
    own = processes.status_text("self", place.proc)
    scope = place.text(_SCOPE)
    if not own:
        return Check(name, Word.UNKNOWN, "/proc/self/status cannot be read", "Mount /proc")
    why = ptrace.refusal(own, own, scope or "")
    said = f"ptrace_scope {scope}" if scope is not None else "no Yama in this kernel"
    right = (
        "SYS_PTRACE is effective" if ptrace.has_sys_ptrace(own) else "no SYS_PTRACE: processes of the same user only"
    )
    if why:
        text = f"{why}: --inject is refused; the plugin, loaded at the server's start, needs none of it"
        return Check(name, Word.WARN, text, ptrace.ADVICE, source)
    if find_spec("hypno") is None:
        text = f"{said}, {right}, and hypno is not installed: --inject is refused, the plugin needs none of it"
        return Check(name, Word.WARN, text, "pip install 'm3probe[inject]' where m3probe runs")
    return Check(name, Word.OK, f"{said}, {right}, hypno is here: --inject can reach a server", source=source)


def _sockets(place: Place) -> Check:
    """Guests listen in a folder that nobody else may enter."""
    name = "attach.sockets"
    named = place.env.get(sockets.FOLDER)
    folder = Path(named) if named else sockets.run_folder()
    if not folder.exists():
        writable = os.access(_above(folder), os.W_OK | os.X_OK)
        text = f"{folder} is not there yet, and {'can' if writable else 'cannot'} be made"
        advice = "" if writable else f"Name a folder of your own with {sockets.FOLDER}, for server and attach alike"
        return Check(name, Word.OK if writable else Word.BAD, text, advice)
    try:
        fine = sockets.owned(folder)
    except OSError as error:
        return Check(name, Word.UNKNOWN, f"{folder} cannot be looked at ({error.strerror})")
    if not fine:
        text = f"{folder} is another user's, or others may enter it: no guest will listen there"
        return Check(name, Word.BAD, text, f"chmod 700 it, or name another with {sockets.FOLDER}")
    return Check(name, Word.OK, f"{folder} is this user's alone")


def _above(folder: Path) -> Path:
    return next((parent for parent in folder.parents if parent.exists()), Path("/"))


def _plugin(place: Place) -> Iterator[Check]:
    """Variables with which a server started here would have no guest."""
    name = "attach.plugin"
    if place.env.get("M3PROBE") == "0":
        yield Check(name, Word.WARN, f"{HERE}: M3PROBE=0: a server started so has no guest", "Unset M3PROBE")
    allowed = place.env.get("VLLM_PLUGINS")
    if allowed is not None and _PLUGIN not in {word.strip() for word in allowed.split(",")}:
        text = f"{HERE}: VLLM_PLUGINS={allowed[:80]!r} leaves m3probe out: a server started so has no guest"
        yield Check(name, Word.WARN, text, f"Add {_PLUGIN} to VLLM_PLUGINS, or unset it")


def _server(place: Place, server: Server) -> Check:
    """One server: whose it is, in which namespaces, and how many of its processes have a guest."""
    command = " ".join(secrets.command(server.root.command))[:_LONGEST]
    name, words = "attach.server", f"{server.root.pid}: {command}"
    alive = [member for member in server.members if not member.process.zombie]
    other = {kind for member in alive for kind in containers.other_namespaces(member.pid, place.proc)}
    if other:
        cgroup = processes.cgroup(server.root.pid, place.proc)
        env = processes.environ(server.root.pid, place.proc) or {}
        line = containers.way_in(cgroup, env, server.root.inner_pid)[0]
        return Check(name, Word.WARN, f"{words}: it is in another container", f"Run there: {line}")
    users = {member.process.uid for member in alive}
    if users - {os.geteuid()}:
        text = f"{words}: it runs as uid {min(users - {os.geteuid()})}, this is uid {os.geteuid()}"
        return Check(name, Word.BAD, text, "Run attach as the server's user")
    guests = [m for m in alive if socket_of(m.process, server.root, place.proc).exists()]
    said = f"{words}: {len(guests)} of {len(alive)} processes have a guest's socket"
    if guests:
        return Check(name, Word.OK, said)
    refused = ptrace.refusal_of(server.root.pid, place.proc)
    reach = f"and --inject is refused ({refused})" if refused else "--inject may reach it"
    return Check(name, Word.WARN, f"{said}, {reach}", "Install m3probe in its image and start it again")
