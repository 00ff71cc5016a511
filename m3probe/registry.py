"""Shelves: finds plugs by a folder scan and loads one when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
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
            next_move="Run pip install . and then the m3probe command; in the root of a clone start python -P, so that the "
            "folder there does not hide the installed package",
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
        return self._named(self._foreign())

    def load(self, name: str) -> P | None:
        """The plug called ``name``; None when the file is a helper of the room and holds none.

        Raises:
            M3ProbeError: the plug does not load, or its constant is of another type.
        """
        return self._loaded(name, self._foreign())

    def plugs(self) -> Iterator[tuple[str, P]]:
        """Every plug with its name."""
        # Asked once for all: the files of every package that is installed are read for it, 15 ms where there are 110.
        foreign = self._foreign()
        for name in self._named(foreign):
            plug = self._loaded(name, foreign)
            if plug is not None:
                yield name, plug

    def _foreign(self) -> dict[str, EntryPoint]:
        """Published by other packages; of two with one name the first."""
        return {point.name: point for point in reversed(tuple(entry_points(group=self.package)))}

    def _named(self, foreign: Mapping[str, EntryPoint]) -> tuple[str, ...]:
        found = room(self.package)
        files = [m.name for m in pkgutil.iter_modules(found.__path__) if not m.name.startswith("_")]
        return tuple(sorted({*files, *foreign}))

    def _loaded(self, name: str, foreign: Mapping[str, EntryPoint]) -> P | None:
        if name in foreign:
            plug = foreign[name].load()
        else:
            try:
                module = importlib.import_module(f"{self.package}.{name}")
            except ModuleNotFoundError as error:
                raise M3ProbeError(f"no plug {name!r} on the shelf {self.package}") from error
            plug = getattr(module, self.constant, None)
        if plug is not None and not isinstance(plug, self.kind):
            raise M3ProbeError(f"{self.package}.{name}.{self.constant} is no {self.kind.__name__}")
        return plug
