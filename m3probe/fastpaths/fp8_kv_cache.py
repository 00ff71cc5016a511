"""FP8 main KV cache, and the dtype of the index-key cache beside it: two settings, two caches.

Sources: ``common/sparse_attention.py`` (dtype list, FNUZ view) and ``config/attention.py`` (``indexer_kv_dtype``) at
0.24 to 0.33; ``is_fp8_fnuz`` in ``platforms/rocm.py``.
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import (
    BLOCK,
    BLOCK_SIZE,
    FP8_INDEX,
    INDEX_CACHE,
    KV_DTYPE,
    SPARSE_LAYERS,
    index_dtype,
    kv_dtype,
    unknown,
    yes,
)
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, Variant
from m3probe.schema.setup import Held, Met, Point, Setup


def main_bytes(setup: Setup) -> int | None:
    """Bytes of one token's K and V in one layer of a rank."""
    heads, dim = setup.kv_heads_per_rank, setup.model.head_dim
    if heads is None or dim is None:
        return None
    return heads * 2 * dim * (1 if kv_dtype(setup).startswith("fp8") else 2)


def index_bytes(setup: Setup) -> int | None:
    """Bytes of one token's index key in one sparse layer; every rank holds it whole."""
    dim = setup.model.index_dim
    return None if dim is None else dim * (1 if index_dtype(setup) in FP8_INDEX else 2)


def bytes_per_token(setup: Setup) -> tuple[int, int] | None:
    """(main KV, index keys) of one token on one rank, over all layers."""
    main, index = main_bytes(setup), index_bytes(setup)
    layers, sparse = setup.model.layers, setup.model.sparse_layers
    if main is None or index is None or layers is None or sparse is None:
        return None
    return layers * main, sparse * index


def page_bytes(setup: Setup) -> tuple[int, int] | None:
    """(main, index) page of one block of 128 tokens in one layer."""
    main, index = main_bytes(setup), index_bytes(setup)
    return None if main is None or index is None else (BLOCK * main, BLOCK * index)


def asked(setup: Setup) -> Asked:
    """Either cache."""
    main, index = kv_dtype(setup), index_dtype(setup)
    fp8 = main.startswith("fp8") or index in FP8_INDEX
    return Asked(Held.YES if fp8 else Held.NO, f"--kv-cache-dtype {main}, index cache {index}")


def _flavour(setup: Setup, _point: Point) -> Met:
    """Which FP8 the platform computes in; whether the writer agrees is a gate, not a need."""
    rule, gfx = setup.build.rule("fp8_fnuz_archs"), setup.gfx
    if not kv_dtype(setup).startswith("fp8"):
        return yes("the main cache is not FP8")
    if gfx is None:
        return unknown("GPU not known: FNUZ on gfx94x, FN elsewhere")
    fnuz = any(gfx.startswith(arch) for arch in rule.value)
    return yes(f"{gfx} stores {'FNUZ' if fnuz else 'FN'}: writer and reader view must both (gate kv_dtype)")


def _share(setup: Setup, _point: Point) -> Met:
    both = bytes_per_token(setup)
    if both is None:
        return unknown("layers, KV heads or dims are not known")
    main, index = both
    total = main + index
    return yes(f"{main:,} + {index:,} = {total:,} B per token and rank; index keys are {index / total:.0%}")


_CACHE = "*fusedminimaxm3qnormropekvinsertkernel*fp8kvcachedatatype){}*"

FAST_PATH = FastPath(
    title="FP8 KV cache",
    question="In which dtype are K, V and the index keys stored?",
    configured='--kv-cache-dtype fp8; --attention-config \'{"indexer_kv_dtype": "fp8"}\' for the index keys',
    default="both in BF16; FP8 main KV leaves the index cache in BF16",
    needs=(
        SPARSE_LAYERS,
        KV_DTYPE,
        INDEX_CACHE,
        BLOCK_SIZE,
        Need("the platform's FP8 flavour", _flavour, rules=("fp8_fnuz_archs",)),
        Need("bytes of both caches", _share),
    ),
    variants=(
        Variant(
            name="FP8",
            role=Role.FAST,
            anchors=(_CACHE.format(1), _CACHE.format(2)),
            calls_per_step="layers (the writer's template argument: 1 = E4M3, 2 = E5M2)",
            expected=lambda setup, _point: setup.model.layers,
            names_from_source=True,
            source="vllm::Fp8KVCacheDataType in csrc; the argument was seen in traces as 0 alone",
            vllm="0.24 to 0.33",
            note="tells the main cache; AITER's writer and the index cache do not show their dtype in a name",
        ),
        Variant(
            name="BF16",
            role=Role.FALLBACK,
            anchors=(_CACHE.format(0),),
            calls_per_step="layers",
            expected=lambda setup, _point: setup.model.layers,
            source="seen in H200 traces: (vllm::Fp8KVCacheDataType)0",
            vllm="0.24 to 0.33",
        ),
    ),
    asked=asked,
    instead="BF16 in the cache that was not asked for",
    gates=("kv_dtype", "kv_census", "eval_file"),
    effects=(
        Effect(
            "29,952 B per token and rank at TP4 with a BF16 index cache (49 % of it index keys), 22,656 with FP8",
            "arithmetic",
        ),
        Effect("GSM8K strict 0.9666 BF16, 0.9575 FP8 on gfx942; 0.0099 with the flavours mixed", "vLLM PR 45720"),
    ),
    logs=("MiniMax M3 sparse attention selected %s (kv_cache_dtype=%s, ...)",),
    functions=("impl.use_fp8_kv, impl.kv_cache_fp8_dtype", "bind_kv_cache: the tensor's dtype"),
    sources=(
        "K and V scales reach the Triton attend at 0.32 and 0.33 only (arguments absent before)",
        "amd/MiniMax-M3-MXFP4 ships no calibrated KV scales (vllm recipes PR 579)",
    ),
)
