"""Weights as float32 on the host, for a reference: only layouts that are known, everything else is told as unknown.

Sources: vLLM 0.24 to 0.33, ``model_executor/layers/quantization`` and ``model_executor/kernels/linear``. Scales called
``*_inv`` are multiplied too (DeepSeek's naming). MX formats: OCP Microscaling 1.0, blocks of 32, E8M0 scales.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from m3probe.collectors._modules_look import dtype, get, shape

FLOATS = frozenset({"float32", "float16", "bfloat16"})
FP8 = re.compile(r"float8_e[45]m[32]")
PLAIN_KERNELS = re.compile(r"Torch|Triton|Emulation|RocmDotScaled|Cutlass")
"""Linear kernels that leave a quantised weight as [N, K] (or its transpose) with scales in order; others shuffle."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
MX_BLOCK, E8M0_BIAS, E8M0_NAN = 32, 127, 0xFF


class Unknown(Exception):
    """A layout, or a way of computing, that the reference does not know; the text says which."""


def weight_of(owner: Any, prefix: str, size: tuple[int, int], at: int | None = None) -> Any:
    """``owner``'s weight (of expert ``at``) as float32 [N, K] on the host.

    Raises:
        Unknown: it is not here, or not in a layout that is known.
    """
    weight = get(owner, f"{prefix}weight", f"{prefix}weight_packed")
    if weight is None or not weight.numel():
        raise Unknown("the only copy of the weight is inside a handle of the CPU's GEMM library")
    if get(weight, "is_shuffled") is True:
        raise Unknown("the weight is shuffled for AITER")
    scale = get(owner, f"{prefix}weight_scale", f"{prefix}weight_scale_inv")
    if get(owner, f"{prefix}weight_global_scale", f"{prefix}weight_scale_2") is not None:
        raise Unknown("the weight has two levels of scales (NVFP4)")
    if at is not None:
        weight = weight[at]
        scale = scale[at] if scale is not None and scale.ndim else scale
    host = None if scale is None else scale.detach().cpu()
    return dequantised(_upright(weight.detach(), size).cpu(), host, size)


def dequantised(weight: Any, scale: Any, size: tuple[int, int]) -> Any:
    """float32 [N, K] of a host tensor with its scales.

    Raises:
        Unknown: dtype, dims or scales fit no known layout.
    """
    kind, (n, k) = dtype(weight), size
    if kind in FLOATS and len(shape(weight)) == 2 and shape(weight)[0] >= n and shape(weight)[1] >= k:
        return weight[:n, :k].float()
    if FP8.match(kind) and shape(weight) == size and scale is not None:
        return weight.float() * spread(scale, size)
    if kind == "uint8" and shape(weight) == (n, k // 2) and scale is not None and shape(scale) == (n, k // MX_BLOCK):
        return fp4(weight) * spread(scale, size)
    dims = "none" if scale is None else f"{dtype(scale)} {shape(scale)}"
    raise Unknown(f"a weight of {kind} {shape(weight)} with scales {dims} for N, K = {n}, {k}")


def spread(scale: Any, size: tuple[int, int]) -> Any:
    """Scales as a tensor that multiplies [N, K]: one for all, one a row, or one a block.

    Raises:
        Unknown: they divide neither rows nor columns evenly.
    """
    torch, (n, k) = _torch(), size
    values = _exponents(scale) if dtype(scale) in ("uint8", "float8_e8m0fnu") else scale.float()
    if values.numel() == 1:
        return values.reshape(1, 1)
    if values.numel() == n and shape(values) in {(n,), (n, 1), (1, n)}:
        return values.reshape(n, 1)
    if values.ndim != 2:
        raise Unknown(f"scales of {shape(scale)} for N, K = {n}, {k}")
    rows, columns = (-(-whole // parts) for whole, parts in zip(size, shape(values), strict=True))
    fits = all(
        -(-whole // block) == parts for whole, block, parts in zip(size, (rows, columns), shape(values), strict=True)
    )
    if not fits or columns % MX_BLOCK:
        raise Unknown(f"scales of {shape(scale)} for N, K = {n}, {k}")
    wide = torch.repeat_interleave(torch.repeat_interleave(values, rows, 0), columns, 1)
    return wide[:n, :k]


def fp4(packed: Any) -> Any:
    """float32 [N, K] of E2M1 codes, two in a byte, the lower half first."""
    torch = _torch()
    table = torch.tensor([*E2M1, *(-value for value in E2M1)])
    codes = torch.stack((packed & 0x0F, packed >> 4), dim=-1).reshape(packed.shape[0], -1)
    return table[codes.long()]


def plain_kernel(name: str) -> bool:
    """Whether a linear kernel of this class leaves quantised weights in order."""
    return bool(PLAIN_KERNELS.search(name))


def _exponents(scale: Any) -> Any:
    """E8M0: a power of two a byte; 0xFF is NaN."""
    torch = _torch()
    codes = scale.view(torch.uint8).float()
    values = torch.exp2(codes - E8M0_BIAS)
    return torch.where(codes == E8M0_NAN, torch.full_like(values, float("nan")), values)


def _upright(weight: Any, size: tuple[int, int]) -> Any:
    """A weight that was stored for a column-major GEMM is [K, N] with a stride of 1 along K."""
    n, k = size
    turned = shape(weight) == (k, n) and weight.stride(0) == 1 and (n != k or weight.stride(1) != 1)
    return weight.t() if turned else weight


def _torch() -> Any:
    return sys.modules["torch"]
