"""Seams of ``collectors/queues.py``: scheduler, requests and prefix cache."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
