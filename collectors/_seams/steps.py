"""Seams of ``collectors/steps.py``: steps, descriptors and replays."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
