"""Which kernels score the index keys and choose the blocks.

Sources: vLLM PR 54682, 55235, 52664; ``amd/ops/index_topk.py``, ``amd/indexer_aiter.py`` (0.32), ``amd/indexer_msa.py``
(0.33), ``amd/indexer_context_parallel.py`` (0.33), ``common/indexer.py`` (0.24 to 0.33).
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import (
    FP8_INDEX,
    INDEX_CACHE,
    ROCM,
    SPARSE_LAYERS,
    absent,
    asked_index_dtype,
    build_name,
    calls,
    emits_table,
    flag,
    index_dtype,
    no,
    number,
    on_rocm,
    once,
    option,
    switch,
    unknown,
    yes,
)
from m3probe.fastpaths.index_reuse import computing_layers
from m3probe.schema.paths import Asked, Effect, FastPath, LaunchCheck, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family, Phase

CP = "minimax_m3_indexer_cp"
COLUMNS = 16
"""MFMA columns of the score pass: vLLM's own number at 0.32; 0.33 takes AITER's SCORE_MFMA_COLS."""
_ONCE = "computing layers (57, or 15 with reuse at frequency 4), once per decode and prefill side"
BALANCED = {8: 1024, 11: 768}
"""Up to so many requests: programs of ``_decode_index_score_balanced_kernel`` (amd/ops/index_topk.py, 0.32 and 0.33)."""


def requests_of_grid(kernel: str, grid: tuple[int, int, int]) -> int | None:
    """Requests that one launch of the decode scorer served, by its grid; None where the kernel does not tell.

    Split form: grid (requests, chunks). Balanced form (gfx950, BF16, up to 11 requests): (programs + requests - 1,).
    """
    if "_decode_index_score_balanced" in kernel:
        for requests in range(1, max(BALANCED) + 1):
            programs = next(n for most, n in BALANCED.items() if requests <= most)
            if grid[0] == programs + requests - 1:
                return requests
        return None
    return grid[0] if "_decode_index_score_kernel" in kernel else None


def one_workgroup_per_request(kernel: str, grid: tuple[int, int, int], rows: int, requests: int) -> Met:
    """Whether a request's drafted tokens were scored together: the grid counts requests, not rows.

    A step with as many rows as requests cannot tell, and is unknown.
    """
    served = requests_of_grid(kernel, grid)
    if served is None:
        return unknown(f"the grid of {kernel} does not tell requests")
    said = f"grid {grid}: {served} requests served; the step has {requests} requests, {rows} rows"
    if served == rows == requests:
        return unknown(f"{said}: nothing to tell apart")
    return met(served == requests, said)


def asks_cp(setup: Setup) -> bool:
    """Whether the context-parallel form is asked for."""
    return switch(option(setup, "attention-config", CP))


def asked(setup: Setup) -> Asked:
    """An FP8 index cache (the AITER or MSA indexer), or the context-parallel form."""
    said, fp8, cp = asked_index_dtype(setup), index_dtype(setup) in FP8_INDEX, asks_cp(setup)
    if not fp8 and not cp:
        if said in FP8_INDEX:
            why = f"indexer_kv_dtype {said} reaches nothing: {build_name(setup)} does not hand it to the ROCm indexer"
            return Asked(Held.NO, why, wasted=True)
        return Asked(Held.NO, f"indexer_kv_dtype is {'bf16' if said == 'auto' else said}, not fp8: no FP8 indexer")
    words = [f"indexer_kv_dtype {said}"] * fp8 + [f"{CP} true"] * cp
    return Asked(Held.YES, ", ".join(words))


def _fp8(setup: Setup, _point: Point) -> Met:
    if index_dtype(setup) not in FP8_INDEX:
        return yes("the index cache is bf16: the Triton indexer's own form")
    return emits_table(setup)


def _cp(setup: Setup, _point: Point) -> Met:
    """Triton form: ROCm and TP above 1, else ValueError (common/indexer.py:513). MSA form: never a stop."""
    if not asks_cp(setup):
        return yes(f"{CP} is not asked for")
    if absent(setup, "indexer_cp"):
        return no(f"{build_name(setup)} has no {CP}: the engine does not start on an unknown field")
    if not setup.build.rule("indexer_cp").known:
        return unknown(f"rule indexer_cp is {setup.build.rule('indexer_cp').status} on this build")
    if index_dtype(setup) in FP8_INDEX:
        return _msa_cp(setup)
    if setup.tp < 2:
        return no(f"{CP} at TP{setup.tp}: more than one rank is needed, the engine does not start (ValueError)")
    return yes(f"{CP} at TP{setup.tp}")


def _msa_cp(setup: Setup) -> Met:
    """``msa_indexer_cp_enabled`` (amd/indexer_msa.py:881 at 0.33): refused sharding is a log line, and MSA runs whole."""
    if emits_table(setup).held is not Held.YES:
        return unknown(f"{CP} beside an FP8 index cache: only where the MSA indexer is selected")
    why = _unsharded(setup)
    if why is None:
        return unknown("index heads or KV heads are not known")
    return yes(f"{why}: MSA runs without context parallelism, with a log line" if why else f"{CP} at TP{setup.tp}")


def _unsharded(setup: Setup) -> str | None:
    """Why MSA is not sharded; empty when it is, None when a count is not known."""
    heads, kv_heads, tp, tokens = setup.model.index_heads, setup.kv_heads_per_rank, setup.tp, 1 + setup.spec_tokens
    if tp < 2:
        return f"TP{tp} has nothing to shard over"
    if heads is None or kv_heads is None:
        return None
    if (number(flag(setup, "decode-context-parallel-size")) or 1) > 1:
        return "--decode-context-parallel-size owns the context axis"
    if tp > heads or heads % tp:
        return f"{heads} index heads over TP{tp}"
    if heads * tokens > COLUMNS:
        return f"{heads} index heads x {tokens} tokens = {heads * tokens} > {COLUMNS} MFMA columns"
    return f"{heads // tp} index heads but {kv_heads} KV heads per rank" if heads // tp != kv_heads else ""


def _fp8_calls(setup: Setup, point: Point) -> int | None:
    """The AITER or MSA indexer, where it is selected."""
    if index_dtype(setup) not in FP8_INDEX or emits_table(setup).held is not Held.YES:
        return None
    return calls(setup, point, computing_layers(setup))


def _cp_calls(setup: Setup, point: Point) -> int | None:
    """The context-parallel Triton form: decode rows alone."""
    runs = asks_cp(setup) and index_dtype(setup) == "bf16" and _cp(setup, point).held is Held.YES
    if not runs or point.phase is Phase.PREFILL or on_rocm(setup) is not True:
        return None
    return once(setup, computing_layers(setup))


def _triton_calls(setup: Setup, point: Point) -> int | None:
    """Triton's own form; with context parallelism the decode rows are not its."""
    if index_dtype(setup) != "bf16" or asks_cp(setup):
        return None
    return calls(setup, point, computing_layers(setup))


