"""QK-norm, RoPE, KV insert and index-key insert in one kernel.

Sources: vLLM PR 54535; ``fused_qknorm_idxrqknorm_enabled`` (_aiter_ops.py) and ``amd/model.py`` at 0.32 and 0.33; vLLM's
own op ``fused_minimax_m3_qknorm_rope_kv_insert`` since 0.24. AITER's form serves sparse layers of the sparse-PA branch
alone; the three dense layers always launch vLLM's op.
"""

from __future__ import annotations

from m3probe.fastpaths import _sparse_pa
from m3probe.fastpaths._m3 import absent, build_name, kv_dtype, no, once, yes
from m3probe.schema.paths import Asked, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Family


def asked(setup: Setup) -> Asked:
    """It has no switch of its own: it comes with AITER's sparse paged attention."""
    base = _sparse_pa.asked(setup)
    if base.state is not Held.NO and absent(setup, "qknorm_aiter"):
        return Asked(Held.NO, f"{build_name(setup)} has no AITER QK-norm for MiniMax M3")
    return base


def _dtype(setup: Setup, _point: Point) -> Met:
    dtype, allowed = kv_dtype(setup), setup.build.rule("qknorm_aiter").value["dtypes"]
    if dtype in allowed:
        return yes(f"--kv-cache-dtype {dtype} is one of {', '.join(allowed)}")
    why = "the same cache, but the check compares the word auto" if dtype == "bfloat16" else "not served"
    return no(f"--kv-cache-dtype {dtype} is none of {', '.join(allowed)}: {why}; vLLM's op and two inserts run")


def _aiter(setup: Setup, point: Point) -> int | None:
    return once(setup, setup.model.sparse_layers) if _sparse_pa.writes(setup, point) else None


def _op(setup: Setup, point: Point) -> int | None:
    """vLLM's op: all layers, or the dense ones where AITER's takes the sparse ones; unknown on an unknown build."""
    if _sparse_pa.asked(setup).state is Held.UNKNOWN:
        return None
    return once(setup, setup.model.dense_layers if _sparse_pa.writes(setup, point) else setup.model.layers)


FAST_PATH = FastPath(
    title="fused QK-norm, RoPE and KV insert",
    question="Which kernel normed, rotated and stored Q, K, V and the index key?",
    configured="VLLM_ROCM_USE_AITER=1 and VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1 for AITER's; vLLM's op needs nothing",
    default="vLLM's op in all 60 layers",
    acts_on=(
        Family.ROPE_KV,
        Family.NORM,
        Family.KV_WRITE,
    ),
    needs=(
        *_sparse_pa.NEEDS,
        Need(
            "KV dtype auto, fp8 or fp8_e4m3; M3's layers always have both scales", _dtype, When.LOAD, ("qknorm_aiter",)
        ),
    ),
    variants=(
        Variant(
            name="AITER",
            role=Role.FAST,
            anchors=("*fusedqknormidxrqknormkernel*",),
            vendor="amd",
            needs=(Need("AITER sparse paged attention, and KV dtype auto, fp8 or fp8_e4m3"),),
            calls_per_step="sparse_layers (57); the 3 dense layers launch vLLM's op",
            expected=_aiter,
            names_from_source=True,
            source="AITER csrc (fusedQKNormIdxrQKNormKernel); amd/model.py at 0.32 and 0.33",
            vllm="0.32, 0.33",
        ),
        Variant(
            name="vLLM op",
            role=Role.FALLBACK,
            anchors=("*fusedminimaxm3qnormropekvinsert*",),
            also=("*reshape_and_cache*", "_insert_index_cache_kernel*"),
            calls_per_step="layers (60); the dense ones (3) beside AITER's",
            expected=_op,
            source="vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel; seen in H200 traces",
            vllm="0.24 to 0.33",
            note="on the sparse-PA branch it stores nothing: reshape_and_cache and _insert_index_cache_kernel follow it",
        ),
    ),
    asked=asked,
    family=Family.ROPE_KV,
    only_m3=True,
    instead="vLLM's op; on the sparse-PA branch with two insert kernels per computing layer beside it",
    gates=("kv_dtype", "cosine", "eval_file"),
    functions=("rocm_aiter_ops.fused_qknorm_idxrqknorm", "ops.fused_minimax_m3_qknorm_rope_kv_insert"),
    sources=("vLLM PR 54535", "_aiter_ops.py:2475 at 0.33, :2287 at 0.32"),
)
