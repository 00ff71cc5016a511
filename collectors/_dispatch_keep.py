"""A wrapper on a function that caches keeps the cache's handles: AITER's own tools clear its tables' caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from m3probe.collectors._patch import Make

HANDLES = ("cache_clear", "cache_info", "cache_parameters")


def keeping_cache(make: Make) -> Make:
    """``make``, and the handles of a ``functools.lru_cache`` where the original has them."""

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        wrapper = make(original)
        for handle in HANDLES:
            found = getattr(original, handle, None)
            if found is not None:
                setattr(wrapper, handle, found)
        return wrapper

    return made
