"""Which graph modes a setup of MiniMax M3 ends up with, and which rows a step's kernels get.

Sources: ``config/vllm.py`` (optimization levels, ``_normalize_piecewise_cudagraph_mode``, breakable architectures),
``config/compilation.py`` (``resolve_cudagraph_mode_and_sizes``) and ``check_and_update_config`` of platforms/rocm.py at
0.24, 0.25.1, 0.32, 0.33. M3's sparse backend captures uniform batches alone, and the ROCm model is not compiled in any
of them. Sizes are in ``_capture_sizes.py`` beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from m3probe.fastpaths._capture_sizes import Sizes, general, queries, uniform, whole
from m3probe.fastpaths._m3 import as_object, build_name, flag, number, on_rocm, option, told, v2_runner
from m3probe.schema.setup import Point, Setup
from m3probe.schema.verdicts import Phase

ARCHITECTURES = ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration")
BREAKABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"
FULL, PIECEWISE, EAGER = "FULL", "PIECEWISE", "eager"
_MODES = {
    "NONE": (EAGER, EAGER),
    "PIECEWISE": (PIECEWISE, PIECEWISE),
    "FULL": (FULL, FULL),
    "FULL_DECODE_ONLY": (FULL, EAGER),
    "FULL_AND_PIECEWISE": (FULL, PIECEWISE),
}
_BY_NUMBER = {0: "NONE", 1: "PIECEWISE", 2: "FULL"}
_LEVELS = {"0": "NONE", "1": "PIECEWISE"}
"""cudagraph_mode of -O0 and -O1 (OPTIMIZATION_LEVEL_00, _01: the same in all four); -O2, the default, and -O3 differ."""
_COMPILATION = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")


@dataclass(frozen=True, slots=True)
class Modes:
    """What uniform decode and everything else ends up with (None: not known), and the steps that led there."""

    decode: str | None
    other: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """What one step gets: its mode (None: not known), rows of its kernels, and the sizes that were asked."""

    mode: str | None
    rows: int
    sizes: Sizes
    text: str
    fits: bool
    """Whether some captured size holds the rows."""


def breakable(setup: Setup) -> bool | None:
    """Whether breakable graphs are on: the variable (exactly 1 counts), else the build's list for ROCm."""
    if BREAKABLE in setup.env:
        return setup.env[BREAKABLE] == "1"
    if on_rocm(setup) is False:  # CUDA has a list of its own, which no rule holds
        return None
    rule = setup.build.rule("breakable_rocm")
    return any(name in rule.value for name in ARCHITECTURES) if rule.known else None


def level(setup: Setup) -> str:
    """``--optimization-level`` as a digit; vLLM's default is 2."""
    said = flag(setup, "optimization-level")
    return "2" if said is None else str(said).strip().upper().removeprefix("O")


def asked_mode(setup: Setup) -> str:
    """cudagraph_mode as asked for; without it the optimization level's, FULL_AND_PIECEWISE by default."""
    said = option(setup, "compilation-config", "cudagraph_mode")
    if said is None:
        return _LEVELS.get(level(setup), "FULL_AND_PIECEWISE")
    if isinstance(said, int) and not isinstance(said, bool):
        return _BY_NUMBER.get(said, str(said))
    return str(said).upper()


def compilation_mode(setup: Setup) -> str:
    """Compilation mode by name (enforced by TORCH_COMPILE_DISABLE=1, else asked for, else the level's)."""
    if setup.env.get("TORCH_COMPILE_DISABLE") == "1":
        return "NONE"
    said = option(setup, "compilation-config", "mode")
    if said is None:
        return "NONE" if level(setup) == "0" else "VLLM_COMPILE"
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < len(_COMPILATION):
        return _COMPILATION[said]
    return str(said).upper()


def refused_mode(setup: Setup) -> str:
    """Why vLLM's config validation refuses a mode; empty when it does not."""
    graph, compiled = asked_mode(setup), compilation_mode(setup)
    if graph not in _MODES:
        return f"cudagraph_mode {graph} is none of {', '.join(_MODES)}"
    return "" if compiled in _COMPILATION else f"compilation mode {compiled} is none of {', '.join(_COMPILATION)}"


