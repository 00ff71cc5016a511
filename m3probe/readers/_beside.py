"""The entry of a file that holds no kernels: a log, a benchmark's results, pages of metrics, readings of devices."""

from __future__ import annotations

from pathlib import Path

from m3probe.model.recording import EventCounts, SourceFile


def beside(
    path: Path,
    kind: str,
    role: str,
    size_bytes: int,
    *,
    cut: bool,
    in_folder: bool,
    rank: int | None = None,
    local_times: tuple[str, str] | None = None,
) -> SourceFile:
    """``role``: one of ``KERNEL_FREE``; ``cut``: it ends early; ``rank``: the one that wrote it, where it tells."""
    return SourceFile(
        path=str(path),
        kind=kind,
        role=role,
        rank=rank,
        world_size=None,
        base_time_ns=None,
        size_bytes=size_bytes,
        counts=EventCounts(truncated=cut),
        in_folder=in_folder,
        local_times=local_times,
    )
