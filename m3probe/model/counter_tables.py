"""Hardware counters of single dispatches (rocprofiler-compute, rocprofv3): a row for each dispatch, one for each value.

Counting makes kernels run one at a time, and several times where the counters need several passes: these dispatches are
no rows of ``kernels``, and their times are no serving times.
"""

from __future__ import annotations

from dataclasses import dataclass

COUNTER_TABLES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "counted": (
        ("file", "int32", "id", "index into Recording.files"),
        ("dispatch", "int64", "id", "as the tool numbers it: unique in one process"),
        ("name", "int32", "string id", "kernel, as stored"),
        ("agent", "int32", "string id", "its device as the format labels it; -1: not told"),
        ("pid", "int64", "id", "process that launched it; of several passes the first"),
        ("groups", "int64", "workgroups", "launch grid, all axes multiplied"),
        ("group_items", "int64", "work-items", "of one workgroup"),
        ("vgprs", "int64", "registers", "architected vector registers of a lane"),
        ("accum_vgprs", "int64", "registers", "accumulation vector registers of a lane"),
        ("sgprs", "int64", "registers", "scalar registers of a wave"),
        ("lds_bytes", "int64", "bytes", "local memory of a workgroup"),
        ("scratch_bytes", "int64", "bytes", "of a work-item"),
        ("time_ns", "int64", "ns", "in the first run that wrote one; no serving time"),
    ),
    "counter_values": (
        ("counted", "int32", "row of counted", "the dispatch"),
        ("counter", "int32", "string id", "as the tool names it"),
        ("value", "float64", "", "as the tool wrote it"),
        ("time_ns", "int64", "ns", "of the dispatch in the run that counted this; no serving time"),
    ),
}


@dataclass(frozen=True, slots=True)
class CounterHost:
    """What a file of counters says of its device; None or "" is not told.

    Args:
        file: the files of counters that it holds for, an index into ``Recording.files``.
        gfx: LLVM target (``gfx950``).
        product: marketing name, as written.
        units: compute units of one device, or of one partition of it.
        rocm: release.
    """

    file: int
    gfx: str = ""
    product: str = ""
    units: int | None = None
    wave_size: int | None = None
    compute_partition: str = ""
    memory_partition: str = ""
    rocm: str = ""
