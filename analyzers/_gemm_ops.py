"""Which operator is a GEMM, and which M, N, K its arguments say: text in, shapes out.

``N`` and ``K`` are the weight's. Argument orders were read from vLLM 0.33.0 (``_custom_ops.py``, ``_aiter_ops.py``,
``layers/utils.py``, ``csrc/torch_bindings.cpp``) and PyTorch; an operator that is not listed counts only when its
arguments allow a single reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from m3probe.analyzers._tensors import json_list, sizes_of

LINEAR, BATCHED, GROUPED = "linear", "bmm", "moe"


@dataclass(frozen=True, slots=True)
class GemmShape:
    """One GEMM of an operator: local M, N, K in elements.

    ``groups`` is the batch of a bmm (``kind`` "bmm") or the local experts of a grouped GEMM ("moe", where M is the
    rows before routing), else 1; ``part`` tells the two weights of an expert MLP apart.
    """

    kind: str
    M: int
    N: int
    K: int
    dtype: str
    groups: int = 1
    part: str = ""


@dataclass(frozen=True, slots=True)
class _Order:
    """Argument positions of activation and weight; ``layout`` of the weight: nk, kn, or "" (either)."""

    activation: int
    weight: int
    layout: str = ""


_ORDERS: tuple[tuple[str, _Order], ...] = (
    (r"_?(int_)?mm|matmul|bmm|hipb_mm|rocb_mm", _Order(0, 1, "kn")),
    (r"_?scaled_mm(_v2)?|rocm_aiter_hipb_mm\w*|rocm_per_tensor\w*scaled_mm\w*", _Order(0, 1)),
    (r"_?addmm(_activation)?|baddbmm", _Order(1, 2, "kn")),
    (r"linear|rocm_unquantized_gemm\w*", _Order(0, 1, "nk")),
    (r"wvsplitk(rc|q)?|llmm1", _Order(1, 0, "nk")),
    (r"(fp32|dsv3)_router_gemm|dsv3_fused_a_gemm|cutlass_scaled_mm(_azp)?|cutlass_scaled_fp4_mm", _Order(1, 2)),
    (r"_?rocm_aiter_\w*gemm\w*|gemm_a\d+w\w+|\w+_router_gemm_dispatch|ll_\w+_gemm", _Order(0, 1)),
)
_GENERIC = re.compile(r"gemm|scaled_mm|qlinear|quant_matmul")
_GROUPED = re.compile(
    r"moe_?(mm|gemm|stage|impl)|fused_moe|fused_\w*moe|fmoe|ck_moe|asm_moe|fused_experts|grouped_(mm|gemm)"
)
_DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "signed char": "int8",
    "unsigned char": "uint8",
}
_PACKED = "float4_e2m1fn_x2"  # two elements in a byte, and Input Dims count bytes


@lru_cache(maxsize=4096)
def is_gemm_op(name: str) -> bool:
    """Whether an operator of this name multiplies matrices (grouped GEMMs of an expert layer included)."""
    base = _base(name)
    return _order(base) is not None or bool(_GENERIC.search(base) or _GROUPED.search(base))


@lru_cache(maxsize=65536)
def shapes_of(name: str, dims: str, types: str) -> tuple[GemmShape, ...]:
    """The GEMMs that one execution of an operator computes; empty when its arguments do not prove any.

    Args:
        name: operator, such as ``aten::mm``.
        dims: Input Dims as JSON text, "" when not recorded.
        types: Input type as JSON text.
    """
    sizes, words = json_list(dims), json_list(types)
    if not sizes:
        return ()
    args = [_shape(size) for size in sizes]
    base = _base(name)
    if _GROUPED.search(base):
        return tuple(_grouped(base, args, words))
    order = _order(base)
    if order is None:
        return _only_reading(args, words)
    found = _read(args, words, order)
    return (found,) if found else ()


def _base(name: str) -> str:
    return name.rsplit("::", 1)[-1].lower()


@lru_cache(maxsize=4096)
def _order(base: str) -> _Order | None:
    return next((order for pattern, order in _ORDERS if re.fullmatch(pattern, base)), None)


def _shape(size: object) -> tuple[int, ...]:
    """One argument's sizes; () for scalars, tensor lists, what is no tensor, and what has no elements."""
    shape = sizes_of(size)
    return shape if all(shape) else ()


