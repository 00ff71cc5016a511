"""The words of ``m3probe export``."""

from __future__ import annotations

import argparse

from m3probe import _values

FORMATS = ("perfetto", "chrome", "parquet", "arrow", "csv")
"""``m3probe.exporting.FORMATS`` without importing numpy for it; a test holds them together."""


def add_export(parser: argparse.ArgumentParser) -> None:
    """Where to, and what of it."""
    parser.add_argument("--to", required=True, choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS))
    named = "file or new folder to write (default: named like the first PATH, in the current folder)"
    parser.add_argument("--out", type=_values.path, metavar="PATH", help=named)
    parser.add_argument("--force", action="store_true", help="replace a file, or a folder that an export made")
    more = "perfetto: operators and runtime calls of the host too (default: graph launches alone)"
    parser.add_argument("--host", action="store_true", help=more)
