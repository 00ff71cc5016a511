"""Shelves: finds plugs by a folder scan and loads one when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar

from m3probe.errors import M3ProbeError, UsageError

P = TypeVar("P")


def room(package: str) -> ModuleType:
    """A package of m3probe, such as a shelf.

    Raises:
        UsageError: it is not there, because a source folder runs, without the rooms that lie beside it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise UsageError(
            f"the room {package} is missing: this m3probe is a source folder, not an installed copy",
            next_move="Run pip install . and then the m3probe command",
        ) from error


@dataclass(frozen=True, slots=True)
class Shelf(Generic[P]):
    """One kind of plug.

    Args:
        package: where the built-in plugs stand, one file each.
        constant: the upper-case name that a file must hold to be a plug.
        kind: the type of that constant.
    """

    package: str
    constant: str
    kind: type[P]

    def names(self) -> tuple[str, ...]:
        """Names on the shelf: files, then entry points; nothing is imported but the package.

        Raises:
            UsageError: the room is missing.
        """
        found = room(self.package)
        files = [m.name for m in pkgutil.iter_modules(found.__path__) if not m.name.startswith("_")]
        foreign = [point.name for point in entry_points(group=self.package)]
        return tuple(sorted({*files, *foreign}))

    def load(self, name: str) -> P | None:
        """The plug called ``name``; None when the file is a helper of the room and holds none.

        Raises:
            M3ProbeError: the plug does not load, or its constant is of another type.
        """
        plug = self._foreign(name)
        if plug is None:
            try:
                module = importlib.import_module(f"{self.package}.{name}")
            except ModuleNotFoundError as error:
                raise M3ProbeError(f"no plug {name!r} on the shelf {self.package}") from error
            plug = getattr(module, self.constant, None)
        if plug is not None and not isinstance(plug, self.kind):
            raise M3ProbeError(f"{self.package}.{name}.{self.constant} is no {self.kind.__name__}")
        return plug

    def _foreign(self, name: str) -> object | None:
        for point in entry_points(group=self.package):
            if point.name == name:
                return point.load()  # type: ignore[no-any-return]
        return None

    def plugs(self) -> Iterator[tuple[str, P]]:
        """Every plug with its name."""
        for name in self.names():
            plug = self.load(name)
            if plug is not None:
                yield name, plug
