"""Which kernels attend to the chosen blocks of MiniMax M3's sparse layers.

Sources: vLLM PR 47287 (AITER page-16), PR 47984 (its multi-token form), PR 46035 (Triton); files at 0.33:
``models/minimax_m3/common/sparse_attention.py``, ``amd/ops/sparse_pa.py``, ``nvidia/sparse_attention_msa.py``.
"""

from m3probe.fastpaths._m3 import BLOCK_SIZE, INDEX_CACHE, KV_DTYPE, SPARSE_LAYERS
from m3probe.fastpaths._sparse_variants import AITER_PA, TRITON, msa_calls
from m3probe.schema.paths import FastPath, Need, Role, Variant
from m3probe.schema.verdicts import Family

FAST_PATH = FastPath(
    title="sparse attention",
    question="Which implementation attended to the selected blocks?",
    configured="AMD: VLLM_ROCM_USE_AITER=1 and VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1; NVIDIA: chosen by device and KV dtype",
    default="Triton (both AMD settings are off)",
    acts_on=(Family.SPARSE_ATTENTION,),
    needs=(SPARSE_LAYERS, BLOCK_SIZE, KV_DTYPE, INDEX_CACHE),
    variants=(
        AITER_PA,
        Variant(
            name="MSA",
            role=Role.FAST,
            anchors=("*sparseattentionforwardsm100*", "*sparse_atten*sm100*"),
            also=("*build_k2q_csr*", "*fmha_sm100*"),
            vendor="nvidia",
            needs=(Need("SM100, any KV dtype but fp8_e5m2, 4, 8, 16 or 32 blocks per query"),),
            calls_per_step="sparse_layers in steps with prefill rows",
            expected=msa_calls,
            names_from_source=True,
            source="nvidia/sparse_attention_msa.py; class SparseAttentionForwardSm100 of vllm-project/MSA "
            "(fmha_sm100), which the compiler writes into the kernel's name",
            vllm="0.24 to 0.33",
            note="prefill only: decode under MSA launches the Triton kernels",
        ),
        TRITON,
    ),
    chooses=True,
    family=Family.SPARSE_ATTENTION,
    only_m3=True,
    instead="nothing: a sparse layer without an attend does not run",
    gates=("kv_dtype", "block_equal", "topk_layout", "eval_file"),
    logs=("MiniMax M3 sparse attention selected AITER_SPARSE_PA|MSA|Triton (kv_cache_dtype=..., topk_blocks=...)",),
    functions=("select_main_backend_and_impl_cls", "MiniMaxM3SparseTritonImpl.forward"),
    sources=("vLLM PR 46035, 47287, 47984", "common/sparse_attention.py at 0.24 to 0.33"),
)
