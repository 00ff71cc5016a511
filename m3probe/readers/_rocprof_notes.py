"""What a user is told of rocprofv3's files, and counts that no table holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from m3probe.model.recording import Note

THREADS, GUIDS = "threads", "guids"


def ranges(path: str, found: int, steps: int) -> Iterator[Note]:
    """ROCTX ranges of which none is a step."""
    if found and not steps:
        text = f"{found:,} ROCTX range(s), none names a step as vLLM (execute_...) or SGLang (step[...]) do: no kernel belongs to a step"
        yield Note("ranges_no_step", text, path, found)


def counted(path: str, threads: Collection[int] | None, guids: Collection[str], allocations: int) -> Iterator[Note]:
    """Facts about a sound input.

    Args:
        threads: of kernel rows; None where the table has no such column.
        guids: of the processes; "" alone where the table has no such column.
        allocations: rows of memory and scratch allocations, which no figure uses.
    """
    if threads is not None:
        yield Note(THREADS, f"{len(threads):,} thread(s) launched kernels", path, len(threads), quiet=True)
    if any(guids):
        yield Note(GUIDS, f"{len(guids):,} process(es) by Guid", path, len(guids), quiet=True)
    if allocations:
        yield Note("allocations", f"{allocations:,} allocation row(s) are in no figure", path, allocations, quiet=True)