def dtype_word(text: object) -> str:
    """``c10::BFloat16`` -> ``bf16``; unknown names without their namespace."""
    word = text if isinstance(text, str) else ""
    return _DTYPES.get(word, word.removeprefix("c10::").lower())


def _dtype(words: Sequence[object], activation: int, weight: int) -> str:
    pair = [dtype_word(words[i]) if i < len(words) else "" for i in (activation, weight)]
    return pair[0] if pair[0] == pair[1] else " x ".join(word or "?" for word in pair)


def _read(args: Sequence[tuple[int, ...]], words: Sequence[object], order: _Order) -> GemmShape | None:
    if max(order.activation, order.weight) >= len(args):
        return None
    a, w = args[order.activation], args[order.weight]
    dtype = _dtype(words, order.activation, order.weight)
    if len(a) > 2 and len(w) == len(a):
        same = a[:-2] == w[:-2] and a[-1] == w[-2]
        return GemmShape(BATCHED, a[-2], w[-1], a[-1], dtype, prod(a[:-2])) if same else None
    if len(a) < 2 or len(w) != 2:
        return None
    N = _columns(w, a[-1], order.layout)
    if N is None:
        return None
    scale = 2 if dtype == _PACKED else 1
    return GemmShape(LINEAR, prod(a[:-1]), N, a[-1] * scale, dtype)


def _columns(w: tuple[int, ...], K: int, layout: str) -> int | None:
    """N of a two-dimensional weight of depth K; None when no side has K."""
    if layout != "kn" and w[1] == K:
        return w[0]
    return w[1] if layout != "nk" and w[0] == K else None


def _only_reading(args: Sequence[tuple[int, ...]], words: Sequence[object]) -> tuple[GemmShape, ...]:
    """The GEMM of an operator whose argument order is not known, when only one pair of arguments can be multiplied."""
    matrices = [i for i, arg in enumerate(args) if len(arg) >= 2]
    tried = (
        _read(args, words, _Order(first, second))
        for place, first in enumerate(matrices)
        for second in matrices[place + 1 :]
    )
    found = [shape for shape in tried if shape]
    return (found[0],) if len({(s.M, s.N, s.K) for s in found}) == 1 else ()


def _grouped(base: str, args: Sequence[tuple[int, ...]], words: Sequence[object]) -> Iterator[GemmShape]:
    """Activation first, then w13 [E, 2I, H] and w2 [E, H, I] (or one weight [E, N, K] or [E, K, N])."""
    if len(args) < 2 or len(args[0]) < 2 or len(args[1]) != 3:
        return
    rows, depth = prod(args[0][:-1]), args[0][-1]
    w1 = args[1]
    w2 = args[2] if len(args) > 2 and len(args[2]) == 3 and args[2][0] == w1[0] else None
    if w2 is None:
        N = _columns(w1[1:], depth, "")
        if N is not None:
            yield GemmShape(GROUPED, rows, N, depth, _dtype(words, 0, 1), w1[0])
        return
    packed = 2 if w1[2] * 2 == w2[1] else 1  # FP4 weights are bytes of two elements, the hidden size is whole
    if w1[2] * packed != w2[1]:
        return
    if "stage2" not in base:
        yield GemmShape(GROUPED, rows, w1[1], w1[2] * packed, _dtype(words, 0, 1), w1[0], "moe_w13")
    if "stage1" not in base:
        yield GemmShape(GROUPED, rows, w2[1], w2[2] * packed, _dtype(words, 0, 2), w2[0], "moe_w2")
