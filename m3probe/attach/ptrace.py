"""Whether this process may trace another one, which injection needs; read before anything is tried.

A bounding set that holds the capability gives nothing: what counts is the effective one (bit 19 of ``CapEff``).
"""

from __future__ import annotations

from pathlib import Path

from m3probe.attach import proc as processes

SYS_PTRACE = 19
ADVICE = (
    "Give it: --cap-add SYS_PTRACE (docker) or securityContext.capabilities.add: [SYS_PTRACE] (Kubernetes); "
    "for a plain user with ptrace_scope 1 only descendants can be traced"
)
_SCOPES = {
    "1": "ptrace_scope is 1: without SYS_PTRACE only descendants can be traced",
    "2": "ptrace_scope is 2: only SYS_PTRACE can trace",
}


def has_sys_ptrace(status: str) -> bool:
    """Whether ``/proc/PID/status`` shows the capability as effective."""
    return bool(_mask(status, "CapEff") >> SYS_PTRACE & 1)


def refusal(own: str, target: str, scope: str) -> str:
    """Why ptrace(2) or Yama will refuse; empty where they will not.

    Args:
        own: ``/proc/self/status``.
        target: ``/proc/PID/status`` of the server's process.
        scope: ``/proc/sys/kernel/yama/ptrace_scope``; empty where the kernel has no Yama.
    """
    if scope == "3":
        return "ptrace_scope is 3: nobody can trace until the next boot"
    if has_sys_ptrace(own):
        return ""
    if _uids(own)[:1] * 3 != _uids(target)[:3]:
        return f"it runs as uid {_first(target)}, this is uid {_first(own)} without SYS_PTRACE"
    if scope in _SCOPES:
        return _SCOPES[scope]
    if _mask(target, "CapPrm") & ~_mask(own, "CapPrm"):
        return "it has capabilities that this process has not, and this one lacks SYS_PTRACE"
    return ""


def refusal_of(pid: int, proc: Path = processes.PROC) -> str:
    """``refusal`` for a live process, from what the kernel says now."""
    try:
        scope = (proc / "sys/kernel/yama/ptrace_scope").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        scope = ""
    return refusal(processes.status_text("self", proc), processes.status_text(pid, proc), scope)


def _mask(status: str, name: str) -> int:
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            try:
                return int(value.strip(), 16)
            except ValueError:
                return 0
    return 0


def _uids(status: str) -> list[str]:
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), "")
    return line.split()[1:]


def _first(status: str) -> str:
    return (_uids(status) or ["?"])[0]
