"""Facts of the tensor-parallel group that every all-reduce backend on ROCm asks for.

Sources, at 0.24, 0.25.1, 0.32 and 0.33: ``cuda_communicator.py`` (``CudaCommunicator.__init__``),
``config/parallel.py``, ``platforms/rocm.py`` (``use_custom_allreduce``).
"""

from __future__ import annotations

from collections.abc import Callable

from m3probe.fastpaths._capture import launched
from m3probe.fastpaths._m3 import build_name, flag, no, number, on_rocm, unknown, yes
from m3probe.schema.paths import Check
from m3probe.schema.setup import Held, Met, Point, Setup

MIB = 1 << 20
ALIGN = 16
"""Bytes: QuickReduce, AITER's and vLLM's all-reduce refuse a payload that is no multiple of it."""
ARCHS = ("gfx94", "gfx95")
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
ONE_RANK = "TP1: no all-reduce"
# These turn custom all-reduces off for VLLM_BATCH_INVARIANT and for --nnodes > 1 (config/parallel.py:963 and :991).
_TURNS_OFF = ("0.24.0", "0.25.1")
# These drop QuickReduce and AITER alone (cuda_communicator.py:78-82, :184) and ask whether the group spans nodes.
_KEEPS_CUSTOM = ("0.32.0", "0.33.0")
_DTYPES = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}


def release(setup: Setup) -> str:
    """``0.33.0`` of 0.33.0+rocm721; empty for a build that is no release."""
    return (setup.build.version or "").split("+")[0]


def model_dtype(setup: Setup) -> str | None:
    """Dtype of the activations: ``--dtype``, whose ``auto`` is the checkpoint's, BF16 for MiniMax M3; None: not known."""
    said = str(flag(setup, "dtype") or "auto")
    if said == "auto":
        return "bfloat16" if setup.model.is_minimax_m3 else _DTYPES.get(setup.model.dtype or "")
    return _DTYPES.get(said)


def row_bytes(setup: Setup) -> int | None:
    """Bytes of one row of an all-reduce: hidden size x element size (12,288 for MiniMax M3 in BF16)."""
    dtype, hidden = model_dtype(setup), setup.model.hidden_size
    return None if dtype is None or hidden is None else hidden * (4 if dtype == "float32" else 2)


def switched_on(setup: Setup, name: str) -> bool:
    """Whether a flag without a value was given (or given as true)."""
    said = flag(setup, name)
    return said is not None and str(said).strip().lower() not in ("", "0", "false", "no")


def batch_invariant(setup: Setup) -> bool | None:
    """VLLM_BATCH_INVARIANT as vLLM reads it, ``bool(int(...))``; None: no number, with which vLLM does not start."""
    return setup.int_on(BATCH_INVARIANT, default=False)


def no_amd(setup: Setup) -> str:
    """The sentence for a GPU of another vendor, whose code is not judged here; empty for AMD's and an unknown one."""
    return f"{setup.gfx} is no ROCm GPU: not judged" if on_rocm(setup) is False else ""


def amd(check: Check) -> Check:
    """A need of ROCm's code, which another vendor's GPU leaves open: there a rule may be absent and its value None."""
    return lambda setup, point: unknown(no_amd(setup)) if no_amd(setup) else check(setup, point)


def allowed(setup: Setup) -> Met:
    """Whether the TP group may build all-reduces of its own at all; else every one is RCCL's."""
    answers = (_ranks(setup), _gpu(setup), _flag(setup), _order(setup), _nodes(setup))
    for held in (Held.NO, Held.UNKNOWN):
        texts = [answer.text for answer in answers if answer.held is held]
        if texts:
            return Met(held, "; ".join(texts))
    return yes(f"TP{setup.tp} on {setup.gfx}, one node (XGMI between all of its GPUs is taken as given)")


def fixed_order(setup: Setup) -> Met:
    """QuickReduce and AITER have no fixed order of summation: batch invariance does without them."""
    on = batch_invariant(setup)
    if on is None:
        return unknown(f"{BATCH_INVARIANT}={setup.env[BATCH_INVARIANT]!r} is no number")
    if not on:
        return yes(f"{BATCH_INVARIANT} is off")
    return no(f"{BATCH_INVARIANT}={setup.env[BATCH_INVARIANT]}: its order of summation is not fixed")


def _ranks(setup: Setup) -> Met:
    return no(ONE_RANK) if setup.tp == 1 else yes(f"TP{setup.tp}")


def _gpu(setup: Setup) -> Met:
    if not setup.gfx or no_amd(setup):
        return unknown(no_amd(setup) or "the GPU is not known")
    if setup.gfx.startswith(ARCHS):
        return yes(setup.gfx)
    return no(f"GPU {setup.gfx}: vLLM builds custom all-reduces on gfx94x and gfx95x alone")


def _flag(setup: Setup) -> Met:
    name = "disable-custom-all-reduce"
    return no(f"--{name}") if switched_on(setup, name) else yes(f"--{name} is not set")


def _order(setup: Setup) -> Met:
    on = batch_invariant(setup)
    if on is None:
        return unknown(f"{BATCH_INVARIANT}={setup.env[BATCH_INVARIANT]!r} is no number")
    said = f"{BATCH_INVARIANT} is {'on' if on else 'off'}"
    if not on or release(setup) in _KEEPS_CUSTOM:
        return yes(said)
    if release(setup) in _TURNS_OFF:
        return no(f"{said}: {build_name(setup)} turns custom all-reduces off")
    return unknown(f"{said}, and what this build makes of it is not known")


def _nodes(setup: Setup) -> Met:
    nodes, ranks = setup.nodes, setup.tp * setup.pp * setup.dp
    if nodes is None:
        return unknown("the number of nodes is not known")
    if nodes == 1:
        return yes("one node")
    if setup.tp * nodes > ranks:
        return no(f"TP{setup.tp} of {ranks} ranks on {nodes} nodes: the group spans nodes")
    flagged = (number(flag(setup, "nnodes")) or 1) > 1
    if release(setup) in _TURNS_OFF and flagged:
        return no(f"--nnodes {nodes}: {build_name(setup)} turns custom all-reduces off")
    if release(setup) in _KEEPS_CUSTOM or release(setup) in _TURNS_OFF:
        return yes(f"TP{setup.tp} fits one of {nodes} nodes")
    return unknown(f"{nodes} nodes, and what this build makes of them is not known")


def at_size(setup: Setup, point: Point, judge: Callable[[int], Met]) -> Met:
    """A size rule asked for the payload of one step, at both ends of its possible padding."""
    per_row = row_bytes(setup)
    if per_row is None:
        return unknown("the hidden size or the dtype is not known")
    return at_rows(setup, point, lambda rows: judge(rows * per_row))


def at_rows(setup: Setup, point: Point, judge: Callable[[int], Met]) -> Met:
    """A rule about rows asked for those that one step launches, at both ends of its possible padding."""
    fewest, most = launched(setup, point)
    low, high = judge(fewest), judge(most)
    if low.held is not high.held:
        return unknown(f"{point.rows:,} rows run as {fewest:,} to {most:,}: {low.text}; {high.text}")
    padded = f" ({point.rows:,} rows run as {fewest:,})" if fewest == most != point.rows else ""
    return Met(low.held, low.text + padded)
