"""What a server's log says of its configuration -> the ``Setup`` that paths are judged by.

``non-default args`` is a command line: what it does not name is at its default. The engine's own line says what that
resolved to, for the few settings that it holds. No line says the environment: a variable is left open unless some line
tells its value, and what hangs on it is unproven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from m3probe.fastpaths._state import CPU
from m3probe.hardware import Accelerator
from m3probe.model.recording import Device
from m3probe.model.server_log import ServerLog
from m3probe.recipe.model_facts import HIDDEN, Known, known_model
from m3probe.recipe.quantization import of_resolved
from m3probe.recipe.resolved_flags import FLAGS, NEVER, OBJECTS, word
from m3probe.schema.setup import Build, ModelFacts, Setup
from m3probe.vllm_source import bundled_versions, read_build

SAME = ("build", "model", "gfx", "tp", "pp", "dp", "expert_parallel", "draft")
"""Two logs that differ in one of these are of two servers."""
STATED: Mapping[str, str] = {
    "dtype": "--dtype",
    "max_seq_len": "--max-model-len",
    "tensor_parallel_size": "--tensor-parallel-size",
    "pipeline_parallel_size": "--pipeline-parallel-size",
    "data_parallel_size": "--data-parallel-size",
    "decode_context_parallel_size": "--decode-context-parallel-size",
    "disable_custom_all_reduce": "--disable-custom-all-reduce",
    "quantization": "--quantization",
    "enforce_eager": "--enforce-eager",
    "enable_return_routed_experts": "--enable-return-routed-experts",
    "kv_cache_dtype": "--kv-cache-dtype",
}
"""Field of the engine's line -> flag."""
INNER: Mapping[str, Mapping[str, str]] = {
    "kernel_config": {"moe_backend": "--moe-backend", "linear_backend": "--linear-backend"},
    "attention_config": {"backend": "--attention-backend"},
}
MORE_FLAGS = ("--hf-overrides", "--block-size", "--kv-transfer-config", "--cpu-offload-gb", "--offload-group-size")
NOT_VLLMS = (
    "AITER_BYPASS_TUNE_CONFIG", "AITER_CONFIG_FMOE", "AITER_CONFIG_GEMM_A4W4", "AITER_CONFIG_GEMM_A8W8",
    "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE", "AITER_CONFIG_GEMM_A8W8_BPRESHUFFLE", "AITER_CONFIG_GEMM_BF16",
    "AITER_CUSTOM_AR_MAX_SIZE", "AITER_CUSTOM_AR_MIN_SIZE", "PYTORCH_TUNABLEOP_ENABLED", "TORCH_COMPILE_DISABLE",
)  # fmt: skip
"""Variables of others that paths read; vLLM's own are in the build's rules."""
IN_THE_MODE = "TORCH_COMPILE_DISABLE"
"""The mode that the engine states is what this variable left of it."""
DRAFT = ("method", "model", "num_speculative_tokens", "parallel_drafting", "attention_backend")
_EMPTY: tuple[Any, ...] = (None, [], {}, "", HIDDEN)


@dataclass(frozen=True, slots=True)
class Logged:
    """The setup, its model, and what was assumed on the way."""

    setup: Setup
    known: Known


def logged(
    logs: Sequence[ServerLog], device: Device | None, accelerator: Accelerator | None, model: Known | None
) -> Logged | None:
    """The one setup of all logs; None where a size is not told, or they are of several servers.

    Args:
        device: the first device of a trace beside them; ``accelerator``: which one that is.
        model: where something else than the log knows it.
    """
    made = [_setup(log, device, accelerator, model) for log in logs]
    first = made[0] if made else None
    if first is None:
        return None
    for other in made[1:]:
        if other is None or any(getattr(first.setup, name) != getattr(other.setup, name) for name in SAME):
            return None
    return first


def _setup(
    log: ServerLog, device: Device | None, accelerator: Accelerator | None, model: Known | None
) -> Logged | None:
    flags = flags_of(log)
    sizes = [_size(log, flags, name) for name in ("tensor", "pipeline", "data")]
    experts, draft = _experts(log, sizes), _draft(log)
    if None in sizes or experts is None or draft is None:
        return None
    tp, pp, dp = (size or 1 for size in sizes)
    build = read_build(None, log.version) if log.version else Build()
    known = model or known_of_log(log)
    setup = Setup(
        build=build,
        model=known.facts,
        gfx=_gfx(log, device, accelerator),
        units=device.units if device else None,
        tp=tp,
        pp=pp,
        dp=dp,
        expert_parallel=experts,
        nodes=_whole(flags.get("--nnodes", 1 if log.asked is not None else None)),
        env=dict(log.env),
        flags=flags,
        draft=draft or None,
        uncertain=tuple(_open(log, flags, build)),
        resolved=log.config is not None and log.ready,
    )
    return Logged(setup, known)


