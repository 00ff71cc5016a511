"""A server in another container: never touched from outside; the line that goes inside is told instead.

Its socket, its recording's folder and its pids have other names there; what looks like one process may be another.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from m3probe.attach import proc as processes

_ID = re.compile(r"(?:docker[-/]|cri-containerd-|crio-|libpod-|containerd[-/]|/kubepods[^\n]*/)([0-9a-f]{64})")
_POD = "/kubepods"
KINDS = ("pid", "mnt")


def other_namespaces(pid: int, proc: Path = processes.PROC) -> tuple[str, ...]:
    """Which of its namespaces are not this process's; one that may not be read is not counted."""
    pairs = ((kind, processes.namespace("self", kind, proc), processes.namespace(pid, kind, proc)) for kind in KINDS)
    return tuple(kind for kind, own, other in pairs if own and other and own != other)


def container_id(cgroup: str) -> str:
    """The container's 64 digits in ``/proc/PID/cgroup``; empty where it does not name one."""
    found = _ID.search(cgroup)
    return found[1] if found else ""


def way_in(cgroup: str, environ: Mapping[str, str], inner_pid: int, words: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The exact lines that run ``m3probe attach`` beside the server, best first.

    Args:
        cgroup: ``/proc/PID/cgroup`` of the server.
        environ: its environment: in a pod ``HOSTNAME`` is the pod's name.
        inner_pid: its pid inside.
        words: options given to ``attach``.
    """
    attach = shlex.join(["m3probe", "attach", str(inner_pid), *words])
    container = container_id(cgroup)
    if _POD in cgroup or "KUBERNETES_SERVICE_HOST" in environ:
        pod = shlex.quote(environ.get("HOSTNAME", "")) if environ.get("HOSTNAME") else "POD"
        debug = f"kubectl debug -it {pod} --image=busybox --target=CONTAINER --profile=sysadmin"
        return (
            f"kubectl exec -it {pod} -- {attach}",
            f"{debug} -- nsenter -t {inner_pid} -m -- {attach}",
        )
    tool = "podman" if "libpod" in cgroup else "docker"
    return (f"{tool} exec -it {container[:12] or 'CONTAINER'} {attach}",)
