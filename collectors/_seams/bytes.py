"""Seams of ``collectors/bytes.py``: collectives and KV transfers."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
