"""Nsight Systems' SQLite export: kernels of one device and another, calls, NVTX ranges, graphs recorded as wholes."""

from __future__ import annotations

import sqlite_kit as kit
from fuzz import _databases as databases
from fuzz.harness import Format, examine


def tables(spans: databases.Spans) -> kit.Tables:
    """Kernels by turns on two devices."""
    found = kit.nsys()
    columns, rows = found["CUPTI_ACTIVITY_KIND_KERNEL"]
    made = [(start, end, *rows[number % len(rows)][2:]) for number, (start, end) in enumerate(spans)]
    return {**found, "CUPTI_ACTIVITY_KIND_KERNEL": (columns, made)}


FORMAT = Format("nsys", databases.sample(tables, "run.sqlite", {"kernel_detail": True}), examine)
