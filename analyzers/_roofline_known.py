"""What floors are worked out from: the device, the layout of the rank, the formats of weights and caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from m3probe.analyzers._gemm import Gemms
from m3probe.analyzers._gemm_ops import GROUPED, LINEAR
from m3probe.analyzers._layers import Layers
from m3probe.analyzers._layout import Layout
from m3probe.analyzers._ledger import facts_of, of_role, texts
from m3probe.analyzers._live_profiled import in_window
from m3probe.analyzers._tensors import json_list
from m3probe.hardware import Accelerator, identify
from m3probe.model.decode_floor import Formats, Rank
from m3probe.model.floors import Peaks, distinct_by_share, format_word
from m3probe.model.m3_shapes import OPTIONAL_MODULES, illegal_reason
from m3probe.model.model_config import ModelConfig
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BytesSection
from m3probe.model.tables import Array
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import Phase

_QUANT = {"mxfp8": "mxfp8", "mxfp4": "mxfp4"}


def device_of(rec: Recording) -> Accelerator | None:
    """The accelerator that all devices of the recording are; None where it is not known, or where they differ."""
    found = [
        identify(d.name, d.units, d.compute_major, d.compute_minor, d.warp_size, memory_bytes=max(d.memory_bytes, 0))
        for d in rec.meta.devices
    ]
    return found[0] if found and all(one == found[0] for one in found) else None


def peaks_of(device: Accelerator, ranks: int = 1) -> Peaks:
    """Its peaks as numbers; ``ranks`` exchange data."""
    return Peaks(
        device.name,
        device.hbm_bytes_per_s.value,
        {word: figure.value for word, figure in device.peak_tflops.items()},
        device.link_rate(ranks),
    )


@dataclass(frozen=True, slots=True)
class Model:
    """The rank's model; ``config`` has the layers that ran."""

    config: ModelConfig
    rank: Rank
    formats: Formats
    routing: tuple[tuple[float, ...], ...]
    """Of each MoE layer the share of rows that chose each expert, where guests recorded it."""
    notes: tuple[str, ...]

    def distinct(self, rows: int) -> float | None:
        """Experts that so many rows hit in a layer, by the recorded routing; None where there is none."""
        hits = [distinct_by_share(shares, rows) for shares in self.routing]
        return sum(hits) / len(hits) if hits else None


def model_of(
    rec: Recording, so_far: Answer, found: Gemms, shape: Layout | None, ran: Layers, *, mesh: bool
) -> Model | str:
    """What is known of the rank's model, or why it is not."""
    if shape is None:
        return "the model is not known: --model-config names it, and shapes of eager steps can prove MiniMax M3's"
    tp = shape.chosen.tp if shape.chosen and shape.chosen.fits else shape.tp
    if tp is None:
        return "the tensor parallel size is not known: --tp says it, and the shapes of eager steps prove it"
    modules = _modules(rec)
    ep, notes = shape.seen_ep or modules.ep, []
    if ep is None and shape.config.sparse_layers:
        notes.append("expert parallel size not known, taken as 1")
    config = _with_layers(shape.config, ran)
    if reason := illegal_reason(config, tp, ep or 1):
        return f"vLLM would not build this layout: {reason}"
    best = shape.chosen
    rank = Rank(
        tp=tp,
        ep=ep or 1,
        index_layers=ran.index,
        fused_shared=bool(best and best.fits and best.fuse_shared_experts and (ep or 1) == 1),
        whole_head=bool(best and best.lm_head == "whole"),
        indexer_cp=bool(best and best.indexer_cp),
        reducing=_reducing(rec, tp),
        mesh=mesh,
    )
    formats, routing = _formats(rec, so_far, found, shape, modules), tuple(_routing(rec, config.num_experts))
    return Model(config, rank, formats, routing, tuple(notes))


def _routing(rec: Recording, experts: int) -> Iterator[tuple[float, ...]]:
    """Rows that chose each expert over rows, by layer; layers whose record has another number of experts are left out."""
    table = rec.tables["routing"]
    layers, told = texts(rec, table, "layer"), texts(rec, table, "experts")
    sums: dict[str, Array] = {}
    rows: Counter[str] = Counter()
    for row, (layer, text) in enumerate(zip(layers, told, strict=True)):
        counts = [n for n in json_list(text) if type(n) is int and n >= 0]
        if len(counts) == experts and table["rows"][row] > 0:
            sums[layer] = sums.get(layer, 0) + np.array(counts, dtype=np.int64)
            rows[layer] += int(table["rows"][row])
    for layer, total in sums.items():
        yield tuple(float(share) for share in total / rows[layer])


def _reducing(rec: Recording, tp: int) -> int:
    """Ranks that reduce together: a rig that imitates one rank of several reduces with nobody."""
    worlds = {f.world_size for f in rec.files if f.role == "rank" and f.world_size}
    return 1 if worlds == {1} else tp