def turned_off(setup: Setup) -> str:
    """The words that turn graphs off; empty when nobody did."""
    if flag(setup, "enforce-eager"):
        return told(setup, "enforce-eager")
    if asked_mode(setup) != "NONE":
        return ""
    unset = option(setup, "compilation-config", "cudagraph_mode") is None
    return f"-O{level(setup)}: cudagraph_mode NONE" if unset else "cudagraph_mode NONE"


def modes(setup: Setup) -> Modes:
    """The modes after every downgrade that the setup lets one see."""
    off = turned_off(setup)
    if off:
        return Modes(EAGER, EAGER, off)
    asked = asked_mode(setup)
    why = [f"cudagraph_mode {asked}"]
    if asked not in _MODES:
        return Modes(None, None, f"cudagraph_mode {asked} is not known")
    if not setup.model.is_minimax_m3:
        name = setup.model.name or "this model"
        return Modes(None, None, f"{why[0]}; what {name} ends with hangs on its attention backends: not judged")
    breaks = breakable(setup)
    if not breaks and (dropped := _dropped(setup, asked, breaks)):
        return Modes(EAGER, EAGER, "; ".join([*why, dropped]))
    demoted = demotions(setup) if asked in ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE") else []
    if demoted:
        asked = "PIECEWISE"
        why += demoted
    if asked == "FULL":  # the sparse backend supports uniform batches, not any batch
        split = not breaks and compilation_mode(setup) == "VLLM_COMPILE"
        asked = "FULL_AND_PIECEWISE" if split else "FULL_DECODE_ONLY"
        why.append("M3's sparse backend captures uniform batches alone")
    decode, other = _MODES[asked]
    if PIECEWISE in (decode, other):
        return _piecewise(setup, decode, other, why, breaks)
    return Modes(decode, other, "; ".join(why))


def _dropped(setup: Setup, asked: str, breaks: bool | None) -> str:
    """Why a compilation mode leaves no graph at all; empty otherwise. Breakable graphs set the mode to NONE themselves.

    Stock torch.compile: V1 never wraps the model in any of the four, V2 of 0.32 and 0.33 turns graphs off. Other modes
    than VLLM_COMPILE: 0.24 and 0.25.1 drop every mode with PIECEWISE in it, FULL included.
    """
    mode, refused, v2 = compilation_mode(setup), setup.build.rule("piecewise_refused"), v2_runner(setup)
    if mode == "VLLM_COMPILE" or breaks is None:
        return ""
    said = f"compilation mode {mode}"
    if mode == "STOCK_TORCH_COMPILE" and (v2 is False or (refused.known and refused.value)):
        return f"{said}: no graphs around stock torch.compile"
    if refused.known and not refused.value and "PIECEWISE" in asked:
        return f"{said} and breakable graphs are off: {build_name(setup)} drops graphs altogether"
    return ""


def demotions(setup: Setup) -> list[str]:
    """What turns FULL into PIECEWISE: a layer-wise connector, context parallelism, a draft length that changes (V1)."""
    found = []
    if layerwise(as_object(flag(setup, "kv-transfer-config"))):
        found.append("LMCache layer-wise asks for PIECEWISE")
    if (number(flag(setup, "prefill-context-parallel-size")) or 1) > 1:
        found.append("prefill context parallelism asks for PIECEWISE")
    decode = (number(flag(setup, "decode-context-parallel-size")) or 1) > 1
    refused = setup.build.rule("piecewise_refused")  # 0.24 and 0.25.1 demote for it, 0.32 and 0.33 no more
    if decode and refused.known and not refused.value:
        found.append("decode context parallelism asks for PIECEWISE")
    tiers = (setup.draft or {}).get("num_speculative_tokens_per_batch_size")
    if tiers and v2_runner(setup) is False and setup.dp == 1:
        found.append("a draft length that follows the batch asks for PIECEWISE in V1")
    return found


