"""Puts wrappers on attributes of vLLM and gives the same objects back.

A wrapper calls vLLM first, or last, and never lets an error of ours through; after ``undo`` a wrapper that somebody still
holds is transparent.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""original -> wrapper"""

_MISSING = object()


@dataclass(slots=True, eq=False)
class Patch:
    """One attribute that was replaced. ``before``: what stood in the owner's own dict, or nothing (inherited).

    ``copies``: modules that may bind ``ours`` by ``from X import f`` while it stands, as ``module:name``.
    """

    seam: str
    owner: Any
    name: str
    before: Any
    ours: Any
    copies: tuple[str, ...] = ()


@dataclass(slots=True)
class Patches:
    """All attributes that were replaced in this process, in order."""

    failed: Counter[str] = field(default_factory=Counter)
    """Errors of our own hooks by seam: none of them reached vLLM."""
    said: dict[str, str] = field(default_factory=dict)
    """The first error of each seam, in words."""
    standing: list[Patch] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _switches: dict[str, list[bool]] = field(default_factory=dict)

    def put(self, seam: str, owner: Any, name: str, make: Make, copies: tuple[str, ...] = ()) -> Patch | None:
        """Wrap ``owner.name``; None where it is not there, is no callable or cannot be set (a C type, slots)."""
        before = _own(owner, name)
        found = before if before is not _MISSING else inspect.getattr_static(owner, name, None)
        inner, rewrap = _unwrapped(found)
        if not isinstance(owner, type) and not inspect.ismodule(owner) and before is _MISSING and found is not None:
            inner, rewrap = getattr(owner, name), _as_it_is  # bound: an instance's own attribute is called without self
        if not callable(inner):
            return None
        ours = rewrap(functools.wraps(inner)(make(inner)))
        patch = Patch(seam, owner, name, before, ours, copies)
        with self.lock:
            try:
                setattr(owner, name, ours)
            except (AttributeError, TypeError):
                return None
            self.standing.append(patch)
        return patch

    def undo(self, only: Callable[[Patch], bool] = lambda _patch: True) -> tuple[str, ...]:
        """Give attributes back, last first; names of those that somebody else has replaced meanwhile."""
        left: list[str] = []
        with self.lock:
            for patch in reversed([p for p in self.standing if only(p)]):
                self.standing.remove(patch)
                if not self._given_back(patch):
                    left.append(f"{_said(patch.owner)}.{patch.name}")
                _give_copies_back(patch)
                if not any(p.seam == patch.seam for p in self.standing):
                    self._switches.pop(patch.seam, []).clear()
        return tuple(left)

    def switch(self, seam: str) -> list[bool]:
        """True (not empty) until the last patch of ``seam`` is undone; wrappers made later get a new one."""
        return self._switches.setdefault(seam, [True])

    def fault(self, seam: str, error: Exception) -> None:
        """Count an error of our own."""
        self.failed[seam] += 1
        if seam not in self.said:
            self.said[seam] = in_words(error)

    def forked(self, lasting: Callable[[Patch], bool]) -> None:
        """In a forked child: the lock may be held by a thread that is not here; hooks of the parent's recording come off."""
        self.lock = threading.RLock()
        self.failed.clear()
        self.said.clear()
        self.undo(lambda patch: not lasting(patch))

    def _given_back(self, patch: Patch) -> bool:
        above = next((p for p in self.standing if p.before is patch.ours), None)
        if above is not None:
            above.before = patch.before  # a wrapper of ours stands on this one: what it gives back changes
            return True
        if _own(patch.owner, patch.name) is not patch.ours:
            return False
        try:
            _set(patch.owner, patch.name, patch.before)
        except (AttributeError, TypeError):
            return False
        return True


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
    fault, on = patches.fault, patches.switch(seam)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not on:
                return original(*args, **kwargs)
            token = None
            if before is not None:
                try:
                    token = before(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - a guest never raises into its host
                    fault(seam, error)
            result = original(*args, **kwargs)
            if after is not None:
                try:
                    after(token, result, *args, **kwargs)
                except Exception as error:  # noqa: BLE001 - as above
                    fault(seam, error)
            return result

        return _untraced(original, wrapper) if traced else wrapper

    return make


def in_words(error: BaseException) -> str:
    """Type and text; an error whose text raises has its type."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - it is somebody else's __str__
        return type(error).__name__


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
    return found, _as_it_is


def _as_it_is(made: Any) -> Any:
    return made


def _set(owner: Any, name: str, value: Any) -> None:
    if value is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _give_copies_back(patch: Patch) -> None:
    """What other modules bound of the wrapper while it stood; a copy that is not listed stays, and is transparent."""
    for place in patch.copies:
        module, _, name = place.partition(":")
        held = sys.modules.get(module)
        if held is not None and vars(held).get(name) is patch.ours and patch.before is not _MISSING:
            setattr(held, name, patch.before)


def _said(owner: Any) -> str:
    kind = owner if isinstance(owner, type) or inspect.ismodule(owner) else type(owner)
    return str(getattr(kind, "__qualname__", getattr(kind, "__name__", kind)))
