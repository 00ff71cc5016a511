"""Rows of ``device_samples``: what a tool said of one GPU at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from m3probe.model.device_tables import DEVICE_TABLES, FIGURES, TEXTS
from m3probe.model.recording import RecordingBuilder
from m3probe.readers._beside import beside
from m3probe.readers._smi_values import NAN

ROLE = "device"
MOST_ROWS = 1_000_000


@dataclass(slots=True)
class Sample:
    """One GPU at one moment; figures and words that are left out are not known."""

    gpu: int
    reading: int = 0
    at_ns: int = -1
    figures: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def add(
    builder: RecordingBuilder,
    path: Path,
    kind: str,
    samples: Sequence[Sample],
    size_bytes: int,
    *,
    cut: bool,
    in_folder: bool,
) -> None:
    """The file and its rows."""
    file = len(builder.files)
    builder.files.append(beside(path, kind, ROLE, size_bytes, cut=cut, in_folder=in_folder))
    whole = {"file": [file] * len(samples)} | {
        key: [getattr(sample, key) for sample in samples] for key in ("reading", "at_ns", "gpu")
    }
    types = {name: dtype for name, dtype, _, _ in DEVICE_TABLES["device_samples"]}
    columns = {name: np.array(values, dtype=types[name]) for name, values in whole.items()}
    columns |= {name: np.array([sample.figures.get(name, NAN) for sample in samples]) for name in FIGURES}
    for name in TEXTS:
        said = [sample.words.get(name, "") for sample in samples]
        columns[name] = np.array([builder.strings.intern(one) if one else -1 for one in said], dtype=np.int32)
    builder.add("device_samples", columns)
