"""The collectors of this folder, loaded when a process turns out to have their role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from m3probe import collectors
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import in_words
from m3probe.collectors._seams import life
from m3probe.schema.roles import Role
from m3probe.schema.shelf import scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from m3probe.collectors._probe import Probe

LASTING = frozenset(life.SEAMS)
"""Seams that stay hooked while nothing is recorded: they run once, at start-up."""


def all_collectors() -> Mapping[str, Collector]:
    """Every collector by name, in the order in which their parts are called."""
    return _in_order(scan("m3probe.collectors", collectors.__path__, "COLLECTOR", Collector))


def parts(role: Role, probe: Probe) -> list[tuple[str, Part]]:
    """A part of each collector that works in this role; one that cannot be loaded is told and left out."""

    def fault(name: str, error: Exception) -> None:
        probe.note("part_failed", f"{name}: {in_words(error)}", lossy=True, about=name)

    made = []
    plugs = scan("m3probe.collectors", collectors.__path__, "COLLECTOR", Collector, fault)
    for name, plug in _in_order(plugs).items():
        if role in plug.roles:
            try:
                part = plug.make(probe)
                part.role = role
                made.append((name, part))
            except Exception as error:  # noqa: BLE001 - the other collectors work on
                fault(name, error)
    return made


def _in_order(plugs: Mapping[str, Collector]) -> dict[str, Collector]:
    return dict(sorted(plugs.items(), key=lambda item: (item[1].order, item[0])))
