"""What is looked at: this host's files, this process, and the servers that run here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from m3probe.attach import proc as processes
from m3probe.attach.containers import other_namespaces
from m3probe.attach.servers import Server, servers

HERE = "this process"
_MOST_LINES = 1_000_000
_SITES = ("/site-packages/", "/dist-packages/")
_NAMED = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose limits, environment and libraries are looked at.

    Args:
        pid: of the process; ``self`` is this one.
        env: its variables; None where they cannot be read.
        sites: folders that its Python packages lie in.
    """

    name: str
    pid: int | str
    env: Mapping[str, str] | None
    sites: tuple[Path, ...] = ()


def alike(these: Iterable[Subject], of: Callable[[Subject], T]) -> list[tuple[T, str]]:
    """Subjects of which the same is to be said together: (what, who)."""
    found: list[tuple[T, list[str]]] = []
    for subject in these:
        value = of(subject)
        names = next((names for known, names in found if known == value), None)
        if names is None:
            found.append((value, [subject.name]))
        else:
            names.append(subject.name)
    return [(value, who(names)) for value, names in found]


def who(names: list[str]) -> str:
    """``a, b, c, d and 4 more``."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def shm_bytes(folder: Path) -> int | None:
    """Bytes that the file system of ``folder`` holds; None where there is none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


@dataclass(frozen=True)
class Place:
    """One host as this process sees it.

    Args:
        root: where its file system lies: / but in tests.
        env: the variables of this process, which a server started from here would inherit.
        sites: where this process finds Python packages.
        shm: bytes of a file system.
    """

    root: Path = Path("/")
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    sites: tuple[Path, ...] = field(default_factory=lambda: tuple(Path(entry) for entry in sys.path if entry))
    shm: Callable[[Path], int | None] = shm_bytes

    @property
    def proc(self) -> Path:
        """The kernel's view of processes."""
        return self.root / "proc"

    def text(self, path: str) -> str | None:
        """A small file of the host without blanks around; None where it is not there or may not be read."""
        try:
            with (self.root / path.lstrip("/")).open("rb") as file:
                return file.read(processes.MOST_READ).decode("utf-8", "replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """The whole number that such a file holds; None where it holds none."""
        text = self.text(path)
        return int(text) if text and text.isascii() and text.lstrip("-").isdecimal() else None

    @cached_property
    def servers(self) -> list[Server]:
        """vLLM's servers on this host, as far as they can be seen."""
        return servers(processes.everyone(self.proc), self.proc)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """This process, then every process of every server."""
        return (Subject(HERE, "self", self.env, self.sites), *self._serving())

    def _serving(self) -> Iterator[Subject]:
        for server in self.servers:
            for member in server.members:
                if not member.process.zombie:
                    env = processes.environ(member.pid, self.proc)
                    yield Subject(f"pid {member.pid} ({member.name})", member.pid, env, self._sites(member.pid))

    def _sites(self, pid: int) -> tuple[Path, ...]:
        """Folders of Python packages among the mapped files, through the process's own root where that is another one."""
        inside = "mnt" in other_namespaces(pid, self.proc)
        root = self.proc / str(pid) / "root" if inside else self.root
        found: dict[Path, None] = {}
        try:
            with (self.proc / str(pid) / "maps").open(encoding="utf-8", errors="surrogateescape") as lines:
                for _, line in zip(range(_MOST_LINES), lines, strict=False):
                    for mark in _SITES:
                        head, mid, _tail = line.rpartition(mark)
                        if mid and "/" in head:
                            folder = head[head.index("/") :] + mark.rstrip("/")
                            found.setdefault(root / folder.lstrip("/"))
        except OSError:
            return ()
        return tuple(found)

    @cached_property
    def amd(self) -> bool | None:
        """Whether AMD's GPU driver is here; None where neither its device nor NVIDIA's is visible."""
        if (self.root / "dev/kfd").exists():
            return True
        return False if (self.root / "dev/nvidiactl").exists() else None
