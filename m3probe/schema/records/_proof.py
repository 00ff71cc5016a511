"""Evidence that is taken on request: kernel windows, the census, gates, recomputed modules."""

from __future__ import annotations

import msgspec

from m3probe.schema.gates import GateFacts
from m3probe.schema.records._base import Record


class Gate(Record, tag="gate"):
    """Facts for the gates of the catalogue; fields left None were not looked at."""

    facts: GateFacts
    seam: str = ""


class Kernels(Record, tag="kernels"):
    """A profiler window: ``state`` is ``done``, ``failed`` or ``refused``; ``path``: its trace, relative to the folder."""

    state: str
    path: str = ""
    first_step: int = -1
    steps: int = -1
    text: str = ""
    before_steps_per_s: float | None = None
    after_steps_per_s: float | None = None
    bytes: int = -1
    """Of the trace before compression."""
    held_ns: int = -1
    """How long the worker was held by opening, closing and writing; ``export_ns``: until the file was there."""
    export_ns: int = -1


class CensusKernel(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One kernel of a captured graph, in launch order."""

    name: str
    op: str = ""
    dims: str = ""
    types: str = ""
    grid: tuple[int, ...] = ()


class Census(Record, tag="census"):
    """What one captured graph holds; a replay runs exactly that."""

    descriptor: int
    piece: int
    kernels: tuple[CensusKernel, ...]
    source: str = ""


class Verified(Record, tag="verified"):
    """One module against float32: ``state`` is ``holds``, ``broken`` or ``cannot verify``."""

    module: str
    state: str
    cosine: float | None = None
    max_error: float | None = None
    rows: int = -1
    text: str = ""
