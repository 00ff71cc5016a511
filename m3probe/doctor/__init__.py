"""``m3probe doctor``: is this host ready? One file a group of checks; nothing is imported, started or changed.

A check that cannot see what it asks about (a container without /sys, another user's process) ends ``unknown``, never ``ok``.
"""

from __future__ import annotations

from m3probe.doctor import attaching, environment, host, libraries, limits, versions
from m3probe.doctor.place import Place
from m3probe.model.doctor_report import Check, DoctorReport


def examine(place: Place, concurrency: int | None = None) -> DoctorReport:
    """Every group's checks.

    Args:
        concurrency: requests at once that limits are held against; None: the room that they leave is told.
    """
    checks: list[Check] = []
    for group in (host.checks(place), limits.checks(place, concurrency), versions.checks(place)):
        checks += group
    checks += [*environment.checks(place), *libraries.checks(place), *attaching.checks(place)]
    return DoctorReport(tuple(checks), concurrency, tuple(subject.name for subject in place.subjects))


__all__ = ["Place", "examine"]
