"""Traces of a known device with GEMMs of a known shape, and a MiniMax M3 whose formats the server said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from builders import recording

from m3probe.analyzers import roofline
from m3probe.model.findings import Finding
from m3probe.model.model_config import minimax_m3
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BytePlanes, BytesSection, PlaneRow
from m3probe.model.roofline_report import Roofline, RooflineRow, RooflineSection
from m3probe.schema.setup import ModelFacts, Setup

KEYED = "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk6000sqsq2sqsk6000)"
"""Two decode requests of 3,000 key tokens each."""


H200 = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "warpSize": 32, "computeMajor": 9, "computeMinor": 0}


def judged(rec: Recording, so_far: Answer | None = None) -> tuple[Roofline, dict[str, Finding]]:
    answer = roofline.ANALYZER.judge(rec, so_far or Answer())
    section = answer.section(RooflineSection)
    assert section is not None
    return section.roofline, {finding.id: finding for finding in answer.findings}


def on_h200(tmp_path: Path, events: list[dict[str, Any]]) -> Recording:
    return recording(tmp_path, events, deviceProperties=[H200])


def as_m3(rec: Recording, **facts: Any) -> Recording:
    """The user named the model and TP4; the server said what its weights and its KV cache are."""
    said = {"linear_quant": "bf16", "moe_quant": "bf16"} | facts
    setup = Setup(model=ModelFacts(**said), tp=4, flags={"--kv-cache-dtype": "fp8"})
    return replace(rec, meta=replace(rec.meta, model=minimax_m3(), tp=4, setup=setup))


def index_of(dtype: str) -> Answer:
    """What the question of bytes said of writes to the index cache."""
    row = PlaneRow("index write, prefill", 1, None, None, dtype, "", "kernels")
    return Answer((BytesSection(BytePlanes((), (row,), ())),))


def part(found: Roofline, family: str) -> RooflineRow:
    (row,) = (row for row in found.rows if row.part and row.what == family)
    return row


def shape(found: Roofline, text: str) -> RooflineRow:
    (row,) = (row for row in found.rows if not row.part and row.shape.startswith(text))
    return row
