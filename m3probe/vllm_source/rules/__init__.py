"""Readers of single rules, one file per group; each takes a tree and gives a value with its place.

``Absent`` is said only where the code that would use a thing does not speak of it by a wide word either: a function
that was renamed has moved, and a moved rule is unknown. A new group is a new file with a constant ``READERS``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import MappingProxyType

from m3probe.vllm_source.tree import Found, Tree

Reader = Callable[[Tree], Found]

_GROUPS = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
READERS: Mapping[str, Reader] = MappingProxyType(
    {rule: read for group in _GROUPS for rule, read in importlib.import_module(f"{__name__}.{group}").READERS.items()}
)
