"""Puts wrappers on attributes of vLLM and gives the same objects back.

A wrapper calls vLLM first, or last, and never lets an error of ours through; after ``undo`` a wrapper that somebody still
holds is transparent.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""original -> wrapper"""

_MISSING = object()


@dataclass(slots=True)
class Patch:
    """One attribute that was replaced. ``before``: what stood in the owner's own dict, or nothing (inherited)."""

    seam: str
    owner: Any
    name: str
    before: Any
    ours: Any


@dataclass(slots=True)
class Patches:
    """All attributes that were replaced in this process, in order."""

    failed: Counter[str] = field(default_factory=Counter)
    """Errors of our own hooks by seam: none of them reached vLLM."""
    standing: list[Patch] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, seam: str, owner: Any, name: str, make: Make) -> Patch | None:
        """Wrap ``owner.name``; None where it is not there or is no callable."""
        before = _own(owner, name)
        found = before if before is not _MISSING else inspect.getattr_static(owner, name, None)
        inner, rewrap = _unwrapped(found)
        if not callable(inner):
            return None
        if before is _MISSING and not isinstance(owner, type):
            inner = getattr(owner, name)  # bound: an instance's own attribute is called without self
        ours = rewrap(functools.wraps(inner)(make(inner)))
        patch = Patch(seam, owner, name, before, ours)
        with self.lock:
            setattr(owner, name, ours)
            self.standing.append(patch)
        return patch

    def undo(self, only: Callable[[Patch], bool] = lambda _patch: True) -> tuple[str, ...]:
        """Give attributes back, last first; names of those that somebody else has replaced meanwhile."""
        left: list[str] = []
        with self.lock:
            for patch in reversed([p for p in self.standing if only(p)]):
                if not _give_back(patch):
                    left.append(f"{_said(patch.owner)}.{patch.name}")
                self.standing.remove(patch)
        return tuple(left)


def around(
    patches: Patches,
    seam: str,
    *,
    before: Callable[..., Any] | None = None,
    after: Callable[..., Any] | None = None,
    traced: bool = False,
) -> Make:
    """A wrapper that calls ``before(*args, **kwargs)`` and ``after(token, result, *args, **kwargs)``.

    Args:
        before: its result is ``after``'s token; it is not called for ``after`` alone.
        after: not called when vLLM's own function raised.
        traced: vLLM compiles the code around it: while Dynamo traces, neither is called (a clock in a traced hook
            stops vLLM 0.32 at start-up).
    """
    failed = patches.failed

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            token = None
            if before is not None:
                try:
                    token = before(*args, **kwargs)
                except Exception:  # noqa: BLE001 - a guest never raises into its host
                    failed[seam] += 1
            result = original(*args, **kwargs)
            if after is not None:
                try:
                    after(token, result, *args, **kwargs)
                except Exception:  # noqa: BLE001 - as above
                    failed[seam] += 1
            return result

        return _untraced(original, wrapper) if traced else wrapper

    return make


def _untraced(original: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    from torch.compiler import is_compiling

    def outer(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        return wrapper(*args, **kwargs)

    return outer


def _own(owner: Any, name: str) -> Any:
    """What stands in the owner's own dict: a class attribute is not looked up in its bases."""
    try:
        return vars(owner).get(name, _MISSING)
    except TypeError:
        return _MISSING


def _unwrapped(found: Any) -> tuple[Any, Callable[[Any], Any]]:
    if isinstance(found, staticmethod):
        return found.__func__, staticmethod
    if isinstance(found, classmethod):
        return found.__func__, classmethod
    return found, lambda made: made


def _give_back(patch: Patch) -> bool:
    if _own(patch.owner, patch.name) is not patch.ours:
        return False
    if patch.before is _MISSING:
        delattr(patch.owner, patch.name)
    else:
        setattr(patch.owner, patch.name, patch.before)
    return True


def _said(owner: Any) -> str:
    kind = owner if isinstance(owner, type) or inspect.ismodule(owner) else type(owner)
    return str(getattr(kind, "__qualname__", getattr(kind, "__name__", kind)))