def flags_of(log: ServerLog) -> dict[str, Any]:
    """Flags by their dashed names: as asked, and over that as the engine says that it has them."""
    flags = {}
    for key, value in (log.asked or {}).items():
        if key not in ("model", "model_tag") and value != HIDDEN:
            flags[f"--{key.replace('_', '-')}"] = _plain(value)
    for key, flag in STATED.items():
        if log.config is not None and log.config.get(key) not in (None, HIDDEN):
            flags[flag] = word(key, log.config[key])
    for holder in (log.asked, log.config):
        for name, inner in INNER.items():
            held = _mapping(holder, name)
            flags |= {flag: held[key] for key, flag in inner.items() if held.get(key) not in _EMPTY}
        for flag, keys in OBJECTS.values():
            held = _mapping(holder, flag.removeprefix("--").replace("-", "_"))
            told = {key: word(key, held[key]) for key in keys if held.get(key) not in _EMPTY}
            if held:
                flags[flag] = {**_mapping(flags, flag), **told}
    return flags


def _mapping(holder: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    found = (holder or {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _plain(value: Any) -> Any:
    """An object of a class without its name, and without fields that say nothing."""
    if not isinstance(value, Mapping):
        return value
    return {key: _plain(inner) for key, inner in value.items() if key != "class" and inner not in _EMPTY}


def _whole(value: Any) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31
    return value if fits else None


def _size(log: ServerLog, flags: Mapping[str, Any], name: str) -> int | None:
    said = flags.get(f"--{name}-parallel-size")
    return _whole(1 if said is None and log.asked is not None else said)


def _experts(log: ServerLog, sizes: Sequence[int | None]) -> bool | None:
    """As asked, else by the names of the workers, which hold their EP rank where experts are spread."""
    if log.asked is not None:
        return bool(log.asked.get("enable_expert_parallel", False))
    if any("EP" in label for label in log.labels):
        return True
    alone = sizes[0] == 1 and sizes[2] == 1
    return False if alone or any("TP" in label for label in log.labels) else None


def _draft(log: ServerLog) -> dict[str, Any] | None:
    """Empty: no drafter; None: how many tokens are drafted is not told."""
    said = _plain((log.asked or {}).get("speculative_config") or {})
    resolved = (log.config or {}).get("speculative_config")
    if not said and isinstance(resolved, Mapping):
        said = _plain(resolved)
        said = {**said, "num_speculative_tokens": said.get("num_speculative_tokens", said.get("num_spec_tokens"))}
    if not said:
        told = log.asked is not None or (log.config is not None and resolved is None)
        return {} if told else None
    if not isinstance(said, Mapping):
        return None
    found = {key: said[key] for key in DRAFT if said.get(key) not in _EMPTY}
    return found if _whole(found.get("num_speculative_tokens")) else None


def _gfx(log: ServerLog, device: Device | None, accelerator: Accelerator | None) -> str | None:
    """By the trace's device; a log tells no more than the platform."""
    if log.platform == "cpu":
        return CPU
    if accelerator is not None:
        return accelerator.gfx or f"sm{accelerator.capability[0]}{accelerator.capability[1]}"
    if device is not None and device.warp_size == 32 and log.platform != "rocm":
        return f"sm{device.compute_major}{device.compute_minor}"
    return "CUDA" if log.platform == "cuda" else None


def known_of_log(log: ServerLog) -> Known:
    """The model by its name; of another one than a published MiniMax M3 the log tells no size."""
    config, asked = log.config or {}, log.asked or {}
    name = next((str(held["model"]) for held in (config, asked) if held.get("model")), "")
    quantization = config.get("quantization") or asked.get("quantization")
    found = known_model(name, None, str(quantization) if quantization else None, local=False)
    if found.config is not None or not log.architecture.startswith("MiniMaxM3"):
        return found
    weights = of_resolved(quantization, None, str(word("dtype", config.get("dtype"))))
    facts = ModelFacts(
        name=name, is_minimax_m3=True, linear_quant=weights.linear, moe_quant=weights.moe, dtype=_dtype(config)
    )
    return Known(None, facts, (f"{name}: sizes are not in the log; give --model-config",))


def _dtype(config: Mapping[str, Any]) -> str | None:
    said = word("dtype", config.get("dtype"))
    return said if isinstance(said, str) else None


def _open(log: ServerLog, flags: Mapping[str, Any], build: Build) -> Iterator[str]:
    """Variables that no line tells, and without ``non-default args`` every flag that the engine's line does not hold."""
    for name in dict.fromkeys((*_variables(build), *NOT_VLLMS)):
        if name not in log.env and not (name == IN_THE_MODE and log.config is not None):
            yield str(name)
    if log.asked is None:
        every = [flag for held in FLAGS.values() for flag in held.values()]
        yield from (f for f in (*every, *(flag for flag, _ in OBJECTS.values()), *NEVER, *MORE_FLAGS) if f not in flags)


def _variables(build: Build) -> Iterator[str]:
    """vLLM's own; of a build that nobody knows those of all that are known."""
    own = build.rule("env_registry")
    builds = [build] if own.known and own.value else [read_build(None, version) for version in bundled_versions()]
    yield from (str(name) for each in builds for name in each.rule("env_registry").value or ())
