"""Facts of the tensor-parallel group that every all-reduce backend on ROCm asks for.

Sources, at 0.24, 0.25.1, 0.32 and 0.33: ``cuda_communicator.py`` (``CudaCommunicator.__init__``),
``config/parallel.py``, ``platforms/rocm.py`` (``use_custom_allreduce``), ``_set_cudagraph_sizes`` of ``config/vllm.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from m3probe.fastpaths._capture import EAGER, FULL, PIECEWISE, largest, modes
from m3probe.fastpaths._m3 import build_name, flag, no, number, option, unknown, yes
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Phase

MIB = 1 << 20
ALIGN = 16
"""Bytes: QuickReduce, AITER's and vLLM's all-reduce refuse a payload that is no multiple of it."""
ARCHS = ("gfx94", "gfx95")
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
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
    try:
        return int(setup.env.get(BATCH_INVARIANT, "0")) != 0
    except ValueError:
        return None


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
    if not batch_invariant(setup):
        return yes(f"{BATCH_INVARIANT} is off")
    return no(f"{BATCH_INVARIANT}={setup.env[BATCH_INVARIANT]}: its order of summation is not fixed")


def _ranks(setup: Setup) -> Met:
    return no("TP1: no all-reduce") if setup.tp == 1 else yes(f"TP{setup.tp}")


def _gpu(setup: Setup) -> Met:
    if not setup.gfx:
        return unknown("the GPU is not known")
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


def launched(setup: Setup, point: Point) -> tuple[int, int]:
    """(fewest, most) rows that the step's kernels get: a graph replays the size it was captured with.

    Equal where the setup tells: eager steps keep their rows, and without drafts the sizes are 1, 2, 4, every 8 below
    256, then every 16. With drafts the grid differs by version (0.33 scales request counts): a range.
    """
    found = modes(setup)
    mode = found.decode if point.phase is Phase.DECODE else found.other
    if mode == EAGER or point.rows > largest(setup)[0]:
        return point.rows, point.rows
    padded, exact = _padded(setup, point)
    return (padded if exact and mode in (FULL, PIECEWISE) else point.rows), padded


def _padded(setup: Setup, point: Point) -> tuple[int, bool]:
    """(captured size at most, whether it is that one exactly)."""
    rows, queries = point.rows, 1 + setup.spec_tokens
    sizes = option(setup, "compilation-config", "cudagraph_capture_sizes") or flag(setup, "cudagraph-capture-sizes")
    if sizes is not None:
        known = sorted(int(s) for s in sizes if number(s)) if isinstance(sizes, list | tuple) else []
        return next((s for s in known if s >= rows), largest(setup)[0]), bool(known) and queries == 1
    if queries > 1:
        requests = -(-rows // queries)
        return max(-(-_on_grid(rows) // queries) * queries, _on_grid(requests) * queries), False
    return min(_on_grid(rows), largest(setup)[0]), flag(setup, "performance-mode") in (None, "balanced")


def _on_grid(rows: int) -> int:
    """The smallest of 1, 2, 4, every 8 below 256, every 16 from there that holds so many rows."""
    if rows <= 4:
        return 1 << max(rows - 1, 0).bit_length()
    return -(-rows // 8) * 8 if rows <= 248 else -(-rows // 16) * 16


def at_size(setup: Setup, point: Point, judge: Callable[[int], Met]) -> Met:
    """A size rule asked for the payload of one step, at both ends of its possible padding."""
    per_row = row_bytes(setup)
    if per_row is None:
        return unknown("the hidden size or the dtype is not known")
    fewest, most = launched(setup, point)
    low, high = judge(fewest * per_row), judge(most * per_row)
    if low.held is not high.held:
        return unknown(f"{point.rows:,} rows run as {fewest:,} to {most:,}: {low.text}; {high.text}")
    padded = f" ({point.rows:,} rows run as {fewest:,})" if fewest == most != point.rows else ""
    return Met(low.held, low.text + padded)
