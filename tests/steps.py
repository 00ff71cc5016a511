"""Hand-written decode steps of a small MiniMax-M3-like model: one dense and two sparse layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builders import kernel, launch, step

GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"
FLASH = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int)"
SCORE, ATTEND = "_decode_index_score_kernel", "_gqa_sparse_decode_kernel"
ROUTE = "void vllm::moe::topkGating<4, 128, 4>(int)"
EXPERTS, SWIGLU, SUM = "fused_moe_kernel", "_swiglu_oai_kernel", "void vllm::moe::moe_sum_vec_kernel<int, 4>(int)"
ACT = "void vllm::act_and_mul_kernel<int>(int)"

DENSE = [GEMM, FLASH, GEMM, GEMM, SWIGLU, GEMM]
ROUTED = [EXPERTS, ACT, EXPERTS, SUM]
SHARED = [GEMM, REDUCE, SWIGLU, GEMM]
SPARSE = [GEMM, SCORE, ATTEND, GEMM, ROUTE, *SHARED, *ROUTED]
SPARSE_FUSED = [GEMM, SCORE, ATTEND, GEMM, ROUTE, *ROUTED]
MODEL = [*DENSE, *SPARSE, *SPARSE]
"""6 + 2 x 13 = 32 kernels."""

PERIOD_US = 1000.0
DECODE = "execute_context_0(0)_generation_2(2)"


def one_step(
    at: float,
    first: int,
    names: Sequence[str],
    *,
    graph: bool = False,
    record: bool = True,
    every_us: float = 10.0,
    dur_us: float = 2.0,
    said: str = DECODE,
) -> list[dict[str, Any]]:
    """A step at ``at`` us: eager (a launch per kernel, its kernel 1 us later) or one graph launch.

    Correlations count from ``first``. Without ``record`` no kernel is recorded.
    """
    events = [step(at, 900.0, said)]
    if graph:
        events.append(launch(at, first, "hipGraphLaunch"))
    for i, name in enumerate(names):
        begin = at + every_us * i
        if not graph:
            events.append(launch(begin, first + i))
        if record:
            events.append(kernel(begin + 1, dur_us, first if graph else first + i, name))
    return events


def steps(number: int, names: Sequence[str] = MODEL, **how: Any) -> list[dict[str, Any]]:
    """``number`` equal steps, one each `PERIOD_US`."""
    return [e for i in range(number) for e in one_step(PERIOD_US * (i + 1), 1000 * (i + 1), names, **how)]
