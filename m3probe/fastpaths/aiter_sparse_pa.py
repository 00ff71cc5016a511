"""AITER's page-16 paged attention over the chosen blocks: K and V stay where they are, page ids move.

Sources: vLLM PR 47287; ``common/sparse_attention.py`` (``minimax_m3_use_aiter_sparse_pa``) and ``amd/model.py`` at 0.32
and 0.33. 0.24 and 0.25.1 have no such code: the two settings reach nothing in MiniMax M3.
"""

from m3probe.fastpaths._m3 import AITER, SHUFFLE
from m3probe.fastpaths._sparse_pa import NEEDS, asked
from m3probe.fastpaths._sparse_variants import AITER_PA, TRITON
from m3probe.schema.paths import Effect, FastPath
from m3probe.schema.verdicts import Family

FAST_PATH = FastPath(
    title="AITER sparse paged attention",
    question="Did AITER's page-16 kernel attend to the chosen blocks?",
    configured=f"{AITER}=1 and {SHUFFLE}=1 (not --attention-backend, which is for the three dense layers)",
    default="off: both settings default to 0",
    acts_on=(
        Family.SPARSE_ATTENTION,
        Family.INDEXER,
    ),
    needs=NEEDS,
    variants=(AITER_PA, TRITON),
    asked=asked,
    family=Family.SPARSE_ATTENTION,
    only_m3=True,
    instead="Triton _gqa_sparse_* when not asked for; with both settings and a refused need the engine does not start",
    gates=("kv_dtype", "block_equal", "topk_layout", "eval_length", "eval_file"),
    effects=(
        Effect(
            "output +6.93 % MXFP4, +5.56 % MXFP8 at TP4, 8k1k, 256 requests (index reuse in both arms)", "vLLM PR 47287"
        ),
        Effect(
            "slower at 1k1k and at low concurrency: recipes ask for ISL >= 8192 and 64 requests", "InferenceX PR 2187"
        ),
        Effect("a mismatch of written and read layout: 11 x slower and an evaluation near zero", "vLLM PR 54717"),
    ),
    logs=("MiniMax M3 sparse attention selected AITER_SPARSE_PA (kv_cache_dtype=..., topk_blocks=...)",),
    functions=("minimax_m3_sparse_attn_decode_aiter", "minimax_m3_sparse_attn_prefill_aiter", "_run_gluon_decode"),
    sources=(
        "vLLM PR 47287",
        "common/sparse_attention.py:113-132 at 0.32 and 0.33",
        "0.33's ValueError points to the log line 'AITER unavailable'; that build logs 'MSA unavailable'",
    ),
)
