"""Undoes a packing of expert weights by asking the packer itself where it puts each element.

vLLM's CPU kernels want their weights permuted (``prepack_moe_weight``). The permutation is found by packing position
numbers, digit by digit, and is believed only when packing the result again gives the stored bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from m3probe.collectors._quant import Unknown

DIGIT = 128
"""Whole numbers below it are exact in every float dtype in use."""


def unpacked(stored: Any, pack: Callable[[Any], Any]) -> Any:
    """[N, K] of one expert from its packed [N, K].

    Args:
        stored: packed weight, contiguous.
        pack: takes and returns [1, N, K] of the same dtype.

    Raises:
        Unknown: the packer is no permutation of elements.
    """
    torch: Any = sys.modules["torch"]
    count = stored.numel()
    left, place, where = torch.arange(count), 1, torch.zeros(count, dtype=torch.long)
    while place < count:
        digits = (left % DIGIT).to(stored.dtype).reshape(1, *stored.shape)
        where += pack(digits).reshape(-1).long() * place
        left, place = left // DIGIT, place * DIGIT
    if not torch.equal(where.sort().values, torch.arange(count)):
        raise Unknown("the CPU's packing of expert weights does more than move elements")
    flat = torch.empty_like(stored).reshape(-1)
    flat[where] = stored.reshape(-1)
    found = flat.reshape(stored.shape)
    if not torch.equal(pack(found.unsqueeze(0)).reshape(-1), stored.reshape(-1)):
        raise Unknown("packing the unpacked expert weight again gives other bytes")
    return found


def cpu_packer(experts: Any) -> Callable[[Any], Any]:
    """The packer that vLLM's CPU experts were packed with.

    Raises:
        Unknown: this vLLM has none, or names no instruction set.
    """
    pack = getattr(sys.modules.get("vllm._custom_ops"), "cpu_prepack_moe_weight", None)
    isa = getattr(experts, "isa", None)
    if pack is None or not isinstance(isa, str):
        raise Unknown("this vLLM packs expert weights for the CPU in a way that is not known")
    return lambda weight: pack(weight.contiguous(), isa)
