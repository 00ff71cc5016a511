"""What amd-smi, rocm-smi and nvidia-smi print: one or more documents, a table with a head."""

from __future__ import annotations

import json
from typing import Any

from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

SMALL = some.integers(0, 100)
COLUMNS = ["index", "name", "clocks.current.sm [MHz]", "power.draw [W]", "temperature.gpu", "utilization.gpu [%]"]


@some.composite
def amd(draw: DrawFn) -> tuple[Any, dict[str, Any]]:
    """``amd-smi metric --json`` and what it says."""
    use = draw(some.lists(SMALL | some.none(), min_size=1, max_size=4))
    gpus = [
        {
            "gpu": number,
            "usage": {"gfx_activity": "N/A" if value is None else {"value": value, "unit": "%"}},
            "power": {"socket_power": {"value": 7 * number, "unit": "W"}, "throttle_status": "N/A"},
            "clock": {"gfx_0": {"clk": {"value": 2400, "unit": "MHz"}, "max_clk": {"value": 2400, "unit": "MHz"}}},
            "temperature": {"hotspot": {"value": 60, "unit": "C"}, "mem": "N/A"},
        }
        for number, value in enumerate(use)
    ]
    said = {"gpus": len(use), "gfx_activity_pct": use, "socket_power_w": [7 * n for n in range(len(use))]}
    return {"gpu_data": gpus}, said


@some.composite
def rocm(draw: DrawFn) -> tuple[Any, dict[str, Any]]:
    """``rocm-smi -a --json`` and what it says."""
    use = draw(some.lists(SMALL, min_size=1, max_size=4))
    cards: Any = {f"card{n}": {"GPU use (%)": str(value), "Serial": "x"} for n, value in enumerate(use)}
    return cards | {"system": {"Driver version": "6.14.0"}}, {"gpus": len(use), "gfx_activity_pct": use}


@some.composite
def nvidia(draw: DrawFn) -> tuple[list[list[str]], dict[str, Any]]:
    """``nvidia-smi --query-gpu --format=csv`` and what it says."""
    use = draw(some.lists(SMALL, min_size=1, max_size=4))
    rows = [[str(n), "NVIDIA H200", "1980 MHz", f"{n}.50 W", "41", f"{value} %"] for n, value in enumerate(use)]
    return [COLUMNS, *rows], {"gpus": len(use)}


@some.composite
def samples(draw: DrawFn) -> Sample:
    """A reading that is whole, or some that are not."""
    sound = draw(some.booleans())
    if not draw(some.integers(0, 2)):
        rows, said = draw(nvidia())
        rows = rows if sound else draw(damage.spoilt_rows(rows, 5))
        data = "\n".join(", ".join(row) for row in [*rows, []]).encode("utf-8", "surrogatepass")
        return Sample({"smi.csv": data if sound else draw(damage.spoilt_bytes(data))}, said if sound else {})
    tree, said = draw(amd() | rocm())
    if sound:
        return Sample({"smi.json": json.dumps(tree, indent=1).encode()}, said)
    trees = [draw(damage.spoilt_tree(tree)) for _ in range(draw(some.integers(1, 3)))]
    data = b"\n".join(draw(damage.as_json(one)) for one in trees)
    return Sample({"smi.json": draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data})


FORMAT = Format("smi", samples(), examine)
