"""Ways of getting into a running Python process, and what each needs: one or two lines for each that does not work.

m3probe itself uses the ``vllm.general_plugins`` entry point and, on request, injection by hypno. ``sys.remote_exec``
(Python 3.14) is a later way that is described and not used; py-spy and asyncio's debug mode are what others try.
"""

from __future__ import annotations

from dataclasses import dataclass

PLUGIN = "install m3probe in the server's environment: vLLM loads it at the next start (vllm.general_plugins)"
_REMOTE = "sys.remote_exec"
_FIRST_REMOTE = (3, 14)


@dataclass(frozen=True, slots=True)
class Situation:
    """Who wants to get into what; None or empty: not known, or of no matter to the method."""

    method: str
    target_python: str = ""
    tool_python: str = ""
    ptrace: bool | None = None
    script_readable_by_target: bool | None = None
    target_libc: str = ""
    start_method: str = ""
    vllm: str = ""
    worker_state: str = ""
    target: str = ""
    event_loop: str = ""


def advice(situation: Situation) -> str:
    """What stands in the way and what to do, most basic reason first; starts with ``works`` where nothing does."""
    for rule in (_target, _right, _libc, _remote_exec, _start, _loop):
        said = rule(situation)
        if said:
            return said
    return "works; what is hooked is told by each process itself, and no other is called hooked"


def _target(s: Situation) -> str:
    if s.worker_state == "Z":
        return "skipped: the worker is a zombie (ended, not waited for by its parent); the others go on"
    if s.target.startswith("gone"):
        return "named: it was gone between list and attach; the others go on"
    return ""


def _right(s: Situation) -> str:
    if s.ptrace is False:
        return f"{s.method} needs ptrace: SYS_PTRACE is not effective here, or ptrace_scope forbids it; or {PLUGIN}"
    return ""


def _libc(s: Situation) -> str:
    if s.target_libc == "musl" and s.method in {"py-spy", "hypno"}:
        return f"{s.method} is built for glibc and the target runs on musl: not tried; {PLUGIN}"
    return ""


def _remote_exec(s: Situation) -> str:
    if s.method != _REMOTE:
        return ""
    if _version(s.target_python) < _FIRST_REMOTE:
        return f"{_REMOTE} needs Python 3.14 on both sides, and the target runs {s.target_python}; {PLUGIN}"
    if _version(s.target_python) != _version(s.tool_python):
        return f"{_REMOTE}: the versions must match, and the tool runs {s.tool_python}, the target {s.target_python}"
    if s.script_readable_by_target is False:
        return f"{_REMOTE}: the target cannot read the script file (a temporary file of root is 0600): chmod it to 0644"
    return f"works: {_REMOTE} with 3.14 on both sides. m3probe does not use it yet"


def _start(s: Situation) -> str:
    told = {
        ("spawn", "patch in parent"): (
            "a patch made in the parent is not in EngineCore and the workers: they start anew. "
            f"The hook must load there too; {PLUGIN}; m3probe says which processes have it"
        ),
        ("fork", "vllm.general_plugins"): (
            "it may be absent in forked workers (vLLM before 0.12 did not load plugins there): "
            "verified for each pid, not assumed"
        ),
        ("forkserver", "preload or sys.path hook"): (
            "set PYTHONPATH before the fork server starts: its children inherit what it had then; "
            "verified for each pid, not assumed"
        ),
    }
    return told.get((s.start_method, s.method), "")


def _loop(s: Situation) -> str:
    if s.method != "asyncio debug mode":
        return ""
    return (
        "never switched on: asyncio's debug mode under uvloop on Python 3.13 is a known crash; "
        f"a loop of {s.event_loop or 'asyncio'} is found through {s.event_loop or 'asyncio'} itself"
        + (", not through asyncio's policy" if s.event_loop == "uvloop" else "")
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
