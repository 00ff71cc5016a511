"""Calls back when a module has been imported, without importing it.

The plugin runs in every process of vLLM, also in those that never load the worker's modules (1 to 2 s each): so seams
that must be met before the model is loaded are put on when vLLM itself imports them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Then = Callable[[ModuleType], None]


class Watch(MetaPathFinder):
    """A finder that finds nothing by itself: it stands first and adds a call to the loader that others found.

    Args:
        failed: told of an error in a callback, which never reaches the import.
    """

    def __init__(self, failed: Callable[[str, Exception], None] = lambda _module, _error: None) -> None:
        self._failed = failed
        self._then: dict[str, list[Then]] = {}
        self._inside: set[str] = set()

    def when(self, module: str, then: Then) -> None:
        """Call ``then(module)`` once it is executed; at once when it is there already."""
        found = sys.modules.get(module)
        if found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False):
            self._call(module, then, found)
            return
        self._then.setdefault(module, []).append(then)
        if self not in sys.meta_path:
            # a new list: a thread that walks through the old one must not miss a finder
            sys.meta_path = [self, *sys.meta_path]

    def remove(self) -> None:
        """Watch no further."""
        self._then.clear()
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, its loader wrapped; None for all that nobody waits for."""
        if fullname not in self._then or fullname in self._inside:
            return None
        self._inside.add(fullname)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(fullname, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Told(spec.loader, lambda module: self._arrived(fullname, module))
                    return spec  # type: ignore[no-any-return]
        finally:
            self._inside.discard(fullname)
        return None

    def _arrived(self, name: str, module: ModuleType) -> None:
        for then in self._then.pop(name, []):
            self._call(name, then, module)

    def _call(self, name: str, then: Then, module: ModuleType) -> None:
        try:
            then(module)
        except Exception as error:  # noqa: BLE001 - vLLM imports here
            self._failed(name, error)


class _Told(Loader):
    """A loader that reports when the module has run; everything else is the real loader's."""

    def __init__(self, real: Any, told: Then) -> None:
        self._real, self._told = real, told

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        # The real loader stands on the module again before it runs: inspect, pickle and torch ask it for source.
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        self._real.exec_module(module)
        self._told(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
