"""Most sparse layers reuse the blocks that an earlier layer chose, and write no index key.

Sources: vLLM PR 47269 and 47287; ``_should_skip_index_topk`` in ``amd/model.py`` at 0.25.1, 0.32, 0.33;
``MiniMaxM3SparseForConditionalGenerationConfig`` (model_executor/models/config.py:790 at 0.33). NVIDIA's model file
reads no such setting. The model's work changes: results carry a tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.fastpaths._m3 import (
    SPARSE_LAYERS,
    absent,
    as_object,
    build_name,
    calls,
    flag,
    no,
    on_rocm,
    unknown,
    yes,
)
from m3probe.schema.paths import Asked, Effect, FastPath, Layers, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family

KEYS = ("use_index_cache", "index_topk_freq", "index_skip_topk_offset")
_TOPK = (
    "_topk_index_merge_kernel*",
    "_decode_topk_fused_kernel*",
    "_topk_index_kernel*",
    "*pa_sparse_block_topk*",
    "_merge_topk_keys*",
)
_ATTEND = (
    "_gqa_sparse_decode_kernel*",
    "_gqa_sparse_fwd_kernel*",
    "*paged_attention_decode_v2_gluon*dot_kernel*",
    "*paged_attention_decode_sliding_window*",
)


def computing(layers: int, frequency: int, offset: int = 0) -> int:
    """Sparse layers that choose blocks themselves: those whose max(ordinal - offset, 0) is a multiple of frequency."""
    return sum(max(ordinal - offset, 0) % frequency == 0 for ordinal in range(layers))


def overrides(setup: Setup) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """(what the text model reads, keys that stand at the top level, where it does not look)."""
    given = as_object(flag(setup, "hf-overrides"))
    return as_object(given.get("text_config")), tuple(key for key in KEYS if key in given)


def _whole(value: Any, default: int) -> int | None:
    """``int(value or default)`` as the source has it (4.0 and "4" are 4); None where it raises."""
    try:
        return int(value or default)
    except (TypeError, ValueError, OverflowError):
        return None


def _settings(setup: Setup) -> tuple[int | None, int | None]:
    """(frequency, offset) in force; None where vLLM's ``int`` raises. (1, 0): every layer chooses."""
    nested, _ = overrides(setup)
    if not nested.get("use_index_cache") or absent(setup, "index_reuse") or on_rocm(setup) is False:
        return 1, 0
    often = _whole(nested.get("index_topk_freq"), 1)
    if often is None or often <= 1:
        return (None if often is None else 1), 0
    return often, _whole(nested.get("index_skip_topk_offset"), 0)


def frequency(setup: Setup) -> int:
    """Reuse frequency in force in the text model; 1: every layer chooses."""
    return _settings(setup)[0] or 1


def computing_layers(setup: Setup) -> int | None:
    """Sparse layers of a setup that run the indexer in each step."""
    layers, offset = setup.model.sparse_layers, _settings(setup)[1] or 0
    return None if layers is None else computing(layers, frequency(setup), offset)


def unfilled(setup: Setup) -> str:
    """Sparse layers that reuse a buffer which nobody filled: those before the first that chooses, on each stage."""
    often, offset = frequency(setup), _settings(setup)[1] or 0
    starts = _stage_starts(setup)
    late = [ordinal for ordinal in starts if often > 1 and max(ordinal - offset, 0) % often]
    if not late:
        return ""
    return f"; sparse layer {late[0]}, the first of its stage, skips and reads a buffer that nobody filled"