FAST_PATH = FastPath(
    title="indexer",
    question="Which kernels scored the index keys and chose the blocks?",
    configured=f'--attention-config \'{{"indexer_kv_dtype": "fp8"}}\'; {CP} splits decode scoring over the ranks (0.33)',
    default="Triton on a BF16 index cache",
    acts_on=(Family.INDEXER,),
    needs=(
        SPARSE_LAYERS,
        ROCM,
        INDEX_CACHE,
        Need("the FP8 indexer takes the shape: gfx950, score max, 16 of 128-token blocks, dim 128", _fp8),
        Need("context parallelism of the Triton form: ROCm, TP above 1", _cp, When.START),
    ),
    variants=(
        Variant(
            name="FP8 (AITER, MSA)",
            role=Role.FAST,
            anchors=("*pa_sparse_block_score*", "*sparse_block_score*mfma*"),
            also=("*pa_sparse_block_topk*",),
            vendor="amd",
            needs=(Need("AITER sparse paged attention, gfx950, FP8 index cache, context of at most 8,192 blocks"),),
            calls_per_step=_ONCE,
            expected=_fp8_calls,
            names_from_source=True,
            source="AITER's entry points as vLLM calls them (pa_sparse_block_score_decode, _prefill, _topk); the kernels' "
            "own names could not be read",
            vllm="0.32 (called AITER), 0.33 (called MSA)",
        ),
        Variant(
            name="Triton CP",
            role=Role.FAST,
            anchors=("_context_score*",),
            also=("_local_topk_keys*", "_merge_topk_keys*"),
            vendor="amd",
            needs=(Need(f"{CP}, BF16 index cache, TP above 1"),),
            calls_per_step="computing layers in steps with decode rows",
            expected=_cp_calls,
            names_from_source=True,
            source="amd/ops/indexer_context_parallel.py, amd/ops/indexer_cp_exchange.py at 0.33",
            vllm="0.33",
            note="index queries are gathered at run time: the fused QKV keeps its size (only the MSA form replicates it)",
        ),
        Variant(
            name="Triton",
            role=Role.FALLBACK,
            anchors=(
                "_decode_index_score_kernel*",
                "_decode_index_score_balanced_kernel*",
                "_index_block_score_kernel*",
            ),
            also=(
                "_topk_index_partial_kernel*",
                "_topk_index_merge_kernel*",
                "_decode_topk_fused_kernel*",
                "_topk_index_kernel*",
                "_build_sparse_block_table*",
                "_insert_index_cache_kernel*",
            ),
            calls_per_step=_ONCE,
            expected=_triton_calls,
            source="amd/ops/index_topk.py and common/ops/index_topk.py; seen in H200 traces",
            vllm="0.24 to 0.33",
            note="0.24 and 0.25.1 choose in two kernels (partial, merge), 0.32 and 0.33 in one (fused)",
        ),
    ),
    asked=asked,
    family=Family.INDEXER,
    launch=LaunchCheck("one workgroup per request", one_workgroup_per_request),
    only_m3=True,
    instead="the Triton indexer on a BF16 index cache; an FP8 cache without its indexer stops the engine on ROCm",
    gates=("topk_layout", "eval_length", "eval_file"),
    effects=(
        Effect(
            "up to 48.9 % on the score kernel, 3.3 % end to end, from batching (vLLM PR 45743)", "vLLM blog, 2026-09-10"
        ),
        Effect(
            "15.3 % of the GPU span on MI300X at 256 requests; 20.5 % at 315K context", "InferenceX 1840, ATOM PR 2163"
        ),
    ),
    logs=(
        "MiniMax M3 indexer: selected MSA|AITER (... fp8 MFMA score + top-k) [...]",
        "MiniMax M3 indexer: MSA|AITER unavailable (%s)",
        "MiniMax M3 indexer: selected Triton (no fmha_sm100) [...]",
        "MiniMax M3 indexer CP: enabled over %d ranks | disabled (%s)",
    ),
    functions=("minimax_m3_index_decode", "select_aiter_indexer_impl_cls", "select_msa_indexer_impl_cls"),
    sources=("vLLM PR 54682, 55235, 52664", "amd/model.py:1425-1467 at 0.33"),
)
