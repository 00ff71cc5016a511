"""Published figures of MiniMax M3 (tests/data/published.csv), written as the files of a benchmark and read back."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3probe.analyzers._compare.metrics import metrics
from m3probe.model.bench import BenchRun
from m3probe.model.compare_bench import BenchComparison
from m3probe.sources import open_recording

CSV = Path(__file__).parent / "data" / "published.csv"
OSL = 917
"""Mean output tokens of an 8k1k workload whose lengths are drawn from 0.8 of the maximum on."""
SECONDS = 1000.0


@dataclass(frozen=True)
class Published:
    """One row; blank fields are empty, as they were published."""

    id: str
    source: str
    config: str
    isl_osl: str
    conc: str
    metric: str
    before: str
    after: str
    ratio: str


@dataclass(frozen=True)
class Told:
    """How a published word is told by a result: (key, factor to its unit), and the metric that compares it."""

    metric: str
    of: str = ""
    factor: float = 1.0
    per_gpu: bool = False


BENCH = {
    "out_tok_s_gpu": Told("output_per_gpu", per_gpu=True),
    "total_tok_s_gpu": Told("total_per_gpu", per_gpu=True),
    "out_tok_s": Told("output"),
    "tok_s": Told("total"),
    "total_tok_s": Told("total"),
    "ttft_median_s": Told("ttft", "median", 1e3),
    "ttft_ms": Told("ttft", "mean"),
    "tpot_mean_ms": Told("tpot", "mean"),
    "tpot_ms": Told("tpot", "mean"),
    "hit_rate": Told("prefix_hit_rate"),
    "prompt_hit_rate": Told("prefix_hit_rate"),
}
_KEYS = {
    "output_per_gpu": "output_throughput", "output": "output_throughput", "total_per_gpu": "total_token_throughput",
    "total": "total_token_throughput", "prefix_hit_rate": "prefix_cache_hit_rate",
}  # fmt: skip


def rows() -> list[Published]:
    with CSV.open(newline="") as file:
        return [Published(**row) for row in csv.DictReader(file)]


def row(id_: str) -> Published:
    return next(one for one in rows() if one.id == id_)


def gpus(config: str, side: str) -> int:
    """GPUs of a configuration's text: ``TP4->TP2`` has 4 before and 2 after."""
    found = [int(n) for n in re.findall(r"TP(\d+)", config)]
    return (found[0] if side == "a" else found[-1]) if found else 4


def result(
    published: Iterable[tuple[Published, str]], side: str, *, gpu_count: int | None = None, **more: Any
) -> dict[str, Any]:
    """A result with these figures (before or after, as the text says) and nothing that was not published but its length."""
    found: dict[str, Any] = {
        "date": "20260820-101500", "endpoint_type": "vllm", "backend": "vllm", "model_id": "MiniMaxAI/MiniMax-M3",
        "request_rate": "inf", "duration": SECONDS, "completed": 1000, "failed": 0, "request_throughput": 1.0,
    }  # fmt: skip
    for one, text in published:
        told = BENCH[one.metric]
        count = gpu_count or gpus(one.config, side)
        key = _KEYS.get(told.metric) or f"{told.of}_{told.metric}_ms"
        found[key] = float(text) * told.factor * (count if told.per_gpu else 1)
        if told.per_gpu:
            found["num_gpus"] = count
        if one.conc.isdecimal():
            found["max_concurrency"] = int(one.conc)
        if "k" in one.isl_osl:
            isl, osl = re.findall(r"(\d+)k", one.isl_osl)[:2]
            found |= {"isl": str(int(isl) * 1024), "osl": str(int(osl) * 1024)}
    if "output_throughput" in found:
        tokens = round(found["output_throughput"] * SECONDS)
        done = max(round(tokens / OSL), 1)
        found |= {"completed": done, "total_output_tokens": tokens, "request_throughput": done / SECONDS}
    return found | more


def runs(path: Path, *results: dict[str, Any]) -> tuple[BenchRun, ...]:
    path.write_text("\n".join(json.dumps(one) for one in results))
    return open_recording([path]).meta.bench


def compared(tmp_path: Path, *ids: str, **more: Any) -> BenchComparison:
    """Published rows as two files, those of one concurrency as one run, read and compared."""
    sides = []
    for side, text in (("a", "before"), ("b", "after")):
        by_conc: dict[str, list[tuple[Published, str]]] = {}
        for id_ in ids:
            by_conc.setdefault(row(id_).conc, []).append((row(id_), getattr(row(id_), text)))
        sides.append(runs(tmp_path / f"{side}.json", *(result(own, side) for own in by_conc.values())))
    return metrics(*sides, **more)
