"""The device that counters were read on: rocprofiler-compute's ``sysinfo.csv``, rocprofv3's ``agent_info.csv``."""

from __future__ import annotations

import re

from m3probe.model.counter_tables import CounterHost
from m3probe.readers._csv_columns import Block

_GFX = re.compile(r"gfx[0-9a-f]{3,5}")
_MOST_UNITS = 2**16


def of_sysinfo(block: Block, file: int) -> CounterHost:
    """The one row of a ``sysinfo.csv`` (rocprofiler-compute 3)."""

    def said(name: str) -> str:
        return block.texts(name)[0].strip()[:64]

    return CounterHost(
        file=file,
        gfx=_gfx(said("gpu_arch")),
        product=said("gpu_model"),
        units=_units(int(block.ints("cu_per_gpu")[0])),
        wave_size=_units(int(block.ints("wave_size")[0])),
        compute_partition=said("compute_partition"),
        memory_partition=said("memory_partition"),
        rocm=said("rocm_version"),
    )


def of_agents(block: Block, file: int) -> CounterHost | None:
    """The GPUs of an ``agent_info.csv``; None where there is none, or they differ."""
    kinds, gfx, products = (block.texts(name) for name in ("agent_type", "name", "product_name"))
    units, waves = block.ints("cu_count").tolist(), block.ints("wave_front_size").tolist()
    found = {
        CounterHost(file, _gfx(gfx[i]), products[i].strip()[:64], _units(units[i]), _units(waves[i]))
        for i, kind in enumerate(kinds)
        if kind.strip().upper() == "GPU"
    }
    return found.pop() if len(found) == 1 else None


def _gfx(text: str) -> str:
    """``gfx950`` of ``gfx950:sramecc+:xnack-`` too."""
    word = text.strip().partition(":")[0]
    return word if _GFX.fullmatch(word) else ""


def _units(number: int) -> int | None:
    return number if 0 < number < _MOST_UNITS else None
