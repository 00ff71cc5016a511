"""Seams of ``collectors/kernels.py``: profiler windows and graph census."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