def _with_layers(config: ModelConfig, ran: Layers) -> ModelConfig:
    """The config with the layers that were seen to run; a shortened model runs the published layers' shapes."""
    if ran.all is None:
        return config
    moe = ran.moe or 0 if config.sparse_layers else 0
    sparse = ran.sparse or 0 if config.sparse_attention_layers else 0
    return replace(
        config,
        num_layers=ran.all,
        sparse_layers=min(moe, ran.all),
        dense_layers=ran.all - min(moe, ran.all),
        sparse_attention_layers=sparse,
    )


@dataclass(frozen=True, slots=True)
class _Modules:
    """Formats by kind of module, as far as all modules of the kind share one; ``ep`` of the experts."""

    formats: dict[str, str | None]
    ep: int | None


def _modules(rec: Recording) -> _Modules:
    table = rec.tables["modules"]
    own = [row for row in range(len(table)) if table["draft"][row] != 1]
    kinds, dtypes, quants, facts = (texts(rec, table, c) for c in ("kind", "dtype", "quant", "facts"))
    formats: dict[str, str | None] = {}
    for kind in ("linear", "moe", "router", "lm_head"):
        rows = [row for row in own if kinds[row] == kind]
        words = {_module_format(dtypes[row], quants[row]) for row in rows}
        if rows:
            formats[kind] = words.pop() if len(words) == 1 else None
    sizes = {facts_of(facts[row]).get("ep_size") for row in own if kinds[row] == "moe"}
    size = sizes.pop() if len(sizes) == 1 else None
    return _Modules(formats, size if isinstance(size, int) and size > 0 else None)


def _module_format(dtype: str, quant: str) -> str | None:
    """A packed weight is bytes: then the quantisation method's name says the format, or nothing does."""
    said = next((word for name, word in _QUANT.items() if name in quant.lower()), None)
    return said or format_word(dtype)


def _formats(rec: Recording, so_far: Answer, found: Gemms, shape: Layout, modules: _Modules) -> Formats:
    """From live modules, else from the server's configuration, else from the operators that ran."""
    setup, held = rec.meta.setup, modules.formats
    caches = _caches(rec, so_far, setup)
    return Formats(
        linear=held.get("linear") or _said(setup, "linear_quant") or _of_shapes(found, shape, LINEAR),
        experts=held.get("moe") or _said(setup, "moe_quant") or _of_shapes(found, shape, GROUPED),
        kv=caches["main"],
        index=caches["index"],
        lm_head=held.get("lm_head") or "bf16",
        router=held.get("router") or "fp32",
    )


def _said(setup: Setup | None, name: str) -> str | None:
    word = getattr(setup.model, name) if setup else None
    return format_word(word) if word else None


def _of_shapes(found: Gemms, shape: Layout, kind: str) -> str | None:
    words = {
        format_word(group.shape.dtype)
        for group in found.shaped
        if group.shape and group.shape.kind == kind and _plain(shape.module(group.shape))
    }
    return words.pop() if len(words) == 1 else None


def _plain(module: str) -> bool:
    return bool(module) and OPTIONAL_MODULES.isdisjoint(module.split(", "))


def _caches(rec: Recording, so_far: Answer, setup: Setup | None) -> dict[str, str | None]:
    """Formats of the KV cache and the index cache."""
    table = rec.tables["kv_layers"]
    kinds, dtypes = texts(rec, table, "kind"), texts(rec, table, "dtype")
    drafts = table["draft"].tolist()
    said = so_far.section(BytesSection)
    state = said.bytes.state if said else ()
    found: dict[str, str | None] = {}
    for kind, written in (("main", "KV write"), ("index", "index write")):
        live = {dtypes[r] for r in range(len(table)) if kinds[r] == kind and drafts[r] != 1}
        seen = {row.dtype for row in state if row.what.startswith(written) and row.dtype}
        found[kind] = _only(live) or _only(seen)
    if found["main"] is None and setup and str(setup.flags.get("--kv-cache-dtype", "")).startswith("fp8"):
        found["main"] = "fp8"
    return found


def _only(words: Iterable[str]) -> str | None:
    found = {format_word(word) for word in words}
    return found.pop() if len(found) == 1 else None


def window_contexts(rec: Recording) -> dict[int, float]:
    """Decoding requests of a step -> mean key tokens of each, over the guests' steps in the profiler's window.

    {} where no guest kept rows of single steps, or none ran in a window: steps outside have other contexts.
    """
    table, rows = rec.tables["step_rows"], of_role(rec, "step_rows", "worker")
    rows = rows[(table["phase"][rows] == rec.strings.find(str(Phase.DECODE))) & (table["gen_reqs"][rows] > 0)]
    rows = rows[in_window(rec, table["file"][rows], table["step"][rows])]
    requests, tokens = table["gen_reqs"][rows], table["gen_seq_len_sum"][rows]
    return {
        each: float(tokens[requests == each].mean()) / each
        for each in np.unique(requests).tolist()
        if (tokens[requests == each] > 0).all()
    }
