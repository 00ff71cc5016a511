"""Seams of ``collectors/dispatch.py``: branches of fast paths."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
