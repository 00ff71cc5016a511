"""What of an environment or a command line may be kept: what steers the server, and never a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TOLD = (
    "VLLM_", "AITER_", "M3PROBE", "HIP_", "HSA_", "ROCR_", "ROCM_", "CUDA_", "NCCL_", "RCCL_", "PYTORCH_", "TORCH_",
    "TRITON_", "OMP_", "ROCPROFILER_", "GPU_MAX_HW_QUEUES", "HF_HUB_OFFLINE",
)  # fmt: skip
HIDDEN = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
"""A variable or option with one of these in its name is told as set, its value never (VLLM_API_KEY, ``--api-key``)."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer vLLM, AITER, the GPU's runtime and m3probe, no others."""
    found = {name: value for name, value in sorted(variables.items()) if name.startswith(TOLD)}
    return {name: "(set)" if _secret(name) else value for name, value in found.items()}


def command(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without what follows an option for a key; several values may follow one option."""
    told, hide = [], False
    for word in argv:
        option, equals, _value = word.partition("=")
        is_option = word.startswith("-")
        secret = is_option and _secret(option)
        if hide and not is_option:
            told.append("(hidden)")
            continue
        hide = secret and not equals
        told.append(f"{option}=(hidden)" if secret and equals else word)
    return tuple(told)


def _secret(name: str) -> bool:
    return any(word in name.upper() for word in HIDDEN)
