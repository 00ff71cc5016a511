"""Seams of ``collectors/gates.py``: facts for correctness gates."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
