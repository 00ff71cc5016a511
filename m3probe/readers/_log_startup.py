"""Lines of a start and of its troubles: how each begins or what it holds, and what is kept of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from m3probe.model.log_events import Start, Trouble
from m3probe.readers._log_gather import Gathered
from m3probe.readers._log_lines import Line

Read = Callable[[Line, Gathered], None]
_SECONDS = re.compile(r"(?:took|takes|time:|cost|in|and|finished in) ([\d.,]{1,20}) ?(?:s\b|secs?\b|seconds?\b)")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d (\d\d):(\d\d):(\d\d)[,.](\d{3})")
_MODULE = re.compile(r"\[([\w.-]{1,100})\]")
_LATE = re.compile(r"(.{1,60}?) during inference: ([^.(]{1,120})")
_RANGE = re.compile(r"compile range \(([^)]{1,40})\)")
_KV = re.compile(r"(?:GPU|CPU|TPU|XPU) KV cache size: ([\d,]{1,20}) tokens")
_DP = re.compile(r"_DP(\d{1,6})")
_FAULT = re.compile(r"Memory access fault by GPU(?: node-\d+)?")


def took(text: str) -> float | None:
    """The last time that the line tells, in seconds."""
    said = _SECONDS.findall(text)
    try:
        return float(said[-1].rstrip(".,").replace(",", "")) if said else None
    except ValueError:
        return None


def _stage(stage: Start) -> Read:
    def read(line: Line, found: Gathered) -> None:
        within = _RANGE.search(line.text)
        found.run.step(line, found.clock, stage, within[1] if within else "", took(line.text))

    return read


def _late(line: Line, found: Gathered) -> None:
    """vLLM's own monitor, which is set when the warm-up is over."""
    said = _LATE.match(line.text)
    if said:
        found.run.step(line, found.clock, Start.JIT, f"{said[1]}: {said[2].strip()}", None, late=True)


def _kv_size(line: Line, found: Gathered) -> None:
    said = _KV.match(line.text)
    if said:
        engine = _DP.search(line.label)
        found.run.kv_tokens[engine[1] if engine else "0"] = int(said[1].replace(",", "") or 0)
        found.run.step(line, found.clock, Start.KV_CACHE, f"{said[1]} tokens", None)


def _stats(line: Line, found: Gathered) -> None:
    found.run.stats.see(line, found.clock)


def _drafts(line: Line, found: Gathered) -> None:
    found.run.stats.drafts(line)


def _trouble(trouble: Trouble) -> Read:
    def read(line: Line, found: Gathered) -> None:
        found.run.trouble(line, found.clock, trouble)

    return read


# --- held anywhere in a line -------------------------------------------------------------------------------------------


def _fault(line: Line, found: Gathered) -> None:
    said = _FAULT.search(line.text)
    if said and not line.level:
        found.run.trouble(line, found.clock, Trouble.GPU_FAULT, said[0])


def _imported(line: Line, found: Gathered) -> None:
    module = _MODULE.search(line.text, line.text.find("import ["))
    if module and line.foreign and len(found.run.modules) < 1000:
        found.run.modules.setdefault(module[1])


def _built(line: Line, found: Gathered) -> None:
    module = _MODULE.search(line.text, line.text.find(" build ["))
    if module and line.foreign:
        found.run.step(line, found.clock, Start.JIT, module[1], took(line.text))


def _tuning(line: Line, found: Gathered) -> None:
    """FlashInfer's own form, which writes its times to the millisecond."""
    stamp = _STAMP.match(line.text)
    at = (
        sum(int(part) * unit for part, unit in zip(stamp.groups(), (3600, 60, 1, 0.001), strict=True))
        if stamp
        else None
    )
    if "process starts" in line.text:
        found.run.tuning[line.label] = at
        return
    began = found.run.tuning.pop(line.label, None)
    spent = None if at is None or began is None else round((at - began) % 86_400, 3)
    found.run.step(line, found.clock, Start.AUTOTUNE, "FlashInfer", spent)


BEGINS: tuple[tuple[tuple[str, ...], Read], ...] = (
    (("Loading weights took ",), _stage(Start.WEIGHTS)),
    (("Model loading took ",), _stage(Start.MODEL)),
    (
        (
            "Dynamo bytecode transform time",
            "torch.compile takes ",
            "torch.compile took ",
            "Compiling a graph for compile range",
            "Directly load the compiled graph(s)",
        ),
        _stage(Start.COMPILE),
    ),
    (("Initial profiling/warmup run took ", "JIT kernel warmup finished in "), _stage(Start.WARMUP)),
    (("ROCm segmented attention autotune ready",), _stage(Start.AUTOTUNE)),
    (("Triton kernel JIT compilation during", "Triton autotuning during", "CuTeDSL JIT compilation during"), _late),
    (("GPU KV cache size: ", "CPU KV cache size: "), _kv_size),
    (("Avg prompt throughput: ", "Engine "), _stats),
    (("SpecDecoding metrics: ",), _drafts),
    (("Found ulimit of ",), _trouble(Trouble.FILE_LIMIT)),
    (("No available shared memory broadcast block",), _trouble(Trouble.STALL)),
    (("EngineCore failed to start",), _trouble(Trouble.START_FAILED)),
    (("[shutdown] ", "INFO:     Shutting down"), _trouble(Trouble.SHUTDOWN)),
)
HOLDS: tuple[tuple[str, Read], ...] = (
    ("Memory access fault by GPU", _fault),
    ("SQ full", _trouble(Trouble.SQ_FULL)),
    ("Too many open files", _trouble(Trouble.NO_FILES)),
    ("import [", _imported),
    ("finish build [", _built),
    ("[Autotuner]: Autotuning process", _tuning),
    (" Engines Aggregated: Avg prompt", _stats),
)
