"""Prometheus' text format, one line at a time: the grammar that a live scrape and a page on disk share.

https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics adds exemplars and ``# EOF``.
"""

from __future__ import annotations

import math
import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_PAIR = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*"'
SERIES = re.compile(rf"({_NAME})(?:\{{((?:{_PAIR}(?:, ?)?)*)\}})?")
"""A name and its labels."""
SAMPLE = re.compile(rf"(({_NAME})(?:\{{((?:{_PAIR}(?:, ?)?)*)\}})?)[ \t]+(\S+)(?:[ \t]+(-?\d[\d.]*))?[ \t\r]*(?:# .*)?")
"""A series, its name, its labels, the value, and perhaps a time stamp; behind it an exemplar."""
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\.")
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
CREATED = "_created"
"""Suffix of the time at which a counter was made: never a value to add up."""


def labels_of(text: str) -> dict[str, str]:
    """What stands between the braces, escapes undone."""
    return {name: _ESCAPE.sub(lambda m: _ESCAPES.get(m[0], m[0]), value) for name, value in _LABEL.findall(text)}


def number_of(text: str | bytes) -> float | None:
    """A value; NaN and the infinities are values. None: no number."""
    try:
        # Python takes 1_000 for a number, and no exporter writes it
        return None if ("_" if isinstance(text, str) else b"_") in text else float(text)  # type: ignore[operator]
    except ValueError:
        return None


def finite(value: float) -> float | None:
    """None for what is no finite number."""
    return value if math.isfinite(value) else None