def layerwise(transfer: Mapping[str, Any]) -> bool:
    """Whether a KV transfer config, or a child of a MultiConnector, loads and saves layer by layer."""
    extra = as_object(transfer.get("kv_connector_extra_config"))
    if transfer.get("kv_connector") == "MultiConnector":
        children = extra.get("connectors")
        return isinstance(children, list) and any(layerwise(as_object(child)) for child in children)
    return transfer.get("kv_connector") == "LMCacheConnectorV1" and bool(extra.get("use_layerwise"))


def _piecewise(setup: Setup, decode: str, other: str, why: list[str], breaks: bool | None) -> Modes:
    """PIECEWISE needs breakable graphs, as the ROCm model holds nothing compiled."""
    if breaks:
        return Modes(decode, other, "; ".join([*why, "breakable graphs are on"]))
    if breaks is None:  # in all four builds read, decode stays FULL; another build may drop graphs altogether
        where = "the build's default" if on_rocm(setup) is not False else "CUDA's default"
        return Modes(None, None, "; ".join([*why, f"{BREAKABLE} is not set and {where} is not known"]))
    refused, v2 = setup.build.rule("piecewise_refused"), v2_runner(setup)
    why.append("M3 is not compiled and breakable graphs are off, so nothing can be captured piecewise")
    kept = FULL if decode == FULL else EAGER
    if not refused.known:
        return Modes(None, EAGER, "; ".join([*why, "what this build makes of it is not known"]))
    if refused.value and v2:
        obtained = "FULL_DECODE_ONLY" if kept == FULL else "NONE"
        why.append(f"{build_name(setup)} overrides to {obtained}")
    return Modes(kept, EAGER, "; ".join(why))


def largest(setup: Setup) -> tuple[int, str]:
    """(tokens of the largest size of uniform decode, where it is from)."""
    sizes = uniform(setup, full=modes(setup).decode != PIECEWISE)
    return sizes.largest, sizes.why


def is_uniform(setup: Setup, point: Point) -> bool:
    """Whether a step is a uniform decode batch: each request has its token and all of its drafted ones."""
    if point.phase is not Phase.DECODE:
        return False
    each = queries(setup)
    return point.rows == point.requests * each if point.requests else point.rows % each == 0


def replay(setup: Setup, point: Point) -> Replay:
    """The graph that a step of so many rows replays: FULL where a decode size holds it, else PIECEWISE, else none."""
    found, even = modes(setup), is_uniform(setup, point)
    first = found.decode if even else found.other
    sizes = uniform(setup, full=found.decode != PIECEWISE) if even else _mixed(setup, found)
    held = sizes.holding(point.rows)
    if first == FULL and held is None and found.other == PIECEWISE:
        first, sizes = PIECEWISE, _mixed(setup, found)
        held = sizes.holding(point.rows)
    rows = point.rows if held is None or first not in (FULL, PIECEWISE) else held
    return Replay(EAGER if held is None else first, rows, sizes, found.text, held is not None)


def _mixed(setup: Setup, found: Modes) -> Sizes:
    """Sizes of PIECEWISE graphs: V1 rounds the one list for FULL decode too, V2 of 0.25.1 and later leaves it."""
    rounds = (setup.build.rule("graph_sizes").value or {}).get("v2_rounds")
    if found.decode != FULL or queries(setup) == 1 or (v2_runner(setup) and rounds):
        return general(setup)
    return whole(setup)


def launched(setup: Setup, point: Point) -> tuple[int, int]:
    """(fewest, most) rows that the step's kernels get: a graph replays the size it was captured with.

    Equal where the setup tells: an eager step keeps its rows, and another is padded to the next captured size, which
    is a whole number of requests where tokens are drafted. Unequal where the mode or the sizes are not known.
    """
    seen = replay(setup, point)
    if not seen.fits or seen.mode == EAGER:
        return point.rows, point.rows
    most = seen.sizes.holding(point.rows) or point.rows
    return (most if seen.mode is not None and seen.sizes.exact else point.rows), most
