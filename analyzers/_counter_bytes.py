"""Bytes beyond the L2 from the L2's request counters, for each architecture.

Read in rocprofiler-compute (ROCm/rocm-systems, ``analysis_configs/gfx*/1700_l2_cache.yaml``): gfx90a at 07981d4, gfx942's
128-byte term (``TCC_BUBBLE``) at 10d7b26, gfx950 at 019e04c, which replaced that term by counters of each size (commit
aa5dfb9, release 3.5.0 of ROCm 7.12). On gfx950 ``TCC_BUBBLE`` counts no 128-byte read: AMD's own MI350 copy of 8,388,608 B
has 65,612 read requests and 0 bubbles, 8,398,336 B at 128 B each, and half of what it must read at 64 B. A gfx950 file
of an older release has no counter of each size: then bytes are known to a factor of two, and both ends are told.

The requests leave the L2 for the fabric: the Infinity Cache may serve them, another GPU or the host too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_EA, _EA0 = "TCC_EA_", "TCC_EA0_"
"""gfx908 and gfx90a have the first prefix, gfx942 and gfx950 the second."""
_HAS_BUBBLES = ("gfx940", "gfx941", "gfx942")
_FETCH, _WRITE = ("FETCH_SIZE", "FetchSize"), ("WRITE_SIZE", "WriteSize")
_KIB = 1024
READS = (
    *(f"{prefix}RDREQ{size}_sum" for prefix in (_EA0, _EA) for size in ("", "_32B", "_64B", "_128B", "_DRAM")),
    "TCC_BUBBLE_sum",
    *_FETCH,
)
WRITES = (*(f"{prefix}WRREQ{size}_sum" for prefix in (_EA0, _EA) for size in ("", "_64B")), *_WRITE)


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes between two ends, equal where they are known; ``how``: the terms with their numbers."""

    low: float
    high: float
    how: str

    @property
    def exact(self) -> bool:
        """Whether the counters leave no size open."""
        return self.low == self.high


def read_bytes(mean: Mapping[str, float], gfx: str) -> Moved | None:
    """Bytes that the L2 fetched; None without a counter that tells.

    Args:
        mean: counter -> its value for one dispatch.
        gfx: LLVM target, "" where not known.
    """
    for prefix in (_EA0, _EA):
        found = _requests(mean, prefix, gfx)
        if found is not None:
            return found
    size = next((mean[name] for name in _FETCH if name in mean), None)
    if size is None:
        return None
    low = _KIB * size
    # rocprofv3's own sum has the same 128-byte term: on gfx950, or where the target is not told, it may be half
    high = low if gfx.startswith(("gfx90", "gfx94")) else 2 * low
    return Moved(low, high, f"FETCH_SIZE {_n(size)} KiB" + _open(low, high))


def _requests(mean: Mapping[str, float], prefix: str, gfx: str) -> Moved | None:
    every, r32, r64, r128 = (mean.get(f"{prefix}RDREQ{size}_sum") for size in ("", "_32B", "_64B", "_128B"))
    if r64 is not None and r128 is not None and r32 is not None:
        total = 32 * r32 + 64 * r64 + 128 * r128
        return Moved(total, total, f"128 B x {_n(r128)} + 64 B x {_n(r64)} + 32 B x {_n(r32)}")
    if every is None:
        return None
    bubbles = mean.get("TCC_BUBBLE_sum")
    if prefix == _EA0 and gfx in _HAS_BUBBLES and r32 is not None and bubbles is not None:
        rest = max(every - bubbles - r32, 0.0)
        total = 128 * bubbles + 64 * rest + 32 * r32
        return Moved(total, total, f"128 B x {_n(bubbles)} + 64 B x {_n(rest)} + 32 B x {_n(r32)}")
    largest = 64 if prefix == _EA else 128
    if r32 is None:
        return Moved(32 * every, largest * every, f"{_n(every)} requests of 32 to {largest} B")
    rest = max(every - r32, 0.0)
    low, high = 32 * r32 + 64 * rest, 32 * r32 + largest * rest
    sizes = "64 B" if largest == 64 else "64 or 128 B"
    return Moved(low, high, f"{_n(rest)} requests of {sizes}, {_n(r32)} of 32 B")


def written_bytes(mean: Mapping[str, float]) -> Moved | None:
    """Bytes that the L2 wrote, atomics among them; None without a counter that tells."""
    for prefix in (_EA0, _EA):
        every, w64 = (mean.get(f"{prefix}WRREQ{size}_sum") for size in ("", "_64B"))
        if every is None:
            continue
        if w64 is None:
            return Moved(32 * every, 64 * every, f"{_n(every)} requests of 32 or 64 B")
        rest = max(every - w64, 0.0)
        total = 64 * w64 + 32 * rest
        return Moved(total, total, f"64 B x {_n(w64)} + 32 B x {_n(rest)}")
    size = next((mean[name] for name in _WRITE if name in mean), None)
    return None if size is None else Moved(_KIB * size, _KIB * size, f"WRITE_SIZE {_n(size)} KiB")


def local_share(mean: Mapping[str, float]) -> float | None:
    """Share of the read requests that went to the device's own memory; None where not counted."""
    for prefix in (_EA0, _EA):
        every, local = mean.get(f"{prefix}RDREQ_sum"), mean.get(f"{prefix}RDREQ_DRAM_sum")
        if every and local is not None:
            return min(local / every, 1.0)  # two passes of one kernel differ by a few requests
    return None


def _n(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _open(low: float, high: float) -> str:
    return "" if low == high else " or up to twice that: it may take 128-byte reads for 64"
