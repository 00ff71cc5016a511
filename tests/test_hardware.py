"""Accelerator files: complete, sourced, and recognised from what trace files say of a device."""

import subprocess
import sys

import pytest

from m3probe.hardware import Accelerator, accelerators, identify


def test_the_devices_at_hand() -> None:
    assert list(accelerators()) == ["a100", "b200", "h100", "h200", "mi250x", "mi300x", "mi325x", "mi350x", "mi355x"]


@pytest.mark.parametrize("device", accelerators().values(), ids=accelerators())
def test_every_figure_has_a_source_and_a_plausible_unit(device: Accelerator) -> None:
    figures = [device.units, device.hbm_bytes, device.hbm_bytes_per_s, *device.peak_tflops.values()]
    assert all(len(figure.source) > 20 for figure in figures)
    assert 1e10 < device.hbm_bytes.value < 1e12 and 1e12 < device.hbm_bytes_per_s.value < 1e13
    assert 100 < device.units.value < 400 and all(100 < f.value < 20000 for f in device.peak_tflops.values())
    assert {"bf16", "fp16"} <= set(device.peak_tflops) and device.certain


@pytest.mark.parametrize(
    ("stem", "units", "mhz", "flops_per_clock"),
    [
        ("mi355x", 256, 2400, {"bf16": 4096, "fp8": 8192, "fp6": 16384, "fp4": 16384}),
        ("mi350x", 256, 2200, {"bf16": 4096, "fp8": 8192, "fp6": 16384, "fp4": 16384}),
        ("mi300x", 304, 2100, {"bf16": 2048, "fp8": 4096}),
        ("mi325x", 304, 2100, {"bf16": 2048, "fp8": 4096}),
        ("mi250x", 110, 1700, {"bf16": 1024}),
        ("a100", 108, 1410, {"bf16": 2048}),
    ],
)
def test_peaks_are_units_x_clock_x_rate(stem: str, units: int, mhz: int, flops_per_clock: dict[str, int]) -> None:
    device = accelerators()[stem]
    assert device.units.value == units
    for dtype, rate in flops_per_clock.items():
        assert device.peak(dtype) == pytest.approx(units * mhz * 1e6 * rate / 1e12, rel=1e-3)


# one way, in bytes per second: what a data sheet prints for both ways together, halved
LINKS = {
    "mi300x": (128e9, 7), "mi325x": (128e9, 7), "mi350x": (153.6e9, 7), "mi355x": (153.6e9, 7),
    "h100": (900e9, 0), "h200": (900e9, 0), "b200": (1.8e12, 0), "a100": (600e9, 0),
}  # fmt: skip


@pytest.mark.parametrize(("stem", "sheet"), LINKS.items(), ids=LINKS)
def test_links_are_half_of_what_the_sheet_prints_for_both_ways(stem: str, sheet: tuple[float, int]) -> None:
    device = accelerators()[stem]
    assert device.link_bytes_per_s is not None
    assert (2 * device.link_bytes_per_s.value, device.link_peers) == sheet
    assert len(device.link_bytes_per_s.source) > 20


def test_a_missing_unit_is_unknown_and_not_zero() -> None:
    assert accelerators()["a100"].peak("fp8") is None
    assert accelerators()["h200"].peak("fp4") is None
    assert accelerators()["mi300x"].peak("fp6") is None


@pytest.mark.parametrize(
    ("name", "units", "major", "minor", "warp", "expected"),
    [
        ("NVIDIA H200", 132, 9, 0, 32, "H200"),
        ("NVIDIA H100 80GB HBM3", 132, 9, 0, 32, "H100"),
        ("NVIDIA B200", 148, 10, 0, 32, "B200"),
        ("NVIDIA A100-SXM4-80GB", 108, 8, 0, 32, "A100"),
        ("AMD Instinct MI300X", 304, 9, 4, 64, "MI300X"),
        ("AMD Instinct MI325X", 304, 9, 4, 64, "MI325X"),
        ("AMD Instinct MI350X", 256, 9, 5, 64, "MI350X"),
        ("AMD Instinct MI355X", 256, 9, 5, 64, "MI355X"),
        ("AMD Instinct MI250X/MI250", 110, 9, 0, 64, "MI250X"),
    ],
)
def test_names_settle_it(name: str, units: int, major: int, minor: int, warp: int, expected: str) -> None:
    device = identify(name, units, major, minor, warp)
    assert device is not None and (device.name, device.certain) == (expected, True)


@pytest.mark.parametrize(
    ("name", "units", "major", "minor", "warp"),
    [
        ("Tesla V100-SXM2-32GB", 80, 7, 0, 32),
        ("AMD Instinct MI210", 104, 9, 0, 64),
        ("AMD Radeon Graphics", 104, 9, 0, 64),
        ("AMD Instinct MI300X", 38, 9, 4, 64),  # one partition: an eighth of the peaks
        ("NVIDIA H100 PCIe", 114, 9, 0, 32),
        ("NVIDIA H100 NVL", 132, 9, 0, 32),
        ("NVIDIA H800", 132, 9, 0, 32),
        ("NVIDIA GH200 480GB", 132, 9, 0, 32),
        ("NVIDIA GB200", 148, 10, 0, 32),
        ("NVIDIA A100-SXM4-40GB", 108, 8, 0, 32),
        ("", 0, 0, 0, 0),
    ],
)
def test_what_is_not_known_is_not_guessed(name: str, units: int, major: int, minor: int, warp: int) -> None:
    assert identify(name, units, major, minor, warp) is None


@pytest.mark.parametrize(
    ("name", "units", "major", "minor", "expected", "other"),
    [
        ("", 304, 9, 4, "MI300X", "MI325X"),
        ("", 256, 9, 5, "MI355X", "MI350X"),
        ("gfx950", 256, 9, 5, "MI355X", "MI350X"),
        ("AMD Radeon Graphics", 256, 9, 5, "MI355X", "MI350X"),
        ("gfx942:sramecc+:xnack-", 304, 9, 4, "MI300X", "MI325X"),
    ],
)
def test_without_a_name_twins_stay_uncertain(
    name: str, units: int, major: int, minor: int, expected: str, other: str
) -> None:
    device = identify(name, units, major, minor, 64)
    assert device is not None and device.name == expected and not device.certain
    assert other in device.note


def test_memory_tells_twins_apart() -> None:
    """206,141,652,992 bytes are what a nameless MI300X reports; 256 GiB can only be an MI325X."""
    mi300x = identify("", 304, 9, 4, 64, memory_bytes=206_141_652_992)
    mi325x = identify("", 304, 9, 4, 64, memory_bytes=274_857_984_000)
    assert mi300x is not None and (mi300x.name, mi300x.certain) == ("MI300X", True)
    assert mi325x is not None and (mi325x.name, mi325x.certain) == ("MI325X", True)
    assert identify("", 256, 9, 5, 64, memory_bytes=309_220_868_096) is not None
    assert identify("AMD Instinct MI300X", 304, 9, 4, 64, memory_bytes=10**9) is None


def test_one_die_of_an_mi250x_without_a_name() -> None:
    device = identify("", 110, 9, 0, 64)
    assert device is not None and device.certain and "one of the two dies" in device.note
    assert identify("gfx942", 110, 9, 0, 64) is None


def test_import_reads_no_file_and_no_toml() -> None:
    code = "import sys, m3probe.hardware as h; assert 'tomllib' not in sys.modules; assert h.accelerators()"
    subprocess.run([sys.executable, "-c", code], check=True)
