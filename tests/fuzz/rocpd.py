"""rocprofv3's databases in both layouts, with and without a uuid behind each table's name."""

from __future__ import annotations

import sqlite_kit as kit
from fuzz import _databases as databases
from fuzz.harness import Format, examine

SCHEMA = {"schema_version": "3"}


def layout_a(spans: databases.Spans) -> kit.Tables:
    """Times in the row."""
    tables = kit.layout_a()
    columns, (first, *_) = tables["rocpd_kernel_dispatch"]
    place = [name.strip(' "') for name in columns.split(", ")].index("start")
    rows = [(number, *first[1:place], start, end, *first[place + 2 :]) for number, (start, end) in enumerate(spans, 1)]
    return {**tables, "rocpd_kernel_dispatch": (columns, rows)}


def layout_b(spans: databases.Spans) -> kit.Tables:
    """Times in a table of their own."""
    tables = kit.layout_b()
    columns, (first, *_) = tables["rocpd_kernel_dispatch"]
    place = columns.split(", ").index("start_id")
    rows, times = [], list(tables["rocpd_timestamp"][1])
    for number, (start, end) in enumerate(spans, 1):
        ids = (5_000 - 2 * number, 5_001 - 2 * number)
        times += [(ids[0], kit.GUID, start, 0, 1), (ids[1], kit.GUID, end, 0, 1)]
        rows.append((number, *first[1:place], *ids, *first[place + 2 :]))
    return {
        **tables,
        "rocpd_timestamp": (tables["rocpd_timestamp"][0], times),
        "rocpd_kernel_dispatch": (columns, rows),
    }


def suffixed(spans: databases.Spans) -> kit.Tables:
    """As the tool writes them: a uuid behind each name."""
    return {f"{name}_0000bb02_0000_7000_8000_0000000000d4": table for name, table in layout_a(spans).items()}


FORMAT = Format(
    "rocpd",
    databases.sample(layout_a, "50_results.db", SCHEMA)
    | databases.sample(suffixed, "50_results.db", SCHEMA)
    | databases.sample(layout_b, "50_results.db", SCHEMA),
    examine,
)
