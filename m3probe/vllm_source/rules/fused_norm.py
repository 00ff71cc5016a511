"""The all-reduce that AITER fuses with Gemma RMSNorm, and its limits."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, bindings, integer
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branches, comparison, identifiers, is_true, returned, speaks_of
from m3probe.vllm_source.tree import Found, Tree

AITER = "vllm/distributed/device_communicators/aiter_custom_all_reduce.py"
FUSED = "vllm/model_executor/layers/fused_allreduce_gemma_rms_norm.py"


def fused_norm(tree: Tree) -> Found:
    """Limits of AITER's one-stage all-reduce with Gemma RMSNorm, by world size."""
    caller = tree.source(FUSED)
    caller.function("fused_allreduce_gemma_rms_norm")
    if not speaks_of(caller.module, "aiter"):
        raise Absent(f"{FUSED}: no AITER branch")
    if "use_1stage_fused_ar_rms" not in set(identifiers(caller.module)):
        raise Moved(f"{FUSED}: the AITER branch asks for something else")
    source = tree.source(AITER)
    asks = source.function("AiterCustomAllreduce.use_1stage_fused_ar_rms")
    pack = bindings(asks)["pack_size"]
    if not isinstance(pack, ast.BinOp) or ast.unparse(pack.right) != "inp.element_size()":
        raise Moved(f"{AITER}: pack_size is {ast.unparse(pack)}")
    any_size, *limited = branches(asks, "world_size")
    world = integer(comparison(any_size.test, "world_size", ast.Eq))
    if not is_true(returned(any_size.body)):
        raise Moved(f"{AITER}: world size {world} is not always taken")
    read = [pack.left, comparison(any_size.test, "world_size", ast.Eq)]
    limits: dict[str, int | None] = {str(world): None}
    for test in limited:
        most = comparison(test.test, "world_size", ast.LtE)
        size = comparison(returned(test.body), "total_bytes", ast.Lt)
        limits[str(integer(most))] = integer(size)
        read += [most, size]
    rows = comparison(asks, "inp.numel() // hidden_dim", ast.Gt)
    packs = comparison(asks, "hidden_dim // pack_size", ast.Gt)
    same_shape(source, asks, "use_1stage_fused_ar_rms", [*read, rows, packs])
    same_shape(caller, caller.function("_can_use_aiter_fused_ar_rms"), "_can_use_aiter_fused_ar_rms")
    value = {
        "max_rows": integer(rows),
        "max_packs": integer(packs),
        "pack_bytes": integer(pack.left),
        "max_bytes": limits,
    }
    return source.found(asks, value)


READERS = {"fused_ar_norm": fused_norm}
