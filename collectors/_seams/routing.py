"""Seams of ``collectors/routing.py``: rows per expert."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
