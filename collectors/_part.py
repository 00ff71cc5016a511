"""What a collector is: one file, one constant ``COLLECTOR``, one class that watches one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from m3probe.schema import control
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe


class Part:
    """A collector at work in one process; every method may be left out, none may raise.

    Order of calls: ``early`` (a worker is about to build its model; of other roles only ``__init__`` has run), ``loaded`` (the worker has its model; the engine its scheduler; the API server its client), ``captured``
    (KV caches are allocated, warm-up and graph capture are over), then ``arm``, ``tick`` each second, ``disarm``. A probe
    that comes late calls ``loaded`` and ``captured`` in one breath, with ``probe.late`` set.
    Facts of ``loaded`` and ``captured`` go to ``probe.ledger``; facts of ``arm`` and ``tick`` to ``probe.put``.
    """

    role = Role.UNKNOWN
    """For which of its collector's roles this part was made."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def early(self) -> None:
        """The host is there, its model is not: hooks of what the loading calls (``probe.hook_when_loaded``)."""

    def loaded(self) -> None:
        """Model, scheduler or client are there: look once."""

    def captured(self) -> None:
        """Caches are allocated and graphs are captured."""

    def arm(self) -> None:
        """Recording begins: put the hooks on."""

    def tick(self) -> None:
        """Once a second, in the writer's thread: turn what was counted into records."""

    def disarm(self) -> None:
        """Recording has ended; the probe takes the hooks off."""

    def ask(self, message: control.Ask) -> control.Answer | None:
        """Carry a request out that belongs to this part; None when it does not. In the control thread."""


@dataclass(frozen=True, slots=True)
class Collector:
    """A plug of ``collectors/``.

    Args:
        title: what it watches, in words.
        roles: processes in which it works.
        make: builds it for one process.
        seams: ids of ``_seams.SEAMS`` that it stands on.
        order: parts are called in this order.
    """

    title: str
    roles: tuple[Role, ...]
    make: Callable[[Probe], Part]
    seams: tuple[str, ...] = ()
    order: int = 50
