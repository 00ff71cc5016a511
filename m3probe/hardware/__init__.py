"""Accelerators' peaks: one TOML file per device in this folder, each figure with its source.

Adding a device is adding a file.  ``[sources]`` names the documents, ``[figures]`` and ``[peak_tflops]`` point
at them; ``words`` must and ``not_words`` must not occur in the device's name; ``guess_order`` says which of
several devices with equal signatures is taken when there is no name (lowest first).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

# HIP names a device without a marketing name in its driver table like this; kineto on ROCm may write nothing.
_GENERIC_NAMES = frozenset({"", "AMD RADEON GRAPHICS"})
_MEMORY_TOLERANCE = 0.06  # a device reports up to this share less than its capacity (ECC, driver reserve)


@dataclasses.dataclass(frozen=True)
class Figure:
    """One published number and the document it stands in."""

    value: float
    source: str


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """One device as the runtime lists it (an MI250X package is two), without sparsity.

    Attributes:
        gfx: LLVM target, empty for NVIDIA.
        capability: (major, minor) as device properties give it: 9, 5 is gfx95x on ROCm.
        warp_size: lanes of a wave or warp; with the capability it tells the vendors apart.
        units: compute units (AMD) or streaming multiprocessors (NVIDIA).
        hbm_bytes: capacity in bytes.
        hbm_bytes_per_s: peak memory bandwidth, bytes per second.
        peak_tflops: dense matrix peak per dtype (bf16, fp16, fp8, fp6, fp4), 1e12 operations per second.
        link_bytes_per_s: of one link to a peer, one way (``link_peers`` > 0), or of all links into a switch.
        link_peers: peers with a link of their own; 0 where a switch joins them.
        certain: False when other devices look the same from what was known; then ``note`` names them.
    """

    name: str
    vendor: str
    words: tuple[str, ...]
    not_words: tuple[str, ...]
    gfx: str
    capability: tuple[int, int]
    warp_size: int
    guess_order: int
    units: Figure
    hbm_bytes: Figure
    hbm_bytes_per_s: Figure
    peak_tflops: Mapping[str, Figure]
    link_bytes_per_s: Figure | None = None
    link_peers: int = 0
    certain: bool = True
    note: str = ""

    def peak(self, dtype: str) -> float | None:
        """Dense peak in TFLOP/s for a dtype word such as ``fp8``; None where the device has no such unit."""
        figure = self.peak_tflops.get(dtype)
        return figure.value if figure else None

    def link_rate(self, ranks: int) -> float | None:
        """What one of ``ranks`` devices of a node sends to the others, one way, in bytes per second; None if unknown."""
        if self.link_bytes_per_s is None or ranks < 2:
            return None
        return self.link_bytes_per_s.value * (min(ranks - 1, self.link_peers) if self.link_peers else 1)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """All known devices by file name (``mi355x``), read once from the package's TOML files."""
    import tomllib
    from importlib.resources import files

    found = {
        entry.name.removesuffix(".toml"): _accelerator(tomllib.loads(entry.read_text(encoding="utf-8")))
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".toml")
    }
    return MappingProxyType(dict(sorted(found.items())))


def _accelerator(data: Mapping[str, Any]) -> Accelerator:
    def figure(raw: Mapping[str, Any]) -> Figure:
        return Figure(raw["value"], data["sources"][raw["source"]])

    figures, peaks, links = data["figures"], data["peak_tflops"], data.get("links", {})
    major, minor = data["capability"]
    return Accelerator(
        name=data["name"],
        vendor=data["vendor"],
        words=tuple(data["words"]),
        not_words=tuple(data.get("not_words", ())),
        gfx=data["gfx"],
        capability=(major, minor),
        warp_size=data["warp_size"],
        guess_order=data["guess_order"],
        units=figure(figures["units"]),
        hbm_bytes=figure(figures["hbm_bytes"]),
        hbm_bytes_per_s=figure(figures["hbm_bytes_per_s"]),
        peak_tflops=MappingProxyType({dtype: figure(raw) for dtype, raw in peaks.items()}),
        link_bytes_per_s=figure(links["bytes_per_s"]) if links else None,
        link_peers=links.get("peers", 0),
        note=data.get("note", ""),
    )


def identify(
    name: str,
    num_units: int,
    compute_major: int,
    compute_minor: int,
    warp_size: int,
    *,
    memory_bytes: int = 0,
) -> Accelerator | None:
    """The device that these properties describe, or None: a guess at another device's peaks is worth nothing.

    The number of units must agree, so a partition of an MI300X or a PCIe board is None.  Without a telling name
    (empty, a gfx target, ``AMD Radeon Graphics``) the signature of capability, units and warp size decides, and
    devices that share it are told apart by memory where that is given; else ``certain`` is False.

    Args:
        name: device name as reported, or empty.
        num_units: compute units or streaming multiprocessors.
        compute_major: first part of the compute capability.
        compute_minor: second part.
        warp_size: 32 or 64.
        memory_bytes: total memory as reported, 0 when unknown.
    """
    capability = (compute_major, compute_minor)
    alike = [
        a
        for a in accelerators().values()
        if a.capability == capability and a.warp_size == warp_size and a.units.value == num_units
    ]
    if not _is_untold(name):
        alike = [a for a in alike if _named(a, name)]
    elif name.startswith("gfx"):
        alike = [a for a in alike if a.gfx == name.split(":", 1)[0]]
    if memory_bytes:
        alike = [a for a in alike if _has_memory(a, memory_bytes)]
    ranked = sorted(alike, key=lambda a: (a.guess_order, a.name))
    return _with_doubt(ranked) if ranked else None


def _is_untold(name: str) -> bool:
    return name.strip().upper() in _GENERIC_NAMES or name.startswith("gfx")


def _named(accelerator: Accelerator, name: str) -> bool:
    """Whole words only: GH200 and GB200 are other devices than H200 and B200."""
    said = set(re.split(r"[^A-Z0-9]+", name.upper()))
    return said.issuperset(accelerator.words) and said.isdisjoint(accelerator.not_words)


def _has_memory(accelerator: Accelerator, memory_bytes: int) -> bool:
    capacity = accelerator.hbm_bytes.value
    return capacity * (1 - _MEMORY_TOLERANCE) <= memory_bytes <= capacity


def _with_doubt(ranked: list[Accelerator]) -> Accelerator:
    first, *others = ranked
    if not others:
        return first
    names = ", ".join(other.name for other in others)
    doubt = f"figures of {first.name}; from what the file says it may as well be {names}"
    return dataclasses.replace(first, certain=False, note=f"{first.note}; {doubt}" if first.note else doubt)
