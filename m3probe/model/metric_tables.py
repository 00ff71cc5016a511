"""Tables of metrics pages, one row a scrape and one a sample, and what is known of each file of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

METRIC_TABLES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "scrapes": (
        ("file", "int32", "id", "index into Recording.files"),
        ("page", "int32", "index", "of the scrape in its file"),
        (
            "server",
            "int32",
            "string id",
            "the file's name without what tells scrapes apart: one server's pages share it",
        ),
        ("at_ns", "int64", "ns", "wall time, from the page or the file's name; -1: neither tells"),
        ("place", "int64", "index", "order told by a number or a word in the file's name; -1: none"),
        ("mtime_ns", "int64", "ns", "wall time at which the file was last written"),
        ("started_s", "float64", "s", "process_start_time_seconds; NaN: not on the page"),
        ("created_s", "float64", "s", "the first ..._created on the page: to the microsecond one process's; NaN: none"),
        ("samples", "int64", "samples", "on the page, those that are not kept included"),
    ),
    "metrics": (
        ("scrape", "int32", "row of scrapes", "page that the sample stands on"),
        ("series", "int32", "string id", "name and labels as written"),
        ("value", "float64", "as named", "NaN and infinities as written"),
    ),
}


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """One file of pages.

    Args:
        file: index into ``Recording.files``.
        samples: whole sample lines.
        bad_lines: numbers (from 1) of the first lines that are neither sample, comment nor time; ``bad`` counts all.
        repeated: samples of a series that the page had before.
        types: metric -> type, as ``# TYPE`` says.
        cut: the file ends inside a line or a histogram.
    """

    file: int
    path: str
    pages: int
    samples: int
    bad_lines: tuple[int, ...] = ()
    bad: int = 0
    repeated: int = 0
    types: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
