"""Readings of amd-smi, rocm-smi and nvidia-smi: what each says, and never 0 for what it does not say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tree import ROOT

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.readers.amd_smi import sniff as amd
from m3probe.readers.nvidia_smi import sniff as nvidia
from m3probe.sources import open_recording

CASES = ROOT / "tests/data/cases"
GPU: dict[str, Any] = {
    "gpu": 3,
    "usage": {"gfx_activity": {"value": 98, "unit": "%"}, "umc_activity": "N/A"},
    "power": {"socket_power": "1180 W", "throttle_status": "N/A"},
    "clock": {
        "gfx_0": {"clk": {"value": 2400, "unit": "MHz"}, "max_clk": {"value": 2400, "unit": "MHz"}},
        "gfx_1": {"clk": {"value": 1900, "unit": "MHz"}, "max_clk": {"value": 2400, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 2.0, "unit": "GHz"}},
    },
    "temperature": {"edge": "N/A", "hotspot": {"value": 88, "unit": "C"}, "mem": {"value": 70, "unit": "C"}},
    "limit": {
        "ppt0": {"socket_power_limit": {"value": 1200, "unit": "W"}, "max_power_limit": {"value": 1400, "unit": "W"}}
    },
    "ecc": {"total_correctable_count": 2, "total_uncorrectable_count": 0},
    "xgmi_err": "N/A",
    "pcie": {"replay_count": 0},
    "throttle": {
        "ppt_violation_status": "ACTIVE",
        "hbm_thermal_violation_status": "NOT ACTIVE",
        "accumulation_counter": 7,
    },
    "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS1"},
}


def saved(tmp_path: Path, text: str, name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def row(rec: Recording, index: int = 0) -> dict[str, Any]:
    table = rec.tables["device_samples"]
    found = {name: table[name][index].item() for name in table.columns}
    return found | {name: rec.strings[found[name]] for name in ("name", "bdf", "throttle", "partition")}


@pytest.mark.parametrize("path", sorted(CASES.glob("a*.expected.json")), ids=lambda p: p.name[:3])
def test_the_facts_of_each_case(path: Path) -> None:
    wanted: dict[str, Any] = json.loads(path.read_text())
    found = pipeline.inspect(pipeline.read([CASES / wanted["case"]]))
    assert {key: found.facts.get(key) for key in wanted["facts"]} == wanted["facts"]
    assert found.outcome == wanted["outcome"]


def test_every_figure_of_amd_smi(tmp_path: Path) -> None:
    """Of several dies the slowest counts; a word of the driver's is no number."""
    got = row(open_recording([saved(tmp_path, json.dumps([GPU]))]))
    assert [got[k] for k in ("gpu", "busy_pct", "clock_mhz", "clock_max_mhz", "memory_clock_mhz")] == [
        3,
        98,
        1900,
        2400,
        2000,
    ]
    assert [got[k] for k in ("power_w", "cap_w", "cap_max_w", "junction_c", "memory_c")] == [1180, 1200, 1400, 88, 70]
    assert [got[k] for k in ("ecc_corrected", "ecc_uncorrected", "pcie_replays", "throttled")] == [2, 0, 0, 1]
    assert (got["throttle"], got["partition"]) == ("ppt", "SPX/NPS1")
    assert all(math.isnan(got[k]) for k in ("memory_busy_pct", "edge_c", "xgmi_errors", "used_mb"))


def test_a_watch_is_a_series_and_its_cut_end_is_told(tmp_path: Path) -> None:
    one = [{"timestamp": 1760000000 + i, "gpu": 0, "usage": {"gfx_activity": 10 * i}} for i in range(3)]
    text = "'CTRL' + 'C' to stop watching output:\n" + "\n".join(json.dumps([r]) for r in one) + '\n[{"gpu": 0, "us'
    rec = open_recording([saved(tmp_path, text)])
    table = rec.tables["device_samples"]
    assert table["reading"].tolist() == [0, 1, 2]
    assert table["at_ns"].tolist() == [(1760000000 + i) * 10**9 for i in range(3)]
    found = pipeline.inspect(rec)
    assert found.outcome == "partial"
    assert (found.facts["samples"], found.facts["mean_gfx_activity_pct"]) == (3, 10.0)


CSV = (
    "timestamp, index, name, utilization.gpu [%], clocks.current.sm [MHz], power.draw [W], enforced.power.limit [W], "
    "temperature.memory, memory.used [MiB], clocks_event_reasons.active, ecc.errors.uncorrected.volatile.total\n"
    "2026/11/30 09:08:19.123, 0, NVIDIA H200, 99 %, 1980 MHz, 612.50 W, 700.00 W, 71, 90000 MiB, 0x0000000000000000, 0\n"
    "2026/11/30 09:08:19.123, 1, NVIDIA H200, 98 %, 1455 MHz, 699.80 W, 700.00 W, [N/A], 90000 MiB, 0x0000000000000044, 0\n"
    "2026/11/30 09:08:20.123, 0, NVIDIA H200, 0 %, 345 MHz, 80.00 W, 700.00 W, 60, 90000 MiB, 0x0000000000000001, [N/A]\n"
)


def test_every_figure_of_nvidia_smi(tmp_path: Path) -> None:
    """Idle (bit 1) holds nothing back; 0x44 is the power cap and heat."""
    rec = open_recording([saved(tmp_path, CSV, "a.csv")])
    first, second, third = row(rec), row(rec, 1), row(rec, 2)
    assert [first[k] for k in ("busy_pct", "clock_mhz", "power_w", "cap_w", "memory_c", "throttled")] == [
        99,
        1980,
        612.5,
        700,
        71,
        0,
    ]
    assert (second["throttle"], second["throttled"]) == ("sw_power_cap, hw_thermal_slowdown", 1)
    assert math.isnan(second["memory_c"])
    assert (third["reading"], third["throttled"], first["at_ns"]) == (1, 0, 1796029699123000000)
    assert math.isnan(third["ecc_uncorrected"])


def test_a_csv_without_the_columns_says_nothing_of_them(tmp_path: Path) -> None:
    got = row(open_recording([saved(tmp_path, "index, power.draw [W], clocks.sm [MHz]\n0, 70.5, 345\n", "a.csv")]))
    assert (got["power_w"], got["clock_mhz"]) == (70.5, 345)
    assert math.isnan(got["throttled"])
    assert math.isnan(got["busy_pct"])


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", '[{"gpu": 0, "usage": {"gfx_act'), ("a.csv", "index, power.draw [W], clocks.sm [MHz]\n0, 1\n")],
)
def test_no_whole_reading_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UnreadableInput, match="no whole reading of a GPU"):
        open_recording([saved(tmp_path, text, name)])


@pytest.mark.parametrize(
    "head",
    [b'{"traceEvents": [{"gpu": 0, "usage": 1}]}', b'{"gpu": "H200", "usage": 3}', b"index,name\n", b"a, power\n", b""],
)
def test_other_files_are_not_taken(head: bytes) -> None:
    assert not amd(Path("x"), head)
    assert not nvidia(Path("x"), head)
