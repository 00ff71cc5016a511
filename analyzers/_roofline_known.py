"""What floors are worked out from: the device, the layout of the rank, the formats of weights and caches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from m3probe.analyzers._gemm import Gemms
from m3probe.analyzers._layers import Layers
from m3probe.analyzers._layout import Layout
from m3probe.analyzers._ledger import of_role
from m3probe.analyzers._live_profiled import in_window
from m3probe.analyzers._roofline_formats import as_configured, formats_of, modules_of, routing_of
from m3probe.analyzers._roofline_served import ServedLayout, served_device, served_layout
from m3probe.fastpaths.index_reuse import computing_layers
from m3probe.fastpaths.quick_reduce import sent_bits
from m3probe.hardware import Accelerator, identify
from m3probe.model.decode_floor import Formats, Rank
from m3probe.model.floors import Peaks, distinct_by_share
from m3probe.model.m3_shapes import illegal_reason
from m3probe.model.model_config import ModelConfig
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import Phase

NO_MODEL = (
    "the model is not known: --model-config names it, a live recording says it, and shapes of eager steps can prove "
    "MiniMax M3's"
)
STAGES = "layers are split over pipeline stages, and which of them a rank holds is not told: a step has no floor"
NO_TP = "the tensor parallel size is not known: --tp says it, and the shapes of eager steps prove it"


def device_of(rec: Recording) -> Accelerator | None:
    """The accelerator that all devices of the recording are, by the trace, else by the guests' own word.

    None where it is not known, or where they differ.
    """
    if not rec.meta.devices:
        return served_device(rec)
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
    setup: Setup | None = None

    def sent_bits(self, rows: int) -> int:
        """Of a value over the links, in the all-reduces of so many rows."""
        return sent_bits(self.setup, rows * 2 * self.config.hidden_size) if self.setup else 16

    def distinct(self, rows: int) -> float | None:
        """Experts that so many rows hit in a layer, by the recorded routing; None where there is none."""
        hits = [distinct_by_share(shares, rows) for shares in self.routing]
        return sum(hits) / len(hits) if hits else None


def model_of(
    rec: Recording, so_far: Answer, found: Gemms, shape: Layout | None, ran: Layers, *, mesh: bool
) -> Model | str:
    """What is known of the rank's model, or why it is not."""
    modules = modules_of(rec)
    base = _from_layout(shape) or served_layout(rec, modules.kv_heads)
    if base is None:
        return NO_MODEL if shape is None else NO_TP
    dp, stages = _engines_and_stages(rec)
    if stages > 1:
        return STAGES
    ep, notes = base.ep or modules.ep, []
    if dp > 1 and base.config.sparse_layers:
        notes.append(f"each of {dp:,} data-parallel engines is taken to compute as many rows: they share the experts")
    if ep is None and base.config.sparse_layers:
        notes.append("expert parallel size not known, taken as 1")
    config = _with_layers(base.config, ran)
    if reason := illegal_reason(config, base.tp, ep or 1, dp=dp):
        return f"vLLM would not build this layout: {reason}"
    best = shape.chosen if shape and shape.chosen and shape.chosen.fits else None
    chosen = computing_layers(rec.meta.setup) if rec.meta.setup and ran.all is None else None
    rank = Rank(
        tp=base.tp,
        ep=ep or 1,
        dp=dp,
        index_layers=ran.index or chosen,
        fused_shared=(bool(best and best.fuse_shared_experts) or modules.fused_shared) and (ep or 1) == 1,
        whole_head=bool(best and best.lm_head == "whole"),
        indexer_cp=bool(best and best.indexer_cp),
        reducing=_reducing(rec, base.tp),
        mesh=mesh,
    )
    formats, routing = formats_of(rec, so_far, found, shape, modules), tuple(routing_of(rec, config.num_experts))
    notes += as_configured(formats, found, shape, modules)
    return Model(config, rank, formats, routing, tuple(notes), rec.meta.setup)


def _engines_and_stages(rec: Recording) -> tuple[int, int]:
    """Data-parallel engines and pipeline stages, by the configuration, else by the guests' own word; 1 where nobody says."""
    if rec.meta.setup:
        return rec.meta.setup.dp, rec.meta.setup.pp
    said = [one.process for one in rec.meta.served]
    return max((p.dp for p in said if p.dp > 0), default=1), max((p.pp for p in said if p.pp > 0), default=1)


def _from_layout(shape: Layout | None) -> ServedLayout | None:
    """The layout that shapes prove, else what the user said; None without a tensor parallel size."""
    if shape is None:
        return None
    tp = shape.chosen.tp if shape.chosen and shape.chosen.fits else shape.tp
    return None if tp is None else ServedLayout(shape.config, tp, shape.seen_ep)


def _reducing(rec: Recording, tp: int) -> int:
    """Ranks that reduce together: a rig that imitates one rank of several reduces with nobody."""
    worlds = {f.world_size for f in rec.files if f.role == "rank" and f.world_size}
    worlds |= {one.process.world_size for one in rec.meta.served if one.process.world_size > 0}
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
