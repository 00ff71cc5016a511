"""What a run says of the contract: topic -> what said it -> its value, so that like is held against like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from m3probe.analyzers._view import View, in_phases
from m3probe.fastpaths._m3 import as_object, flag
from m3probe.fastpaths.index_reuse import KEYS, computing_layers, frequency
from m3probe.model.bench import BenchRun
from m3probe.model.compare_run import HostSteps
from m3probe.model.recording import Recording
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import Phase

MODEL, WEIGHTS, BUILD, HARDWARE, GPUS = "model", "weights", "build", "hardware", "GPUs"
TOPOLOGY, WORKLOAD, CONCURRENCY, WORK = "topology", "workload", "concurrency", "model's work"
ACCEPTANCE, PREFIX = "acceptance", "prefix cache"
TOPICS = (
    MODEL, WEIGHTS, BUILD, HARDWARE, GPUS, TOPOLOGY, WORKLOAD, CONCURRENCY, WORK, ACCEPTANCE, PREFIX,
)  # fmt: skip
CONFIGURATION, CLIENT, RECORDED = "configuration", "benchmark", "recording"
INPUT, OUTPUT, HELD = "input tokens", "output tokens", "tokens held by a decoding request"
DECODING, COUNTED = "decoding requests", "mean decoding requests"
LENGTH, RATE = "acceptance length", "hit rate"
TOLERANCE: Mapping[str, float] = {
    INPUT: 0.10,
    OUTPUT: 0.10,
    HELD: 0.10,
    DECODING: 0.10,
    COUNTED: 0.10,
    LENGTH: 0.03,
    RATE: 0.02,
}
"""Figures, and the share by which they may differ: random datasets draw lengths anew (docs/compare.md)."""
POINTS = ("isl", "osl", INPUT, OUTPUT)
"""Of which a run may have several, as it may have several concurrencies: what both measured is held against each other."""
ASSUMED_GPU = "give --gpu"


def facts(rec: Recording, view: View, hosts: Sequence[HostSteps]) -> dict[str, dict[str, str]]:
    """Every topic with what is known of it."""
    found: dict[str, dict[str, str]] = {topic: {} for topic in TOPICS}
    for part in (_configured(rec), _client(rec.meta.bench), _recorded(rec, view, hosts)):
        for (topic, source), value in part.items():
            if value:
                found[topic][source] = value
    return found


Facts = dict[tuple[str, str], str]


def _configured(rec: Recording) -> Facts:
    setup, note = rec.meta.setup, rec.meta.recipe
    if setup is None:
        return {}
    guessed = note is not None and any(ASSUMED_GPU in text for text in note.assumed)
    model = setup.model
    quant = "" if model.linear_quant is None else f"linear {model.linear_quant}, experts {model.moe_quant}"
    caching = flag(setup, "enable-prefix-caching")
    off = flag(setup, "no-enable-prefix-caching")
    return {
        (MODEL, CONFIGURATION): model.name.rstrip("/").rsplit("/", 1)[-1],
        (WEIGHTS, CONFIGURATION): quant,
        (BUILD, CONFIGURATION): setup.build.version or (note.build.named if note else ""),
        (HARDWARE, CONFIGURATION): "" if guessed else (setup.gfx or ""),
        (GPUS, CONFIGURATION): str(setup.tp * setup.pp * setup.dp),
        (TOPOLOGY, CONFIGURATION): f"TP{setup.tp} PP{setup.pp} DP{setup.dp} EP{setup.ep}",
        (WORK, CONFIGURATION): work(setup),
        (ACCEPTANCE, CONFIGURATION): "" if setup.draft else "no drafts",
        (PREFIX, CONFIGURATION): "off" if off or caching is False else "on" if caching else "default",
    }


def work(setup: Setup) -> str:
    """What of the configuration changes which work the model does, in words: two runs alike in it compute the same.

    How it is done (kernels, dtypes of caches and collectives, graphs, batching) is not in it.
    """
    parts = [f"index top-k every {frequency(setup)} sparse layers"] if frequency(setup) > 1 else []
    layers = computing_layers(setup) if parts else None
    parts = [f"{parts[0]} ({layers} choose)"] if layers is not None else parts
    given = dict(as_object(flag(setup, "hf-overrides")))
    nested = {k: v for k, v in as_object(given.pop("text_config", None)).items() if k not in KEYS}
    other = {k: v for k, v in given.items() if k not in KEYS} | nested
    parts += [f"{key} {other[key]}" for key in sorted(other)]
    draft = setup.draft or {}
    parts += [f"draft {key} {draft[key]}" for key in sorted(draft) if key != "attention_backend"]
    return ", ".join(parts) or "as the checkpoint has it"


def _client(runs: Sequence[BenchRun]) -> Facts:
    if not runs:
        return {}
    roles = _all(f"{r.prefill_gpus} prefill + {r.decode_gpus} decode" for r in runs if r.disaggregated)
    keys = ("tp", "pp", "ep", "dp", "dp_attention", "prefill_tp", "decode_tp")
    layouts = (" ".join(f"{k}={r.metadata[k]}" for k in keys if k in r.metadata) for r in runs)
    return {
        (MODEL, CLIENT): _all(r.model for r in runs),
        (WEIGHTS, CLIENT): _label(runs, "precision"),
        (BUILD, CLIENT): _all(str(r.metadata.get("image") or r.metadata.get("vllm_version") or "") for r in runs),
        (HARDWARE, CLIENT): _label(runs, "hw"),
        (GPUS, CLIENT): _all(str(r.num_gpus) for r in runs if r.num_gpus),
        (GPUS, "roles"): roles,
        (TOPOLOGY, CLIENT): _all(layouts),
        (WORKLOAD, "isl"): _label(runs, "isl"),
        (WORKLOAD, "osl"): _label(runs, "osl"),
        (WORKLOAD, INPUT): _lengths([r.mean_input_tokens for r in runs]),
        (WORKLOAD, OUTPUT): _lengths([r.mean_output_tokens for r in runs]),
        (WORKLOAD, "request rate"): _all(f"{r.request_rate:g}" for r in runs if r.request_rate is not None),
        (CONCURRENCY, CLIENT): _all(str(r.max_concurrency) for r in sorted(runs, key=_places) if r.max_concurrency),
        (ACCEPTANCE, LENGTH): _mean([r.drafts.acceptance_length if r.drafts else None for r in runs], 3),
        (PREFIX, RATE): _mean([r.prefix_cache_hit_rate for r in runs], 4),
    }


def _places(run: BenchRun) -> int:
    return run.max_concurrency or 0


def _recorded(rec: Recording, view: View, hosts: Sequence[HostSteps]) -> Facts:
    meta, steps = rec.meta, rec.steps
    decode = np.flatnonzero(in_phases(rec, Phase.DECODE) & view.proven)
    asked, held = steps["requests"][decode], steps["gen_seq_len_sum"][decode]
    known = (asked > 0) & (held > 0)
    counted = next((f"{h.requests:.1f}" for h in hosts if h.phase == Phase.DECODE), "")  # every step, not a window's
    devices = [d.name or _sizes(d.units, d.memory_bytes) for d in meta.devices]
    worlds = [str(f.world_size) for f in rec.files if f.role == "rank" and f.world_size]
    return {
        (BUILD, RECORDED): meta.versions.get("vllm_version") or meta.versions.get("vllm") or "",
        (HARDWARE, RECORDED): _all(devices),
        (GPUS, RECORDED): _all(worlds),
        (WORKLOAD, HELD): f"{held[known].sum() / asked[known].sum():.0f}" if known.any() else "",
        (CONCURRENCY, COUNTED): counted,
        (CONCURRENCY, DECODING): f"{np.median(asked[asked > 0]):g}" if (asked > 0).any() and not counted else "",
    }


def _label(runs: Sequence[BenchRun], key: str) -> str:
    return _all(str(r.metadata.get(key, "")) for r in runs)


def _all(values: Iterable[str]) -> str:
    """Distinct values in order; empty where none is known."""
    return ", ".join(dict.fromkeys(value for value in values if value))


def _lengths(values: Iterable[float | None]) -> str:
    """Lengths that are not alike, in ascending order: a run may have measured several workloads."""
    kept: list[float] = []
    for value in sorted(value for value in values if value is not None):
        if not kept or value > kept[-1] * (1 + TOLERANCE[INPUT]):
            kept.append(value)
    return ", ".join(f"{value:.0f}" for value in kept)


def _mean(values: Sequence[float | None], decimals: int = 0) -> str:
    told = [value for value in values if value is not None]
    return f"{fmean(told):.{decimals}f}" if told else ""


def _sizes(units: int, memory_bytes: int) -> str:
    """A device without a name by what is known of it."""
    return f"{units} units" + (f", {memory_bytes / 2**30:.0f} GiB" if memory_bytes > 0 else "")
