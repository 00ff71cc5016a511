"""Seams of ``collectors/model_map.py``: the loaded model and its caches."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
