"""What one process of a running server said of itself: who it is, and the configuration that it resolved."""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.schema.records import Config, Process


@dataclass(frozen=True, slots=True)
class Served:
    """One process's last records of both kinds. Foreign text throughout: the presenter escapes it."""

    process: Process
    config: Config
