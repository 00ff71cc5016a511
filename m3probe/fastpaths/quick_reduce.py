"""QuickReduce: the TP all-reduce in fewer bits.

Sources: vLLM PR 19744, 41675, 41679; ``quick_all_reduce.py`` at 0.24, 0.25.1, 0.32, 0.33. The log line that lists
QUICK_REDUCE among the backends tells that the object was built, at no size in particular.
"""

from dataclasses import replace

from m3probe.fastpaths import _quick_reduce as qr
from m3probe.fastpaths._all_reduce import QUICK_REDUCE, backend_of
from m3probe.fastpaths._comm_variants import AITER_AR, BARE_AR, FLYDSL, HIP, RCCL_AR, VLLM_AR
from m3probe.fastpaths._m3 import yes
from m3probe.fastpaths._tp_group import allowed, at_size, fixed_order, model_dtype
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, When
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Family

_BITS = {"INT8": 8, "INT6": 6, "INT4": 4, "INT3": 3}


def sent_bits(setup: Setup, payload: int) -> int:
    """Bits of a BF16 value on the links: a codec's where QuickReduce takes a payload of so many bytes, or may take it."""
    if qr.codec(setup) == "NONE" or backend_of(setup, payload)[0] not in (QUICK_REDUCE, None):
        return 16
    return _BITS.get(qr.codec_at(setup, payload), 16)


def asked(setup: Setup) -> Asked:
    """A codec; without one the other variables of QuickReduce reach nothing."""
    if qr.codec(setup) == "NONE":
        said = f"{qr.QUANTIZATION} is {'NONE' if qr.QUANTIZATION in setup.env else 'not set (default NONE)'}"
        bad = [name for name in qr.NUMBERS if name in setup.env and qr.whole(setup, name) is None]
        others = [name for name in (qr.CAST, *qr.NUMBERS) if name in setup.env and name not in bad]
        said += f"; {', '.join(others)} reach nothing" if others else ""
        said += f"; {', '.join(bad)} stop the engine all the same: no whole number, and each is read" if bad else ""
        return Asked(Held.NO, said, wasted=bool(others))
    return Asked(
        Held.YES, "; ".join(t for t in (f"{qr.QUANTIZATION}={qr.codec(setup)}", qr.threshold_text(setup)) if t)
    )


def _allowed(setup: Setup, _point: Point) -> Met:
    return allowed(setup)


def _fixed_order(setup: Setup, _point: Point) -> Met:
    return fixed_order(setup)


def _size(setup: Setup, point: Point) -> Met:
    """The payload of this step, rows x hidden size x 2 B, as a graph pads it; the table has no other dtype's sizes."""
    if model_dtype(setup) == "float32":
        return yes("no size is asked: see the dtype")
    return at_size(setup, point, lambda payload: qr.size(setup, payload))


FAST_PATH = FastPath(
    title="QuickReduce all-reduce",
    question="Did QuickReduce, with the codec asked for, sum over the ranks?",
    configured=f"{qr.QUANTIZATION}={{FP,INT8,INT6,INT4,INT3}}; {qr.CAST} (on by default) chooses the column of the size "
    f"table, {qr.MIN_MB} and {qr.MAX_MB} (whole MiB) the sizes, {qr.CODEC_KB} only the codec",
    default="off: the codec is NONE",
    acts_on=(Family.COMM,),
    needs=(
        Need("values that vLLM can read", qr.settings, When.START, ("qr_codecs",)),
        Need("custom all-reduces: more than one rank, gfx94x or gfx95x, one node, not switched off", _allowed),
        Need("a GPU of QuickReduce's list", qr.archs, rules=("qr_archs",)),
        Need("TP2, TP4 or TP8", qr.world, rules=("qr_world_sizes",)),
        Need("INT3 at TP2 alone", qr.int3),
        Need("activations in fp16 or bf16", qr.dtype, rules=("qr_dtypes",)),
        Need("not batch invariant", _fixed_order),
        Need("a payload within the size table, or the override, and the largest size", _size, When.CALL),
    ),
    variants=(
        FLYDSL,
        *HIP,
        *(replace(v, role=Role.FALLBACK) for v in (AITER_AR, VLLM_AR, BARE_AR)),
        RCCL_AR,
    ),
    asked=asked,
    family=Family.COMM,
    instead="AITER's or vLLM's all-reduce where the payload fits them, else RCCL (docs/all-reduce.md has the intervals); "
    "attention's all-reduce of small batches is fused with its norm before QuickReduce is asked",
    gates=("eval_file", "cosine"),
    effects=(
        Effect(
            "INT4, MXFP4, TP4, 8k1k: TTFT 258 to 234 ms at 4 requests and 1,343 to 1,240 ms at 128, output 4,060 to 4,063 "
            "and 27,778 to 29,165 tok/s: the gain sits in prefill",
            "InferenceX PR 2333",
        ),
        Effect("INT6 +6 to 14 % at batch; GSM8K 0.9143 in both arms", "vllm-project/recipes PR 581"),
        Effect("ungated INT4 costs about 18.4 us a call where a custom all-reduce costs about 3 us", "ROCm/aiter 4970"),
    ),
    logs=(
        "Custom quick allreduce: quantization codec threshold = %d KB",
        "Custom quick allreduce: min size override = %d MB",
        "Using AITER FlyDSL INT4 QuickReduce for BF16 payloads; other payloads use the HIP QuickReduce kernels.",
        "Using [...] all-reduce backends (in dispatch order): the object was built; no size is told",
    ),
    functions=("QuickAllReduce.quick_all_reduce", "QuickAllReduceInt4.allreduce (AITER)"),
    sources=(
        "vLLM PR 19744, 41675, 41679",
        "quick_all_reduce.py:52 (table) and :348 (should_quick_allreduce) at 0.33",
        "csrc/custom_quickreduce.cu:qr_max_size (2,147,483,648 B)",
    ),
)
