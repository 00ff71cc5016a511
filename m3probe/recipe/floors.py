"""The least time that a decode step of the workload can take: what no path of this configuration goes below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from m3probe.fastpaths.fp8_kv_cache import bytes_per_token
from m3probe.fastpaths.index_reuse import computing_layers
from m3probe.fastpaths.quick_reduce import sent_bits
from m3probe.hardware import Accelerator
from m3probe.model import floors
from m3probe.model.decode_floor import CONTROL, Batch, DecodeFloor, Formats, Rank, crossover_tokens, decode_floor
from m3probe.model.model_config import ModelConfig
from m3probe.model.recipe_report import FloorLine, FloorsLine, PathLine, WorkPoint
from m3probe.recipe.sizes import illegal, replicated
from m3probe.schema.setup import Setup, State
from m3probe.schema.verdicts import Phase

_BY_BYTES = {1.0: "fp8", 2.0: "bf16"}


def floor_lines(
    config: ModelConfig | None,
    setup: Setup,
    gpu: Accelerator,
    points: Sequence[WorkPoint],
    paths: Mapping[str, PathLine],
    context: int | None,
) -> FloorsLine | None:
    """One line per decode point; None without a context, for an unknown model, and for layers split into stages."""
    if config is None or context is None or setup.pp > 1 or illegal(config, setup):
        return None
    rank, formats = _rank(setup, gpu, paths), _formats(config, setup)
    peaks = floors.Peaks(
        gpu.name,
        gpu.hbm_bytes_per_s.value,
        {word: figure.value for word, figure in gpu.peak_tflops.items()},
        gpu.link_rate(setup.tp),
    )
    decode = [point for point in points if point.phase == Phase.DECODE]
    row_bytes = 2 * config.hidden_size
    batches = [
        Batch(point.rows, point.requests, context, sent_bits=sent_bits(setup, point.rows * row_bytes))
        for point in decode
    ]
    found = [decode_floor(config, rank, formats, batch, peaks) for batch in batches]
    alone = dict.fromkeys(
        f"{work.what} by its bytes alone ({least.unknown})"
        for one in found
        for work, least in one.rows
        if least.unknown
    )
    left = dict.fromkeys(f"{name} left out ({why})" for one in found for name, why in one.left_out)
    return FloorsLine(
        context=context,
        kv=formats.kv,
        index=formats.index,
        crossover_tokens=crossover_tokens(config, rank, formats),
        lines=tuple(_line(point, one) for point, one in zip(decode, found, strict=True)),
        unknown=(*alone, *left),
    )


def _rank(setup: Setup, gpu: Accelerator, paths: Mapping[str, PathLine]) -> Rank:
    return Rank(
        tp=setup.tp,
        ep=setup.ep,
        dp=setup.dp,
        index_layers=computing_layers(setup),
        fused_shared=paths["shared_expert_fusion"].state == State.ELIGIBLE,
        page_table=paths["aiter_sparse_pa"].state == State.ELIGIBLE,
        indexer_cp=replicated(paths),
        mesh=gpu.link_peers > 0,
    )


def _formats(config: ModelConfig, setup: Setup) -> Formats:
    linear, experts = (_known(word) for word in (setup.model.linear_quant, setup.model.moe_quant))
    kv, index = _caches(config, setup)
    return Formats(linear, experts, kv, index, shared=experts)


def _known(word: str | None) -> str | None:
    return floors.format_word(word) if word else None


def _caches(config: ModelConfig, setup: Setup) -> tuple[str | None, str | None]:
    """By the bytes that a token takes in each."""
    each = bytes_per_token(setup)
    if each is None:
        return None, None
    values = config.num_layers * 2 * max(1, config.kv_heads // setup.tp) * config.head_dim
    keys = config.sparse_attention_layers * config.index_dim
    return _BY_BYTES.get(each[0] / values), _BY_BYTES.get(each[1] / keys) if keys else None


def _line(point: WorkPoint, found: DecodeFloor) -> FloorLine:
    def moved(*names: str) -> int:
        return round(sum(work.bytes for work, _ in found.of(*names)))

    largest = max(found.rows, key=lambda row: row[1].time_ns)
    return FloorLine(
        label=point.label,
        rows=point.rows,
        bytes=round(found.bytes),
        weight_bytes=round(sum(work.weight_bytes for work, _ in found.rows)),
        choose_bytes=moved(*CONTROL),
        attend_bytes=moved("attend_sparse"),
        floor_ns=round(found.floor_ns),
        overlapped_ns=round(found.overlapped_ns),
        largest=largest[0].what,
        largest_ns=round(largest[1].time_ns),
    )
