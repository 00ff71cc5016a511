"""Whether a server's log can be of the server that was recorded: what both say and do not agree on."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.model.recording import Recording
from m3probe.model.server_log import ServerLog


def contradictions(log: ServerLog, rec: Recording) -> tuple[str, ...]:
    """One sentence each: versions, and sizes of the world. Empty: nothing speaks against it."""
    return (*_versions(log, rec), *_worlds(log, rec))


def _versions(log: ServerLog, rec: Recording) -> Iterator[str]:
    for name in ("vllm_version", "vllm"):
        ran = rec.meta.versions.get(name, "")
        if ran and log.version and _release(ran) != _release(log.version):
            yield f"the log is of vLLM {log.version}, the recording of vLLM {ran}"
            return


def _release(version: str) -> str:
    return version.partition("+")[0]


def _worlds(log: ServerLog, rec: Recording) -> Iterator[str]:
    """A data-parallel replica has a world of its own for dense models, and shares one for experts."""
    config = log.config or {}
    sizes = [config.get(f"{name}_parallel_size") for name in ("tensor", "pipeline", "data")]
    tp, pp, dp = (size if isinstance(size, int) and size > 0 else None for size in sizes)
    seen = max((f.world_size or 0 for f in rec.files), default=0)
    if tp is None or pp is None or not seen:
        return
    if seen not in {tp * pp, tp * pp * (dp or 1)}:
        yield f"the log is of TP{tp} PP{pp} DP{dp or 1}, the recording of a world of {seen:,}"
