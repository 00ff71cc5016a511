"""Which profiler libraries a process has mapped, and what those builds lose or hang on.

Decided by the mapped files and not by the version of an image: torch's wheel may bring copies of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from m3probe.attach.build_id import build_id
from m3probe.attach.proc import PROC, environ
from m3probe.attach.rocm_builds import QUEUE_SWITCH, REPORTS, Effect, Report, Version

WATCHED = frozenset(
    [
        "libamdhip64",
        "libroctracer64",
        "librocprofiler-sdk",
        "librocprofiler-sdk-tool",
        "libhsa-runtime64",
        "librccl",
        "libcupti",
    ]
)
_NAME = re.compile(r"(?P<stem>lib[\w-]+)\.so(?:\.(?P<version>[\w.-]+))?")
_ROCM_FOLDER = re.compile(r"/rocm-(\d+)\.(\d+)\.(\d+)/")
_OWN_VERSION = frozenset({"librocprofiler-sdk", "librocprofiler-sdk-tool", "libcupti"})
"""Libraries that are judged by their own version; of the others ROCm's stands at the end of the name."""
_MOST_LINES = 1_000_000


@dataclass(frozen=True, slots=True)
class Library:
    """One mapped library. ``version``: its own or ROCm's, empty where its name tells none."""

    name: str
    path: str
    version: Version = ()
    bundled: bool = False
    """torch's own copy."""
    build_id: str = ""

    @property
    def text(self) -> str:
        """``libroctracer64 of ROCm 7.2.1 (/opt/rocm-7.2.1/lib/libroctracer64.so.4.1.70201)``."""
        number = ".".join(map(str, self.version)) or "unknown version"
        of = "" if self.name in _OWN_VERSION or not self.version else "of ROCm "
        return f"{self.name} {of}{number} ({self.path})"


@dataclass(frozen=True, slots=True)
class Known:
    """A report that is about this process. ``library``: the copy that makes it so."""

    report: Report
    library: Library

    @property
    def text(self) -> str:
        """What happens, with the report."""
        return f"{self.report.text} [{self.report.source}]"


@dataclass(frozen=True, slots=True)
class ProfilerBuild:
    """What is known of torch's profiler in one process.

    Args:
        readable: its maps could be read; nothing is known otherwise.
        libs: watched libraries, by path.
        known: reports about them.
    """

    pid: int
    readable: bool
    libs: tuple[Library, ...] = ()
    known: tuple[Known, ...] = ()

    @property
    def losses(self) -> tuple[Known, ...]:
        """Reports of missing kernels and of misleading times."""
        return tuple(k for k in self.known if k.report.effect is not Effect.HANGS)

    @property
    def hangs(self) -> tuple[Known, ...]:
        """Reports of servers that stopped answering."""
        return tuple(k for k in self.known if k.report.effect is Effect.HANGS)

    @property
    def refuse(self) -> bool:
        """A window is refused unless it is forced."""
        return bool(self.hangs)

    @property
    def reason(self) -> str:
        """Why it is refused, with the library and the next move; empty when it is not."""
        return " · ".join(
            f"{k.library.text}: {k.report.text}" + (f". {k.report.advice}" if k.report.advice else "")
            for k in self.hangs
        )

    @property
    def report(self) -> str:
        """The reports behind the refusal (``vLLM issue 54087, PR 54171``); empty when it is not refused."""
        return "; ".join(dict.fromkeys(k.report.source for k in self.hangs))


def read_profiling(pid: int, proc: Path = PROC, env: Mapping[str, str] | None = None) -> ProfilerBuild:
    """Read the mapped libraries of a process.

    Args:
        env: its variables where a guest has told them: a process that renamed itself (vLLM's workers do) has overwritten
            what /proc shows. A switch that cannot be read counts as not set.
    """
    try:
        paths = dict.fromkeys(_mapped(proc / str(pid) / "maps"))
    except OSError:
        return ProfilerBuild(pid, readable=False)
    told = env if env is not None else environ(pid, proc) or {}
    return build_of(paths, proc / str(pid) / "root", told, pid)


def build_of(paths: Iterable[str], root: Path, env: Mapping[str, str], pid: int = -1) -> ProfilerBuild:
    """The same of libraries that are not mapped yet: ``paths`` as a process would see them below ``root``."""
    libs = tuple(found for path in paths if (found := _library(path, root)) is not None)
    known = tuple(Known(report, lib) for report in REPORTS for lib in libs if _is_about(report, lib, env))
    return ProfilerBuild(pid, readable=True, libs=libs, known=known)


def _mapped(maps: Path) -> Iterator[str]:
    with maps.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines):
            path = line.split(maxsplit=5)[5:]
            if path and path[0].startswith("/"):
                yield path[0].rstrip("\n").removesuffix(" (deleted)")
            if number >= _MOST_LINES:
                return


def _library(path: str, root: Path) -> Library | None:
    matched = _NAME.fullmatch(path.rpartition("/")[2])
    if matched is None or matched["stem"] not in WATCHED:
        return None
    name, suffix = matched["stem"], matched["version"] or ""
    version = _own(suffix) if name in _OWN_VERSION else _rocm(name, suffix, path)
    return Library(name, path, version, "/torch/lib/" in path, build_id(root / path.lstrip("/")))


def _own(suffix: str) -> Version:
    """``1.3.2``; a soname alone (``1``) tells no version."""
    numbers = re.findall(r"\d+", suffix)
    return tuple(map(int, numbers[:3])) if len(numbers) >= 3 else ()


def _rocm(name: str, suffix: str, path: str) -> Version:
    """ROCm's version: ``4.1.70201`` is 7.2.1; HIP's own build number (``7.2.53211``) is not."""
    numbers = [int(n) for n in re.findall(r"\d+", suffix)]
    if len(numbers) >= 3 and 60_000 <= numbers[2] < 1_000_000:
        code = numbers[2]
        found = (code // 10_000, code // 100 % 100, code % 100)
        if name != "libamdhip64" or found[:2] == (numbers[0], numbers[1]):
            return found
    folder = _ROCM_FOLDER.search(path)
    return tuple(map(int, folder.groups())) if folder else ()


def _is_about(report: Report, lib: Library, env: Mapping[str, str]) -> bool:
    if lib.name != report.library or report.path not in lib.path:
        return False
    if report.unless is not None and env.get(report.unless[0]) == report.unless[1]:
        return False
    if report.bundled:
        return lib.bundled and not lib.version
    if not (report.since or report.below):
        return True
    return bool(lib.version) and lib.version >= report.since and (not report.below or lib.version < report.below)


__all__ = ["QUEUE_SWITCH", "Known", "Library", "ProfilerBuild", "build_of", "read_profiling"]
