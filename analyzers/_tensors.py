"""Operator arguments as tensors: sizes, dtype words and bytes, from Input Dims and Input type."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

_SIZES = {
    "c10::BFloat16": ("bf16", 2),
    "c10::Half": ("fp16", 2),
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "c10::Float8_e4m3fn": ("fp8_e4m3", 1),
    "c10::Float8_e4m3fnuz": ("fp8_e4m3fnuz", 1),
    "c10::Float8_e5m2": ("fp8_e5m2", 1),
    "c10::Float8_e5m2fnuz": ("fp8_e5m2fnuz", 1),
    "c10::Float8_e8m0fnu": ("e8m0", 1),
    "c10::Float4_e2m1fn_x2": ("fp4_x2", 1),
    "unsigned char": ("uint8", 1),
    "signed char": ("int8", 1),
    "bool": ("bool", 1),
    "short": ("int16", 2),
    "short int": ("int16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "long int": ("int64", 8),
    # Words of record_param_comms.
    "BFloat16": ("bf16", 2),
    "Half": ("fp16", 2),
    "Float": ("fp32", 4),
    "Double": ("fp64", 8),
    "Byte": ("uint8", 1),
    "Char": ("int8", 1),
    "Bool": ("bool", 1),
    "Int": ("int32", 4),
    "Long": ("int64", 8),
    "Float8_e4m3fn": ("fp8_e4m3", 1),
    "Float8_e4m3fnuz": ("fp8_e4m3fnuz", 1),
    "Float8_e5m2": ("fp8_e5m2", 1),
}
_CACHE_TYPE = re.compile(
    r"<[^<>]*?(__\w+_bfloat16|__half|_Float16|float|unsigned char|uint8_t), \(?[\w:]*?Fp8KVCacheDataType\)?(\d)"
)
_BY_KIND = {"1": "fp8_e4m3", "2": "fp8_e5m2"}
_AUTO = {"__half": "fp16", "_Float16": "fp16", "float": "fp32"}


LARGEST = 2**40
"""Elements that no tensor exceeds: at one byte each a TiB, more than any device holds. What says more is no size."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One argument: sizes (empty: no tensor, or a scalar), dtype word, bytes per element (None: not known)."""

    shape: tuple[int, ...]
    dtype: str
    element_bytes: int | None

    @property
    def nbytes(self) -> int | None:
        """Bytes of all elements; None where the dtype is not known or this is no tensor."""
        return prod(self.shape) * self.element_bytes if self.shape and self.element_bytes else None


def dtype_of(word: str) -> tuple[str, int | None]:
    """(short word, bytes per element) of a dtype as traces write it; an unknown word is kept, its size None."""
    return _SIZES.get(word, (word.removeprefix("c10::").lower(), None))


@lru_cache(maxsize=65536)
def arguments(dims: str, types: str) -> tuple[Tensor, ...]:
    """The arguments of an operator; () where its dims were not recorded."""
    words = json_list(types)
    found = []
    for i, size in enumerate(json_list(dims)):
        word = words[i] if i < len(words) else ""
        found.append(Tensor(sizes_of(size), *dtype_of(word if isinstance(word, str) else "")))
    return tuple(found)


def json_list(text: str) -> list[object]:
    """A list from JSON text of a trace; [] for any other value, and for text that is no JSON or nested too deep."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def sizes_of(value: object) -> tuple[int, ...]:
    """The sizes of one argument; () for scalars, tensor lists, and what cannot be the sizes of a tensor."""
    sizes = strides_of(value)
    return sizes if prod(sizes) <= LARGEST else ()


def strides_of(value: object) -> tuple[int, ...]:
    """The strides of one argument: whole numbers; () for anything else."""
    if isinstance(value, list) and all(type(n) is int and 0 <= n <= LARGEST for n in value):
        return tuple(value)
    return ()


@lru_cache(maxsize=4096)
def cache_dtype(kernel: str) -> str:
    """dtype of the KV cache in a vLLM cache kernel's template arguments; "" where they do not say.

    ``Fp8KVCacheDataType`` 0 stores the model's dtype, 1 FP8 E4M3, 2 FP8 E5M2 (csrc/quantization/w8a8/fp8, 0.33).
    """
    found = _CACHE_TYPE.search(kernel)
    return _BY_KIND.get(found[2], _AUTO.get(found[1], "bf16")) if found else ""


def shape_text(shape: Sequence[int]) -> str:
    """``[3000, 2, 128]`` as traces write it."""
    return f"[{', '.join(map(str, shape))}]"
