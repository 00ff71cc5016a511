"""What a rank looks up in tuned tables: its MoE key, and its dense GEMMs where a library picks their kernel.

Sources: AITER ``fused_moe.py`` (``get_2stage_cfgs``); ``rocm_unquantized_gemm_impl`` (layers/utils.py) at 0.24 to 0.33.
"""

from __future__ import annotations

from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._m3 import AITER, option
from m3probe.fastpaths._shared_expert import experts_and_slots, fused_shared
from m3probe.fastpaths.mxfp8_linear import is_mxfp8, linear_backend
from m3probe.schema.setup import Setup
from m3probe.schema.tuned import GemmKey, Key, MoeKey, TableKind

TUNABLEOP, LINEAR = "PYTORCH_TUNABLEOP_ENABLED", "VLLM_ROCM_USE_AITER_LINEAR"
_Q_DTYPES = {"mxfp8": "float8_e4m3fn", "mxfp4": "float4_e2m1fn_x2"}


def keys_of(setup: Setup, rows: int) -> tuple[Key, ...]:
    """What this rank looks up in a step of so many rows: the MoE key, then the dense GEMMs that read a table.

    Args:
        setup: sizes that its model does not tell leave their keys out.
        rows: rows of the call, before padding.
    """
    moe = moe_key(setup, rows)
    return (*((moe,) if moe else ()), *dense_keys(setup, rows))


def moe_key(setup: Setup, rows: int) -> MoeKey | None:
    """AITER's fused-MoE key; None where AITER does not run the experts or a size is not known."""
    model, sizes = setup.model, experts_and_slots(setup)
    if not pick(setup).aiter or sizes is None or model.hidden_size is None or model.moe_intermediate is None:
        return None
    shards = 1 if setup.expert_parallel else setup.tp * setup.dp
    dtype = _Q_DTYPES[str(model.moe_quant)]
    return MoeKey(
        rows=rows,
        model_dim=model.hidden_size,
        inter_dim=model.moe_intermediate // shards,
        experts=sizes[0],
        top_k=sizes[1],
        act="Swiglu",
        dtype="bfloat16",
        q_dtype_a=dtype,
        q_dtype_w=dtype,
        q_type="per_1x32",
        g1u1=True,
        weight_stage1=False,
        cu_num=setup.units,
        gfx=setup.gfx,
    )


def dense_kind(setup: Setup) -> TableKind | None:
    """Who is asked for a BF16 GEMM: AITER's table, PyTorch's, or nobody. Native MXFP8 asks none.

    Emulated MXFP8 calls F.linear itself and so passes AITER's table by. vLLM's skinny kernels come first (up to 5
    rows, and 10 to 128 where the shape fits): a tuned row is no proof.
    """
    emulated = is_mxfp8(setup) and linear_backend(setup)[0] == "emulation"
    if setup.model.linear_quant != "bf16" and not emulated:
        return None
    tgemm = setup.on(AITER, default=False) and setup.on(LINEAR, default=True) and (setup.gfx or "").startswith("gfx950")
    if tgemm and not emulated:
        return TableKind.GEMM
    return TableKind.TUNABLEOP if setup.env.get(TUNABLEOP) == "1" else None  # PyTorch compares with 1 alone


def dense_keys(setup: Setup, rows: int) -> tuple[GemmKey, ...]:
    """Attention projections and, unfused, the shared expert's; the dense layers' MLP is not in the model's facts."""
    kind = dense_kind(setup)
    if kind is None:
        return ()
    sizes = dict.fromkeys((*_attention(setup), *_shared(setup)))
    units, gfx = (setup.units, setup.gfx) if kind is TableKind.GEMM else (None, None)
    return tuple(GemmKey(rows, n, k, "bfloat16", cu_num=units, gfx=gfx) for n, k in sizes)


def _attention(setup: Setup) -> tuple[tuple[int, int], ...]:
    """(N, K) of qkv without and with the index branch, and of the output projection."""
    model, kv = setup.model, setup.kv_heads_per_rank
    if not (model.hidden_size and model.q_heads and model.head_dim and kv):
        return ()
    queries = model.q_heads // setup.tp * model.head_dim
    qkv = queries + 2 * kv * model.head_dim
    found = [(qkv, model.hidden_size), (model.hidden_size, queries)]
    if model.index_dim and model.index_heads and not _index_cp(setup):
        # One index head per KV head of the rank, and one index key for all.
        found.insert(1, (qkv + (kv + 1) * model.index_dim, model.hidden_size))
    return tuple(found)


def _index_cp(setup: Setup) -> bool:
    """Its MSA form widens the fused projection; which form runs is the indexer's to say."""
    return bool(option(setup, "attention-config", "minimax_m3_indexer_cp"))


def _shared(setup: Setup) -> tuple[tuple[int, int], ...]:
    model = setup.model
    if not (model.shared_experts and model.moe_intermediate and model.hidden_size) or fused_shared(setup) is not False:
        return ()
    inner = model.shared_experts * model.moe_intermediate // setup.tp
    return (2 * inner, model.hidden_size), (model.hidden_size, inner)
