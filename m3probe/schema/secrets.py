"""What of an environment or a command line may be kept: what steers the server, and never a key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

TOLD = (
    "VLLM_", "AITER_", "M3PROBE", "HIP_", "HSA_", "ROCR_", "ROCM_", "CUDA_", "NCCL_", "RCCL_", "PYTORCH_", "TORCH_",
    "TRITON_", "OMP_", "ROCPROFILER_", "GPU_MAX_HW_QUEUES", "HF_HUB_OFFLINE",
)  # fmt: skip
_WORD = r"(?:^|[_-])(?:API)?(?:KEYS?|TOKEN|SECRETS?|PASSWORD|PASSWD|CREDENTIALS?)"
_HIDDEN = re.compile(rf"{_WORD}(?:$|[_-])", re.IGNORECASE)
_NAMED_SO = re.compile(rf"{_WORD}$", re.IGNORECASE)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer vLLM, AITER, the GPU's runtime and m3probe, no others."""
    found = {name: value for name, value in sorted(variables.items()) if name.startswith(TOLD)}
    return {name: "(set)" if secret(name) else value for name, value in found.items()}


def command(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line without what follows an option for a key; several values may follow one option."""
    told, hide = [], False
    for word in argv:
        option, equals, _value = word.partition("=")
        is_option = word.startswith("-")
        is_secret = is_option and (secret(option) or option == "--header")
        if hide and not is_option:
            told.append("(hidden)")
            continue
        hide = is_secret and not equals
        told.append(f"{option}=(hidden)" if is_secret and equals else word)
    return tuple(told)


def secret(name: str) -> bool:
    """Whether a variable, option or field of this name may hold a key; then it is told as set, its value never.

    Whole words count: ``VLLM_API_KEY`` and ``--api-key``, not ``tokenizer`` or ``max_tokens``.
    """
    return bool(_HIDDEN.search(name.lstrip("-")))


def hides(name: str, value: object) -> bool:
    """Whether a field's value may be a key. A number is one only where the name ends so: not ``num_key_value_heads``,
    ``dbo_decode_token_threshold`` or ``eos_token_id``.
    """
    number = isinstance(value, (int, float))
    return bool(value) and (bool(_NAMED_SO.search(name)) if number else secret(name))
