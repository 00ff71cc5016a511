"""Fast paths as data: one file per path, found by a folder scan (constant ``FAST_PATH``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from m3probe.schema.paths import FastPath
from m3probe.schema.shelf import scan


@cache
def fast_paths() -> Mapping[str, FastPath]:
    """Every fast path by name, sorted; loaded once, when first asked for.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    return scan(__name__, __path__, "FAST_PATH", FastPath)
