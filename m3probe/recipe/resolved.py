"""What a running server resolved -> the ``Setup`` that paths are judged by, as ``setup_of`` makes it of a command line.

Every shape hangs on the parallel sizes and the draft's length: where the record does not tell one, there is no setup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from m3probe.hardware import Accelerator
from m3probe.model.recording import Device
from m3probe.model.served import Served
from m3probe.recipe.model_facts import HIDDEN, Known, known_of
from m3probe.recipe.quantization import of_resolved
from m3probe.recipe.resolved_flags import flags_of, section_of, word
from m3probe.schema.records import Process
from m3probe.schema.setup import Build, Setup
from m3probe.vllm_source import read_build

DRAFT = (
    "method", "model", "num_speculative_tokens", "parallel_drafting", "use_heterogeneous_vocab",
    "num_speculative_tokens_per_batch_size",
)  # fmt: skip
_SAME = ("build", "model", "gfx", "tp", "pp", "dp", "expert_parallel", "draft")
_GFX = re.compile(r"gfx[0-9a-f]{3,5}")


def resolved(served: Sequence[Served], device: Device | None, accelerator: Accelerator | None) -> Setup | None:
    """The one setup of all processes; None where a size is not told, or the recording is of several servers.

    Args:
        device: the first device of a trace beside the recording.
        accelerator: which one that is.
    """
    made = [_setup(one, device, accelerator) for one in served]
    if not made or made[0] is None:
        return None
    first, open_ = made[0], list(made[0].uncertain)
    for other in made[1:]:
        if other is None or any(getattr(first, name) != getattr(other, name) for name in _SAME):
            return None
        open_ += [*other.uncertain, *_unequal(first.flags, other.flags), *_unequal(first.env, other.env)]
    return replace(first, uncertain=tuple(dict.fromkeys(open_)))


def known_model(one: Served) -> Known:
    """The model as the process held it."""
    sections = one.config.sections
    about = section_of(sections, "model") or {}
    name = about.get("model")
    weights = of_resolved(about.get("quantization"), sections.get("quant"), str(word("dtype", about.get("dtype"))))
    return known_of(one.config.model, name if isinstance(name, str) else "", weights)


def _unequal(first: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in {**first, **other} if first.get(name) != other.get(name)]


def _setup(one: Served, device: Device | None, accelerator: Accelerator | None) -> Setup | None:
    process, sections = one.process, one.config.sections
    flags, open_ = flags_of(sections, one.config.model)
    sizes = [
        _size(flags.get(f"--{name}-parallel-size"), told)
        for name, told in (("tensor", process.tp), ("pipeline", process.pp), ("data", process.dp))
    ]
    experts = _experts(flags.get("--enable-expert-parallel"), process)
    draft = _draft(section_of(sections, "speculative"))
    if None in sizes or experts is None or draft is None:
        return None
    tp, pp, dp = (size or 1 for size in sizes)
    return Setup(
        build=read_build(None, process.vllm) if process.vllm else Build(),
        model=known_model(one).facts,
        gfx=_gfx(process, device, accelerator),
        units=device.units if device else None,
        tp=tp,
        pp=pp,
        dp=dp,
        expert_parallel=experts,
        nodes=_size(flags.get("--nnodes"), -1),
        env={name: value for name, value in process.env.items() if value != HIDDEN},
        flags=flags,
        draft=draft or None,
        uncertain=(*open_, *(name for name, value in process.env.items() if value == HIDDEN)),
        resolved=True,
    )


def _size(said: Any, told: int) -> int | None:
    """A positive whole number of the configuration, else of the process; None: not known."""
    found = told if said is None else said
    fits = isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**31
    return found if fits else None


def _experts(said: Any, process: Process) -> bool | None:
    if isinstance(said, bool):
        return said
    return None if process.ep < 1 else process.ep > 1


def _draft(section: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Empty: no drafter; None: how many tokens are drafted is not told."""
    if section is None:
        return {}
    found = {key: section[key] for key in DRAFT if section.get(key) is not None}
    backend = word("backend", section.get("attention_backend"))
    found |= {"attention_backend": backend} if backend else {}
    return found if _size(found.get("num_speculative_tokens"), -1) else None


def _gfx(process: Process, device: Device | None, accelerator: Accelerator | None) -> str | None:
    """``gfx950``, ``sm90``, or what else the server runs on (``cpu``); vLLM calls ROCm's devices cuda too."""
    if _GFX.fullmatch(process.gfx):
        return process.gfx
    if process.device != "cuda":
        return process.device or None
    if "+cu" not in process.torch and not process.device_name.startswith("NVIDIA"):
        return None
    if accelerator is not None and accelerator.vendor == "NVIDIA":
        return f"sm{accelerator.capability[0]}{accelerator.capability[1]}"
    if device is not None and device.warp_size == 32:
        return f"sm{device.compute_major}{device.compute_minor}"
    return process.device_name or "CUDA"
