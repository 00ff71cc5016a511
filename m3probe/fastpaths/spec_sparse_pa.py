"""AITER's sparse paged attention when each request verifies drafted tokens: row -> (row // q, row % q).

Sources: vLLM PR 47984; ``MiniMaxM3SparseMetadataBuilder`` (reorder threshold 1 + drafts, ``require_uniform``) at 0.33.
Its kernels are the single-token ones: only the rows of the step tell the two apart.
"""

from dataclasses import replace

from m3probe.fastpaths import _sparse_pa
from m3probe.fastpaths._m3 import unknown
from m3probe.fastpaths._sparse_variants import AITER_PA, TRITON, aiter_calls, triton_calls
from m3probe.schema.paths import Asked, Effect, Expected, FastPath, Need, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family, Phase


def asked(setup: Setup) -> Asked:
    """Drafted tokens, and AITER's sparse paged attention."""
    if not setup.draft or not setup.spec_tokens:
        return Asked(Held.NO, "no --speculative-config: no token is verified")
    base = _sparse_pa.asked(setup)
    return Asked(base.state, f"{setup.spec_tokens} drafted tokens; {base.text}")


def _uniform(setup: Setup, point: Point) -> Met:
    """A batch whose requests differ in query length sends its verification rows to the prefill side."""
    queries = 1 + setup.spec_tokens
    if not point.requests:
        return unknown("requests of the step are not known")
    said = f"{point.rows} rows of {point.requests} requests, {queries} each make {point.requests * queries}"
    return met(point.rows == point.requests * queries, said)


def _verifies(calls: Expected) -> Expected:
    """The same calls where tokens are drafted, else None."""
    return lambda setup, point: calls(setup, point) if setup.spec_tokens else None


FAST_PATH = FastPath(
    title="AITER sparse paged attention, multi-token verification",
    question="Were drafted tokens verified by AITER's paged attention, on the decode side?",
    configured="--speculative-config with num_speculative_tokens, beside the settings of aiter_sparse_pa",
    default="off: no draft model",
    acts_on=(
        Family.SPARSE_ATTENTION,
        Family.INDEXER,
    ),
    needs=(
        *_sparse_pa.NEEDS,
        Need("a uniform batch: every request has 1 + num_speculative_tokens rows", _uniform, When.CALL),
    ),
    variants=(
        replace(AITER_PA, verifies=True, expected=_verifies(aiter_calls)),
        replace(TRITON, verifies=True, expected=_verifies(triton_calls)),
    ),
    asked=asked,
    phases=(Phase.DECODE,),
    decided_by=(Phase.DECODE,),
    family=Family.SPARSE_ATTENTION,
    only_m3=True,
    instead="the prefill side of the same attend for a batch that is not uniform; Triton when AITER is not asked for",
    gates=("kv_dtype", "block_equal", "topk_layout", "attn_group_key", "eval_length", "eval_acceptance", "eval_file"),
    effects=(
        Effect("output +8.32 % MXFP4, +7.90 % MXFP8 at TP4, EAGLE3 with 3 drafts, 8k1k, 256 requests", "vLLM PR 47984"),
    ),
    functions=("minimax_m3_sparse_attn_decode_aiter(..., decode_query_len > 1)",),
    sources=("vLLM PR 47984", "vLLM issue 53943: true for plain decode, the speculative shape silently left out"),
)
