"""Seams of ``collectors/model_map.py``: none is hooked; attributes that the walk reads, for the compatibility table."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
