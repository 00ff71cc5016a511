"""Readers of single rules, by group; each takes a tree and gives a value with its place, or raises Absent or Moved.

``Absent`` is said only where the code that would use a thing does not speak of it by a wide word either: a function
that was renamed has moved, and a moved rule is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from m3probe.vllm_source.rules import (
    attention,
    cache,
    cli,
    communication,
    draft,
    experts,
    fse,
    fused_norm,
    graphs,
    index,
    linear,
    monokernel,
    quick_reduce,
    registry,
    router,
    runner,
)
from m3probe.vllm_source.tree import Found, Tree

Reader = Callable[[Tree], Found]

_GROUPS = (
    attention,
    cache,
    cli,
    communication,
    draft,
    experts,
    fse,
    fused_norm,
    graphs,
    index,
    linear,
    monokernel,
    quick_reduce,
    registry,
    router,
    runner,
)
READERS: Mapping[str, Reader] = MappingProxyType(
    {name: read for group in _GROUPS for name, read in group.READERS.items()}
)
