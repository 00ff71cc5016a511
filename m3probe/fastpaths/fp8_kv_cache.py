"""FP8 main KV cache, and the dtype of the index-key cache beside it: two settings, two caches.

The dense layers call vLLM's op with ``kv_cache_dtype="auto"`` and without a cache (amd/model.py:429 at 0.24, :524 at
0.25.1, :579 at 0.32, :589 at 0.33): they launch the BF16 form of it in an FP8 server too. Sources: ``common/sparse_attention.py`` (dtype list, FNUZ view) and ``config/attention.py`` (``indexer_kv_dtype``) at
0.24 to 0.33; ``is_fp8_fnuz`` in ``platforms/rocm.py``.
"""

from __future__ import annotations

from m3probe.fastpaths import _sparse_pa
from m3probe.fastpaths._m3 import (
    BLOCK,
    BLOCK_SIZE,
    FP8_INDEX,
    INDEX_CACHE,
    KV_DTYPE,
    SPARSE_LAYERS,
    asked_index_dtype,
    build_name,
    index_dtype,
    kv_dtype,
    once,
    unknown,
    yes,
)
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, Variant
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Family


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
    """(main KV, index keys) of one token on one TP rank, over all layers (of all pipeline stages)."""
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
    lost = asked_index_dtype(setup) in FP8_INDEX and index not in FP8_INDEX
    said = f"--kv-cache-dtype {main}, index cache {index}"
    if lost:
        said += f" ({build_name(setup)} does not hand indexer_kv_dtype to the ROCm indexer)"
    return Asked(Held.YES if fp8 else Held.NO, said, wasted=lost and not fp8)


def _flavour(setup: Setup, _point: Point) -> Met:
    """Which FP8 the platform computes in; whether the writer agrees is a gate, not a need."""
    rule, gfx = setup.build.rule("fp8_fnuz_archs"), setup.gfx
    if not kv_dtype(setup).startswith("fp8"):
        return yes("the main cache is not FP8")
    if gfx is None:
        return unknown("GPU not known: FNUZ on gfx94x, FN elsewhere")
    if kv_dtype(setup) == "fp8_e5m2" and gfx.startswith("gfx"):
        return unknown("fp8_e5m2 on ROCm: whether the C++ cache op converts it is in no Python file")
    fnuz = any(gfx.startswith(arch) for arch in rule.value)
    return yes(f"{gfx} stores {'FNUZ' if fnuz else 'FN'}: writer and reader view must both (gate kv_dtype)")


def _share(setup: Setup, _point: Point) -> Met:
    both = bytes_per_token(setup)
    if both is None:
        return unknown("layers, KV heads or dims are not known")
    main, index = both
    total = main + index
    whose = "rank" if setup.pp == 1 else "TP rank, over all pipeline stages"
    return yes(f"{main:,} + {index:,} = {total:,} B per token and {whose}; index keys are {index / total:.0%}")


def _shown(setup: Setup, _point: Point) -> Met:
    """A run can prove no more than its kernels name: vLLM's writer names the main cache's dtype, and no other does."""
    if not kv_dtype(setup).startswith("fp8"):
        return unknown("no kernel names the index cache's dtype: only the live tensor tells")
    if _sparse_pa.asked(setup).state is not Held.NO:
        return unknown("AITER's writers do not name the cache's dtype: only the live tensor tells")
    return yes("vLLM's op names it in the sparse layers; in the dense ones it stores nothing and is of the BF16 form")


def _fp8(setup: Setup, _point: Point) -> int | None:
    """Sparse layers whose K and V vLLM's op stores."""
    shown = kv_dtype(setup).startswith("fp8") and _sparse_pa.asked(setup).state is Held.NO
    return once(setup, setup.model.sparse_layers) if shown else None


def _bf16(setup: Setup, point: Point) -> int | None:
    """The dense layers beside an FP8 or an AITER writer, else all."""
    if not kv_dtype(setup).startswith("fp8") and not _sparse_pa.writes(setup, point):
        return once(setup, setup.model.layers)
    shown = _fp8(setup, point) is not None or _sparse_pa.writes(setup, point)
    return once(setup, setup.model.dense_layers) if shown else None


_CACHE = "*fusedminimaxm3qnormropekvinsertkernel*fp8kvcachedatatype){}*"

FAST_PATH = FastPath(
    title="FP8 KV cache",
    question="In which dtype are K, V and the index keys stored?",
    configured='--kv-cache-dtype fp8; --attention-config \'{"indexer_kv_dtype": "fp8"}\' for the index keys',
    default="both in BF16; FP8 main KV leaves the index cache in BF16",
    acts_on=(
        Family.ATTENTION,
        Family.SPARSE_ATTENTION,
        Family.KV_WRITE,
        Family.ROPE_KV,
    ),
    needs=(
        SPARSE_LAYERS,
        KV_DTYPE,
        INDEX_CACHE,
        BLOCK_SIZE,
        Need("the platform's FP8 flavour", _flavour, rules=("fp8_fnuz_archs",)),
        Need("bytes of both caches", _share),
        Need("a kernel whose name holds the dtype", _shown),
    ),
    variants=(
        Variant(
            name="FP8",
            role=Role.FAST,
            anchors=(_CACHE.format(1), _CACHE.format(2)),
            calls_per_step="sparse layers (the writer's template argument: 1 = E4M3, 2 = E5M2)",
            expected=_fp8,
            names_from_source=True,
            source="vllm::Fp8KVCacheDataType in csrc; the argument was seen in traces as 0 alone",
            vllm="0.24 to 0.33",
            note="tells the main cache; AITER's writer and the index cache do not show their dtype in a name",
        ),
        Variant(
            name="BF16",
            role=Role.FALLBACK,
            anchors=(_CACHE.format(0),),
            calls_per_step="layers; the dense ones (3) beside an FP8 cache",
            expected=_bf16,
            source="seen in H200 traces: (vllm::Fp8KVCacheDataType)0",
            vllm="0.24 to 0.33",
        ),
    ),
    asked=asked,
    only_m3=True,
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
