"""Whether a server may be touched from here: same user, same namespaces; else the line that goes where it is."""

from __future__ import annotations

import os

from m3probe.attach import containers
from m3probe.attach import proc as processes
from m3probe.attach.asked import Asked
from m3probe.attach.servers import Server
from m3probe.errors import UnreadableInput


def check_within(server: Server, asked: Asked) -> None:
    """Refuse another user's server, and one in another container.

    Raises:
        UnreadableInput: with the exact command that does it.
    """
    for member in server.members:
        process = member.process
        if process.zombie:
            continue
        other = containers.other_namespaces(process.pid, asked.proc)
        if other:
            environ = processes.environ(process.pid, asked.proc) or {}
            lines = containers.way_in(
                processes.cgroup(process.pid, asked.proc), environ, process.inner_pid, _options(asked)
            )
            raise UnreadableInput(
                f"it runs in another container (its {' and '.join(other)} namespaces are not this shell's)",
                where=f"pid {process.pid}",
                next_move="Run it inside: " + "  or  ".join(lines),
            )
        if process.uid not in {-1, os.geteuid()}:
            raise UnreadableInput(
                f"it runs as uid {process.uid}, this is uid {os.geteuid()}: guests answer to their own user alone",
                where=f"pid {process.pid}",
                next_move=f"sudo -u '#{process.uid}' m3probe attach {asked.target}",
            )


def _options(asked: Asked) -> tuple[str, ...]:
    """The options that say how long and how; paths have other names inside."""
    words: list[str] = []
    for name, value in (("--seconds", asked.seconds), ("--steps", asked.steps)):
        words += [name, f"{value:g}"] if value is not None else []
    return (*words, *(["--once"] if asked.once else []), *(["--inject"] if asked.inject else []))
