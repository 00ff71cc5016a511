"""The collectors of this folder, loaded when a process turns out to have their role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from m3probe import collectors
from m3probe.collectors._part import Collector, Part
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
    found = scan("m3probe.collectors", collectors.__path__, "COLLECTOR", Collector)
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def parts(role: Role, probe: Probe) -> list[tuple[str, Part]]:
    """A part of each collector that works in this role."""
    return [(name, plug.make(probe)) for name, plug in all_collectors().items() if role in plug.roles]
