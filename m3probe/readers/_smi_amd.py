"""One GPU's object of ``amd-smi metric``, ``static`` or ``list``, and one card of ``rocm-smi``, as a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from m3probe.readers._smi_rows import Sample
from m3probe.readers._smi_values import NAN, at, first, known, number, text

Json = Mapping[str, Any]
_ACTIVE = "ACTIVE"


def of_gpu(said: Json, reading: int, at_ns: int) -> Sample | None:
    """An entry of amd-smi; None for one that is no GPU."""
    gpu = said.get("gpu")
    if isinstance(gpu, bool) or not isinstance(gpu, int) or not 0 <= gpu < 2**31:
        return None
    reasons, held = _throttle(said)
    figures = {
        "busy_pct": number(at(said, "usage", "gfx_activity")),
        "memory_busy_pct": number(at(said, "usage", "umc_activity")),
        "clock_mhz": min(_clocks(said, "gfx", "clk"), default=NAN),
        "clock_max_mhz": max(_clocks(said, "gfx", "max_clk"), default=NAN),
        "memory_clock_mhz": max(_clocks(said, "mem", "clk"), default=NAN),
        "power_w": first(number(at(said, "power", "socket_power")), number(at(said, "power", "average_socket_power"))),
        "cap_w": _cap(said, "socket_power", "socket_power_limit"),
        "cap_max_w": _cap(said, "max_power", "max_power_limit"),
        "edge_c": number(at(said, "temperature", "edge")),
        "junction_c": first(number(at(said, "temperature", "hotspot")), number(at(said, "temperature", "junction"))),
        "memory_c": number(at(said, "temperature", "mem")),
        "used_mb": number(at(said, "mem_usage", "used_vram")),
        "total_mb": first(number(at(said, "mem_usage", "total_vram")), number(at(said, "vram", "size"))),
        "throttled": held,
        "ecc_corrected": number(at(said, "ecc", "total_correctable_count")),
        "ecc_uncorrected": number(at(said, "ecc", "total_uncorrectable_count")),
        "xgmi_errors": _links(said.get("xgmi_err")),
        "pcie_replays": number(at(said, "pcie", "replay_count")),
    }
    words = {
        "name": text(at(said, "asic", "market_name")),
        "bdf": text(said.get("bdf")) or text(at(said, "bus", "bdf")),
        "throttle": reasons,
        "partition": _partition(at(said, "partition")),
    }
    return Sample(gpu, reading, at_ns, figures, words)


def _clocks(said: Json, kind: str, key: str) -> Iterator[float]:
    """Each die has its own: gfx_0 to gfx_7; one that sleeps has none."""
    clocks = said.get("clock")
    for name, clock in clocks.items() if isinstance(clocks, Mapping) else ():
        if str(name).startswith(f"{kind}_"):
            value = number(at(clock, key))
            if known(value):
                yield value


def _cap(said: Json, old: str, new: str) -> float:
    return first(number(at(said, "limit", old)), number(at(said, "limit", "ppt0", new)))


def _throttle(said: Json) -> tuple[str, float]:
    """(reasons that are active, 1 or 0; NaN where nothing is told)."""
    status = text(at(said, "power", "throttle_status")).upper()
    group = said.get("throttle")
    told = {
        str(key).removesuffix("_violation_status"): value.strip().upper()
        for key, value in (group.items() if isinstance(group, Mapping) else ())
        if str(key).endswith("_violation_status") and isinstance(value, str) and text(value)
    }
    active = [name for name, value in told.items() if value in {_ACTIVE, "TRUE"}]
    if active or status == "THROTTLED":
        return ", ".join(active)[:200], 1.0
    return "", 0.0 if told or status == "UNTHROTTLED" else NAN


def _links(value: Any) -> float:
    """A count, or a word of the driver's."""
    counted = number(value)
    if known(counted):
        return counted
    word = text(value).upper()
    if not word:
        return NAN
    return 0.0 if "NO_ERROR" in word or word == "NO ERRORS" else 1.0


def _partition(said: Any) -> str:
    compute = text(at(said, "accelerator_partition")) or text(at(said, "compute_partition"))
    return "/".join(word for word in (compute, text(at(said, "memory_partition"))) if word)


def of_card(card: int, said: Json) -> Sample:
    """A card of rocm-smi: all values are text, and units stand in the key."""
    used, total = (number(said.get(f"VRAM Total {word}Memory (B)")) * 1e-6 for word in ("Used ", ""))
    figures = {
        "busy_pct": number(said.get("GPU use (%)")),
        "memory_busy_pct": number(said.get("GPU Memory Read/Write Activity (%)")),
        "clock_mhz": number(said.get("sclk clock speed:")),
        "memory_clock_mhz": number(said.get("mclk clock speed:")),
        "power_w": first(
            number(said.get("Average Graphics Package Power (W)")),
            number(said.get("Current Socket Graphics Package Power (W)")),
        ),
        "cap_w": number(said.get("Max Graphics Package Power (W)")),
        "edge_c": number(said.get("Temperature (Sensor edge) (C)")),
        "junction_c": number(said.get("Temperature (Sensor junction) (C)")),
        "memory_c": number(said.get("Temperature (Sensor memory) (C)")),
        "used_mb": used,
        "total_mb": total,
        "pcie_replays": number(said.get("PCIe Replay Count")),
    }
    partition = "/".join(w for w in (text(said.get("Compute Partition")), text(said.get("Memory Partition"))) if w)
    words = {"name": text(said.get("Card Series") or said.get("Card series")), "bdf": text(said.get("PCI Bus"))}
    return Sample(card, 0, -1, figures, words | {"partition": partition})
