"""What so many requests at once take of a host's limits."""

from __future__ import annotations

BASE_FDS = 128
"""Descriptors of an idle process: 25 to 117 in the bundled live recordings (API server 25 to 67, engine 70, worker 117)."""
PER_REQUEST = 2
"""A proxy holds one socket to the client and one to the server for each request."""


def descriptors_for(concurrency: int, base: int = BASE_FDS) -> int:
    """Descriptors that one process needs for so many requests at once: ``2 x concurrency + base``."""
    return PER_REQUEST * concurrency + base


def requests_within(limit: int, base: int = BASE_FDS) -> int:
    """Requests at once that a limit of descriptors leaves room for."""
    return max(limit - base, 0) // PER_REQUEST
