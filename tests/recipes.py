"""Judges a command line for tests: the real reader, the bundled rules, the whole report."""

from __future__ import annotations

import shlex
from typing import Any

from m3probe.model.recipe_report import AtPoint, PathLine, RecipeReport
from m3probe.recipe import Ask, recipe
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import read_command
from m3probe.schema.setup import Build
from m3probe.vllm_source import bundled

MXFP8 = "MiniMaxAI/MiniMax-M3-MXFP8"
MXFP4 = "amd/MiniMax-M3-MXFP4"
BASE = "--block-size 128 --kv-cache-dtype fp8 --max-num-batched-tokens 32768"
AITER = "VLLM_ROCM_USE_AITER=1"
GATED = f"{AITER} VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1"
INT4 = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4"
UNCAST = "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=0"
FSE = "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS=1"


def judged(
    version: str | None, words: str = "", env: str = "", *, model: str = MXFP8, tp: int = 4, **ask: Any
) -> RecipeReport:
    """The report of ``ENV vllm serve MODEL --tensor-parallel-size TP BASE WORDS`` on one release."""
    build = (bundled(version) if version else Build()) or Build()
    if isinstance(ask.get("concurrency"), int):
        ask["concurrency"] = (ask["concurrency"],)
    command = shlex.split(f"{env} vllm serve {model} --tensor-parallel-size {tp} {BASE} {words}")
    return recipe(Ask(given=read_command(command, Flags.of(build)), build=build, **{"gpu": "mi355x"} | ask))


def at(line: PathLine, phase: str, rows: int | None = None) -> AtPoint:
    """The path at the workload's one point of a phase (of so many rows)."""
    found = [a for a in line.at if a.point.phase == phase and rows in (None, a.point.rows)]
    assert found, [a.point for a in line.at]
    return found[-1]


def reasons(found: AtPoint) -> str:
    """Every refusal, in one line."""
    return "; ".join(need.text for need in found.needs if need.held == "no")


def segments(line: PathLine, phase: str) -> list[tuple[int, int, str]]:
    """(first row, last row, state) over all rows of a phase."""
    return [(s.first, s.last, s.state) for s in line.by_phase[phase]]