def _stage_starts(setup: Setup) -> tuple[int, ...]:
    """Ordinal of the first sparse layer of each pipeline stage; the first stage alone where the split is not even."""
    layers, dense = setup.model.layers, setup.model.dense_layers
    even = layers is not None and layers % setup.pp == 0 and "VLLM_PP_LAYER_PARTITION" not in setup.env
    if layers is None or dense is None or not even:
        return (0,)
    return tuple(max(stage * (layers // setup.pp) - dense, 0) for stage in range(setup.pp))


def asked(setup: Setup) -> Asked:
    """Nested overrides with a frequency above 1; top-level ones ask only where vLLM refuses them."""
    nested, flat = overrides(setup)
    rule = setup.build.rule("index_reuse")
    if not nested.get("use_index_cache") and not flat:
        return Asked(Held.NO, "use_index_cache is not set (default off)")
    if absent(setup, "index_reuse"):
        return Asked(Held.NO, f"{build_name(setup)} has no index reuse: the override reaches nothing", wasted=True)
    if flat and rule.known and rule.value["flat"] == "raises":
        return Asked(Held.YES, f"top-level --hf-overrides {', '.join(flat)}")
    if None in _settings(setup):
        return Asked(
            Held.YES, f"text_config: {', '.join(f'{key} {nested[key]!r}' for key in KEYS[1:] if key in nested)}"
        )
    if frequency(setup) > 1:
        return Asked(Held.YES if rule.known else Held.UNKNOWN, f"text_config: index_topk_freq {frequency(setup)}")
    return _ignored(setup, flat)


def _ignored(setup: Setup, flat: tuple[str, ...]) -> Asked:
    rule = setup.build.rule("index_reuse")
    if flat and not rule.known:
        return Asked(Held.UNKNOWN, f"top-level {', '.join(flat)}: rule index_reuse is {rule.status} on this build")
    if flat:
        why = f"top-level {', '.join(flat)} is silently ignored: the text model reads text_config alone"
        said = f'{build_name(setup)}: {why}; nest it: {{"text_config": {{...}}}}'
        return Asked(Held.NO, said, wasted=True)
    return Asked(Held.NO, "index_topk_freq is 1 (default): every sparse layer chooses its own blocks")


def _nested(setup: Setup, _point: Point) -> Met:
    _, flat = overrides(setup)
    raises = setup.build.rule("index_reuse").value["flat"] == "raises"
    if not flat:
        return yes("the override is nested under text_config")
    said = f"top-level {', '.join(flat)}"
    if not raises:
        return yes(f"{said} is ignored; the nested values count")
    if setup.gfx is None:
        return unknown(f"{said}: refused on ROCm, the GPU is not known")
    if not setup.gfx.startswith("gfx"):
        return yes(f"{said}: checked on ROCm alone")
    return no(f"{said}: the engine does not start (ValueError); nest it under text_config")


def _numbers(setup: Setup, _point: Point) -> Met:
    if None in _settings(setup):
        return no("index_topk_freq or index_skip_topk_offset is no number: the engine does not start (int() raises)")
    return yes(f"index_topk_freq {frequency(setup)}, index_skip_topk_offset {_settings(setup)[1]}")


def _skips(setup: Setup, _point: Point) -> Met:
    made, layers = computing_layers(setup), setup.model.sparse_layers
    if made is None or layers is None:
        return unknown("sparse layers are not known")
    said = f"frequency {frequency(setup)}: {made} of {layers} sparse layers choose, {layers - made} skip"
    return met(made < layers, said + unfilled(setup))


def _amd(setup: Setup, _point: Point) -> Met:
    gfx = setup.gfx
    return met(gfx.startswith("gfx") if gfx else None, f"GPU {gfx or 'not known'}: only the ROCm model file reuses")


def _skipped(setup: Setup, point: Point) -> int | None:
    made, layers = computing_layers(setup), setup.model.sparse_layers
    return None if made is None or layers is None else calls(setup, point, layers - made)


def _chosen(setup: Setup, point: Point) -> int | None:
    return calls(setup, point, computing_layers(setup))


FAST_PATH = FastPath(
    title="index top-k reuse",
    question="Did sparse layers reuse an earlier layer's blocks, and how many of them?",
    configured='--hf-overrides \'{"text_config": {"use_index_cache": true, "index_topk_freq": 4}}\'',
    default="off: every sparse layer chooses its own blocks",
    acts_on=(Family.INDEXER,),
    other_work="index top-k reuse",
    needs=(
        SPARSE_LAYERS,
        Need("the ROCm model file", _amd),
        Need("the settings stand under text_config", _nested, When.START, ("index_reuse",)),
        Need("index_topk_freq and index_skip_topk_offset are numbers", _numbers, When.START),
        Need("a frequency above 1", _skips),
    ),
    variants=(
        Variant(
            name="reuse",
            role=Role.FAST,
            anchors=_TOPK,
            layers=_ATTEND,
            in_layers=Layers.SOME,
            calls_per_step="sparse_layers - computing layers; frequency 4: 57 - 15 = 42",
            expected=_skipped,
            source="_should_skip_index_topk, amd/model.py at 0.25.1 to 0.33: launches of the attend without a top-k",
            vllm="0.25.1 to 0.33",
            note="calls are sparse layers that attended without a top-k of their own: the selected blocks are others, "
            "so the model's work changed",
        ),
        Variant(
            name="every layer chooses",
            role=Role.FALLBACK,
            anchors=_TOPK,
            layers=_ATTEND,
            in_layers=Layers.EVERY,
            calls_per_step="sparse_layers",
            expected=_chosen,
            source="as many top-k launches as attends in the step; seen in H200 traces",
            vllm="0.24 to 0.33",
        ),
    ),
    asked=asked,
    only_m3=True,
    instead="every sparse layer scores and chooses: 57 indexer calls a step instead of 15",
    gates=("eval_length", "eval_acceptance", "eval_file"),
    effects=(
        Effect("TPOT -10 % at 1 request, -4 % at high concurrency: MXFP4 TP4, 8k1k, frequency 4", "vLLM PR 47269"),
        Effect(
            "nested 781.2 tokens/s/GPU, flat 707.7, baseline 708.0: the flat form did nothing", "vllm recipes PR 621"
        ),
        Effect("long-context evaluations halved where GSM8K stayed equal", "sglang PR 34583"),
    ),
    functions=("MiniMaxM3Indexer.forward: 15 calls a step, not 57", "fused_*qknorm*(skip_index_branch=True)"),
    sources=(
        "vLLM PR 47269, 47287 (the producer skips the index branch: 0.32 and 0.33, rule index_skip_branch)",
        "the docstrings at 0.25.1 and 0.32 still show the flat form",
        "--monokernel refuses it (specialized_decode/runtime/spec.py at 0.33)",
    ),
)
