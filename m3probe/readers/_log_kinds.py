"""The kinds of lines of a vLLM log: how each begins, and what it states. One small function each.

Spellings of 0.15 to 0.33. A message counts only where it *begins* so, in a record of vLLM: what a request's prompt says
is no statement. To read a new kind add a function and a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from m3probe.model.log_events import Start
from m3probe.model.server_log import LogKind
from m3probe.readers._log_crash import BEGIN
from m3probe.readers._log_gather import Gathered
from m3probe.readers._log_lines import Line
from m3probe.readers._log_startup import BEGINS, HOLDS, took
from m3probe.readers._log_text import NoLiteral, assignments, kept, literal

Read = Callable[[Line, Gathered], None]
MOST_STARTS = 64
_VERSION = re.compile(r"\(v([\w.+-]{1,60})\)")
_BANNER = re.compile(r"\bversion +v?(\d[\w.+-]{0,59})")


@dataclass(frozen=True, slots=True)
class Kind:
    """Lines that begin with one of ``begins``, and what is made of them."""

    begins: tuple[str, ...]
    read: Read


# --- configuration ---------------------------------------------------------------------------------------------------


def _args(line: Line, found: Gathered) -> None:
    found.run.step(line, found.clock, Start.ASKED, "", None)
    try:
        said = literal(line.text.partition(":")[2])
    except NoLiteral:
        return
    if isinstance(said, dict) and found.asked is None:
        found.asked = kept("", said)


def _engine(line: Line, found: Gathered) -> None:
    found.run.step(line, found.clock, Start.ENGINE, "", None)
    version = _VERSION.search(line.text[:200])
    if version and not found.version:
        found.version = version[1]
    config = assignments(line.text.partition("with config: ")[2])
    if config and len(found.configs) < MOST_STARTS:
        found.configs.append(config)


def _api_version(line: Line, found: Gathered) -> None:
    version = _BANNER.search(line.text)
    if version and not found.version:
        found.version = version[1]


def _architecture(line: Line, found: Gathered) -> None:
    found.architecture = found.architecture or line.text.partition(": ")[2][:200]


def _ready(line: Line, found: Gathered) -> None:
    found.ready = True
    stage = Start.ENGINE_READY if line.level else Start.READY
    found.run.step(line, found.clock, stage, "", took(line.text))


# --- graphs ------------------------------------------------------------------------------------------------------------

_OVERRIDING = re.compile(r"Cudagraph mode (\S+) requires (.{1,200}?)\. Overriding to (\S+?)\.?$")
_UNSUPPORTED = re.compile(
    r"CUDAGraphMode\.(\w+) is not supported with (.{1,200}?); ?setting cudagraph_mode=(?:CUDAGraphMode\.)?(\w+)"
)
_CAPTURING = re.compile(r"Capturing CUDA graphs \((.{1,60}?)(?:, )?(FULL|PIECEWISE)\).*\b(\d+)/\3\b")
_PROFILED = re.compile(r"\b(FULL|PIECEWISE)=(\d+) \(largest=(\d+)\)")
BREAKABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"


def _overridden(line: Line, found: Gathered) -> None:
    said = _OVERRIDING.match(line.text)
    if said:
        found.say(line, LogKind.GRAPHS, said[3], f"{said[1]}: requires {said[2]}")


def _unsupported(line: Line, found: Gathered) -> None:
    said = _UNSUPPORTED.match(line.text)
    if said:
        found.say(line, LogKind.GRAPHS, said[3], f"{said[1]} is not supported with {said[2]}")


def _breakable(line: Line, found: Gathered) -> None:
    found.env.setdefault(BREAKABLE, "1")
    found.say(line, LogKind.GRAPHS, "breakable")


def _no_graphs(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.GRAPHS, "NONE", line.text)


def _captured(line: Line, found: Gathered) -> None:
    found.run.step(line, found.clock, Start.CAPTURE, "", took(line.text))
    found.say(line, LogKind.CAPTURED, line.text)


def _capturing(line: Line, found: Gathered) -> None:
    """The last state of a progress bar: ``7/7``."""
    said = _CAPTURING.search(line.text)
    if said:
        found.say(line, LogKind.CAPTURED, f"{said[2]}: {said[3]} graphs")


def _profiled(line: Line, found: Gathered) -> None:
    for mode, number, largest in _PROFILED.findall(line.text):
        found.say(line, LogKind.CAPTURED, f"{mode}: {number} sizes, largest {largest}", mode=mode, largest=largest)


# --- MiniMax M3 ----------------------------------------------------------------------------------------------------------

_SPARSE = re.compile(r"MiniMax M3 sparse attention selected (\w+)(?: \((.*)\))?")
_INDEXER = re.compile(r"MiniMax M3 indexer: selected (\w+(?: CP)?)(?: \(([^)]*)\))?(?:.*?\[(.*)\])?")
_REFUSES = re.compile(r"MiniMax M3 indexer: (\w+) unavailable \((.*)\)")
_CP = re.compile(r"MiniMax M3 indexer CP: (enabled|disabled)(?: over (\d+) ranks| \((.*)\))?")


def _pairs(text: str | None) -> dict[str, str]:
    return {key.strip(): value for key, _, value in (part.partition("=") for part in (text or "").split(", ")) if value}


def _sparse(line: Line, found: Gathered) -> None:
    said = _SPARSE.match(line.text)
    if said:
        known = _pairs(said[2])
        details = {key: known[key] for key in ("kv_cache_dtype", "topk_blocks") if key in known}
        found.say(line, LogKind.SPARSE_ATTENTION, said[1], **details)


def _indexer(line: Line, found: Gathered) -> None:
    said, refused = _INDEXER.match(line.text), _REFUSES.match(line.text)
    if said:
        known = _pairs(said[3])
        details = {key: known[key] for key in ("topk_blocks", "indexer_kv_dtype") if key in known}
        why = f"MSA: {said[2]}" if (said[2] or "").startswith("no ") else ""
        found.say(line, LogKind.INDEXER, said[1], why, **details)
    elif refused:
        found.say(line, LogKind.INDEXER, "", f"{refused[1]}: {refused[2]}")


def _indexer_cp(line: Line, found: Gathered) -> None:
    said = _CP.match(line.text)
    if said and said[1] == "enabled":
        found.say(line, LogKind.INDEXER_CP, f"over {said[2]} ranks" if said[2] else "enabled")
    elif said:
        found.say(line, LogKind.INDEXER_CP, "", said[3] or "disabled")


def _shared(line: Line, found: Gathered) -> None:
    found.env.setdefault("VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS", "1")
    found.say(line, LogKind.SHARED_EXPERT, "", line.text.partition("cannot be enabled: ")[2].rstrip("."))


def _router(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.ROUTER, "BF16x3")


def _mono(line: Line, found: Gathered) -> None:
    what, refuses, why = line.text.partition("specialized decode unsupported: ")
    found.say(line, LogKind.MONOKERNEL, "" if refuses else what.partition(": ")[0], why)


# --- backends --------------------------------------------------------------------------------------------------------------

_PLATFORM_FILES = frozenset({"rocm.py", "cuda.py", "cpu.py", "xpu.py", "selector.py"})
_ATTENTION = re.compile(
    r"Using ([\w. ]{1,60}?)(?: attention)? backend(?: out of potential backends: .*| \(selected via --attention-backend\)\.?|"
    r" on V\d engine\.?|\.)?$"
)
_OVERRIDES = re.compile(r"Found incompatible backend\(s\) \[(.*?)\] with (\S+?)\. Overriding with (\w+)")
_MOE = re.compile(
    r"Using '?([^'\[\]]{1,60}?)'?(?: (\w{1,20}))? MoE backend(?: \((user-requested)\))?(?: out of potential backends: .*)?\.?$"
)
_MOE_FALLS = re.compile(r"No (\w+) MoE backend supports (.{1,200}?)\. Falling back to '(.{1,60}?)'")
_LINEAR = re.compile(r"Using (\w{1,100}) for (\w{1,20}) GEMM")
_REDUCES = re.compile(r"Using \[([^\]]*)\] all-reduce backends \(in dispatch order\) for group '([^']*)'")
_CLASS = re.compile(r"Using (\w{1,100})$")
_MOE_FILES = frozenset({"mxfp4.py", "mxfp8.py", "fp8.py", "nvfp4.py", "unquantized.py", "int_wna16.py"})
_OLD_MOE = re.compile(r"Using (.{1,60}?) backend\.?$")


def _using(line: Line, found: Gathered) -> None:
    """``Using ...``: what is used stands at the end of the sentence, or in the file that says it."""
    for one in (_reduces, _moe, _linear, _attention, _experts, _old_moe, _codec):
        if one(line, found):
            return


def _reduces(line: Line, found: Gathered) -> bool:
    said = _REDUCES.match(line.text)
    if said:
        names = [name.strip(" '\"") for name in said[1].split(",") if name.strip()]
        found.say(line, LogKind.ALL_REDUCE, ", ".join(names), group=said[2][:80])
    return said is not None


def _moe(line: Line, found: Gathered) -> bool:
    said = _MOE.match(line.text)
    if said:
        known = {"weights": said[2] or "", "asked": said[3] or ""}
        found.say(line, LogKind.MOE, said[1], **{key: value for key, value in known.items() if value})
    return said is not None


def _linear(line: Line, found: Gathered) -> bool:
    said = _LINEAR.match(line.text)
    if said:
        found.say(line, LogKind.LINEAR, said[1], weights=said[2])
    return said is not None


def _attention(line: Line, found: Gathered) -> bool:
    said = _ATTENTION.match(line.text) if line.source in _PLATFORM_FILES else None
    if said:
        asked = {"asked": "--attention-backend"} if "selected via" in line.text else {}
        found.say(line, LogKind.ATTENTION, said[1], **asked)
    return said is not None


def _experts(line: Line, found: Gathered) -> bool:
    said = _CLASS.match(line.text) if line.source in _MOE_FILES else None
    if said:
        found.say(line, LogKind.EXPERTS, said[1])
    return said is not None


def _old_moe(line: Line, found: Gathered) -> bool:
    """0.15: ``Using Triton backend`` of mxfp4.py."""
    said = _OLD_MOE.match(line.text) if line.source in _MOE_FILES else None
    if said:
        found.say(line, LogKind.MOE, said[1])
    return said is not None


def _codec(line: Line, found: Gathered) -> bool:
    said = line.text.startswith("Using AITER FlyDSL INT4 QuickReduce")
    if said:
        found.say(line, LogKind.QUICK_REDUCE, "FlyDSL INT4")
    return said


def _overrides(line: Line, found: Gathered) -> None:
    said = _OVERRIDES.match(line.text)
    if said:
        found.say(line, LogKind.ATTENTION, said[3], f"{said[1]} with {said[2]}")


def _incompatible(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.ATTENTION, "", line.text)


def _moe_falls(line: Line, found: Gathered) -> None:
    said = _MOE_FALLS.match(line.text)
    if said:
        found.say(line, LogKind.MOE, said[3], f"{said[1]}: no backend supports {said[2]}")


def _linear_falls(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.LINEAR, "", line.text)


def _quick(line: Line, found: Gathered) -> None:
    """``Custom quick allreduce: ... threshold = 16 KB`` states a setting; ``is disabled ...`` refuses it."""
    rest = line.text.removeprefix("Custom quick allreduce").lstrip(": ")
    off = "disabled" in rest or "Invalid" in rest
    found.say(line, LogKind.QUICK_REDUCE, "" if off else rest, rest if off else "")


def _moriio(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.KV_TRANSFER, line.text)


def _untuned(line: Line, found: Gathered) -> None:
    found.say(line, LogKind.UNTUNED, "", line.text)


KINDS: tuple[Kind, ...] = (
    Kind(("non-default args: ",), _args),
    Kind(("Initializing a V1 LLM engine ", "Initializing a V0 LLM engine "), _engine),
    Kind(("vLLM API server version ",), _api_version),
    Kind(("Resolved architecture: ",), _architecture),
    Kind(("init engine (", "INFO:     Application startup complete."), _ready),
    Kind(("Cudagraph mode ",), _overridden),
    Kind(("CUDAGraphMode.",), _unsupported),
    Kind(("Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH=1", "VLLM_USE_BREAKABLE_CUDAGRAPH is set"), _breakable),
    Kind(("Cudagraph is disabled under eager mode", "Enforce eager set, disabling"), _no_graphs),
    Kind(("Graph capturing finished in ",), _captured),
    Kind(("Capturing CUDA graphs (",), _capturing),
    Kind(("Profiling CUDA graph memory: ",), _profiled),
    Kind(("MiniMax M3 sparse attention selected ",), _sparse),
    Kind(("MiniMax M3 indexer: ",), _indexer),
    Kind(("MiniMax M3 indexer CP: ",), _indexer_cp),
    Kind(("VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is enabled but cannot",), _shared),
    Kind(("Enabled ROCm BF16x3 router GEMM",), _router),
    Kind(("MiniMax-M3 specialized decode unsupported: ", "MiniMax-M3 FFN launch: "), _mono),
    Kind(("Using default MoE config",), _untuned),
    Kind(("Using ",), _using),
    Kind(("Found incompatible backend(s) ",), _overrides),
    Kind(("Selected backend ",), _incompatible),
    Kind(("No Mxfp4 MoE backend supports ",), _moe_falls),
    Kind(("--linear-backend=",), _linear_falls),
    Kind(("Custom quick allreduce",), _quick),
    Kind(("MoRIIO registered ",), _moriio),
    *(Kind(begins, read) for begins, read in BEGINS),
)
"""The first row whose beginning fits reads a line."""


def _unlevelled(line: Line, found: Gathered) -> None:
    if not line.level:
        _untuned(line, found)


ANYWHERE: tuple[tuple[str, Read], ...] = (
    ("not found tuned config in ", _unlevelled),
    ("using 2stage default for ", _unlevelled),
    ("no tuned FlyDSL config for ", _unlevelled),
    *HOLDS,
)
"""What may stand behind something else: AITER's lines, whose shapes stand in front, and faults that no logger wrote."""
_BEGINS = {begin: kind.read for kind in KINDS for begin in kind.begins}
_BEGIN = re.compile("|".join(re.escape(begin) for begin in _BEGINS))
_ANYWHERE = dict(ANYWHERE)
_HELD = re.compile("|".join(re.escape(part) for part in _ANYWHERE))
_NEEDLES = tuple(part.encode() for part in _ANYWHERE)
_OF_REQUESTS = frozenset({"logger.py", "request_logger.py"})
"""Files that write what clients sent."""
_BANNER_FILES = frozenset({"utils.py", "api_utils.py"})


def holds(window: bytes) -> bool:
    """Whether some line of it holds words that count anywhere: looked for in a whole window, which is far cheaper."""
    return any(needle in window for needle in _NEEDLES) or BEGIN.encode() in window


def read_line(line: Line, found: Gathered, *, held: bool = True) -> None:
    """What one line states; most state nothing.

    Args:
        held: the line may hold what counts anywhere in one (see ``holds``).
    """
    found.count(line)
    if line.source in _OF_REQUESTS:
        return
    tracebacks = found.run.tracebacks
    if tracebacks.open or (held and BEGIN in line.text):
        tracebacks.see(line, found.clock)
    begin = _BEGIN.match(line.text)
    if begin:
        _BEGINS[begin[0]](line, found)
    elif line.source in _BANNER_FILES and not found.version:
        _api_version(line, found)
    elif held:
        part = _HELD.search(line.text, 0, 2000)
        if part:
            _ANYWHERE[part[0]](line, found)
