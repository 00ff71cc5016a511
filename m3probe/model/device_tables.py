"""Readings of GPUs by amd-smi, rocm-smi and nvidia-smi: one row a GPU and reading; NaN and -1 are not known, never 0."""

from __future__ import annotations

DEVICE_TABLES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "device_samples": (
        ("file", "int32", "id", "index into Recording.files"),
        ("reading", "int32", "index", "of the reading in its file"),
        ("at_ns", "int64", "ns", "time as the tool writes it, taken as UTC; -1: not written"),
        ("gpu", "int32", "index", "as the tool numbers GPUs"),
        ("name", "int32", "string id", "-1: not told"),
        ("bdf", "int32", "string id", "PCI address; -1: not told"),
        ("busy_pct", "float64", "%", "time in which some kernel ran"),
        ("memory_busy_pct", "float64", "%", "time in which memory was read or written"),
        ("clock_mhz", "float64", "MHz", "of the shader engines; of several dies the lowest"),
        ("clock_max_mhz", "float64", "MHz", "that the device may reach"),
        ("memory_clock_mhz", "float64", "MHz", "of the memory"),
        ("power_w", "float64", "W", "of the socket or the board"),
        ("cap_w", "float64", "W", "power that the device is held to"),
        ("cap_max_w", "float64", "W", "highest cap that may be set"),
        ("edge_c", "float64", "C", "temperature at the edge of the die"),
        ("junction_c", "float64", "C", "hottest place of the die; nvidia-smi: of the GPU"),
        ("memory_c", "float64", "C", "of the memory"),
        ("used_mb", "float64", "MB", "as written: MB of amd-smi, MiB of nvidia-smi"),
        ("total_mb", "float64", "MB", "as written"),
        ("throttled", "float64", "", "1: held back at this moment, 0: not; NaN: not told"),
        ("throttle", "int32", "string id", "reasons as the tool names them; -1: none or not told"),
        ("partition", "int32", "string id", "compute and memory partition: SPX/NPS1; -1: not told"),
        ("ecc_corrected", "float64", "errors", "RAS or ECC, since the counter began"),
        ("ecc_uncorrected", "float64", "errors", "RAS or ECC, since the counter began"),
        ("xgmi_errors", "float64", "errors", "1 where the tool only says that there are some"),
        ("pcie_replays", "float64", "replays", "since the counter began"),
    ),
}
FIGURES = tuple(name for name, dtype, _, _ in DEVICE_TABLES["device_samples"] if dtype == "float64")
TEXTS = ("name", "bdf", "throttle", "partition")
