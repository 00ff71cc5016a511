"""Foreign text inside HTML and inside a script's JSON: no name of a trace may become markup or code."""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

from m3probe.present._page import middle_cut
from m3probe.present.escape import safe

MOST_CHARS = 2_000
"""Of one text on a page: a name of 100,000 characters in each of 1,000 rows would make it one of 100 MB."""

# Inside <script> only these can end it or begin a comment; as JSON's own escapes they mean the same.
_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def html(text: str) -> str:
    """``text`` for an element or a quoted attribute, what controls how text is shown spelt out."""
    return escape(safe(text), quote=True)


def shown(text: str) -> str:
    """``text`` as a page writes it: printable, and cut in the middle, with its length, where it is longer than any name."""
    spelt = safe(text)
    return spelt if len(spelt) <= MOST_CHARS else f"{middle_cut(spelt, MOST_CHARS)} ({len(text):,} characters)"


def script_json(value: Any) -> str:
    """``value`` as JSON inside ``<script type="application/json">``; ASCII alone, so that U+2028 and the like are escapes.

    A figure that is not finite becomes null: JSON has no word for it.
    """
    return json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
