"""Variables of the GPU's runtime, of collectives and of AITER that are dangerous in a server: one row each, with who says so.

Variables of vLLM that are misspelt, without effect or refused are told by the rules of its release, as in ``recipe``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from m3probe.model.doctor_report import Word

_HIP_DEBUG = "ROCm documentation, HIP environment variables: debug variables"
_NCCL = "NCCL documentation, environment variables"


def is_on(value: str) -> bool:
    """Set, and not to a word for off."""
    return value.strip().lower() not in ("", "0", "false", "off", "no")


def _is_set(value: str) -> bool:
    return value.strip() != ""


def _is_zero(value: str) -> bool:
    return value.strip() == "0"


def _at_least(number: int) -> Callable[[str], bool]:
    return lambda value: value.strip().isdecimal() and int(value.strip()[:9]) >= number


def _is_trace(value: str) -> bool:
    return value.strip().upper() == "TRACE"


def _is_debug(value: str) -> bool:
    return value.strip().upper() == "DEBUG"


@dataclass(frozen=True, slots=True)
class Dangerous:
    """One variable.

    Args:
        when: value -> whether it is dangerous so.
        text: what it does.
        source: who says so.
        advice: the next move; empty: unset it.
    """

    name: str
    when: Callable[[str], bool]
    word: Word
    text: str
    source: str
    advice: str = ""


_SERIAL = "every kernel is waited for before the next one: a server serves at a fraction of its speed, and no idle share is its own"
RULES = (
    Dangerous("HIP_LAUNCH_BLOCKING", is_on, Word.BAD, _SERIAL, _HIP_DEBUG),
    Dangerous("CUDA_LAUNCH_BLOCKING", is_on, Word.BAD, _SERIAL, "CUDA C++ programming guide, environment variables"),
    Dangerous("AMD_SERIALIZE_KERNEL", is_on, Word.BAD, _SERIAL, _HIP_DEBUG),
    Dangerous("AMD_SERIALIZE_COPY", is_on, Word.BAD, "every copy is waited for", _HIP_DEBUG),
    Dangerous("HSA_OVERRIDE_GFX_VERSION", _is_set, Word.BAD,
        "the runtime reports another architecture than the device has: kernels, fast paths and every rule by gfx are chosen for it",
        "ROCm/TheRock issue 1719"),
    Dangerous("HSA_ENABLE_SDMA", _is_zero, Word.WARN,
        "copies run as kernels on compute units and stand among the kernels of a trace", "ROCR-Runtime documentation, environment variables"),
    Dangerous("HIP_FORCE_QUEUE_PROFILING", is_on, Word.WARN, "queues run as if under a profiler",
        "ROCm documentation, HIP environment variables: profiling variables"),
    Dangerous("AMD_LOG_LEVEL", _at_least(3), Word.WARN, "each call of HIP writes a line",
        "ROCm documentation, logging HIP activity"),
    Dangerous("NCCL_P2P_DISABLE", is_on, Word.WARN, "collectives go through host memory instead of between the GPUs", _NCCL),
    Dangerous("NCCL_SHM_DISABLE", is_on, Word.WARN, "ranks of one host without a direct link talk over the network", _NCCL),
    Dangerous("NCCL_IB_DISABLE", is_on, Word.WARN, "nodes talk over IP sockets instead of RDMA", _NCCL),
    Dangerous("NCCL_ALGO", _is_set, Word.WARN, "the algorithm of collectives is fixed for all sizes", _NCCL),
    Dangerous("NCCL_PROTO", _is_set, Word.WARN, "the protocol of collectives is fixed for all sizes", _NCCL),
    Dangerous("NCCL_DEBUG", _is_trace, Word.WARN, "each collective call writes lines", _NCCL),
    Dangerous("AITER_CUSTOM_AR_MAX_SIZE", _is_zero, Word.WARN,
        "AITER's all-reduce is off: every size goes to RCCL", "AITER, custom all-reduce (64 MiB by default, 0 turns it off)"),
    Dangerous("AITER_CONFIG_FMOE", _is_set, Word.WARN,
        "the tables named here replace those that AITER brings and are not added to them: every shape that is not in them takes the "
        "heuristic", "sglang PR 37072", "Name AITER's own tables too, in one list"),
    Dangerous("PYTORCH_TUNABLEOP_ENABLED", is_on, Word.WARN,
        "GEMMs are tuned when a shape is first seen, while requests wait, unless PYTORCH_TUNABLEOP_TUNING=0",
        "PyTorch documentation, torch.cuda.tunable"),
    Dangerous("VLLM_TRACE_FUNCTION", is_on, Word.BAD, "every Python call is written to a file", "vLLM, envs.py"),
    Dangerous("VLLM_LOGGING_LEVEL", _is_debug, Word.WARN, "vLLM writes its debug lines, some of them each step", "vLLM, envs.py"),
    Dangerous("VLLM_SERVER_DEV_MODE", is_on, Word.WARN,
        "development endpoints are open to whoever reaches the port: sleep, cache resets, /collective_rpc", "vLLM, envs.py"),
)  # fmt: skip
