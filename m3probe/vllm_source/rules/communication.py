"""vLLM's custom all-reduce, AITER's in its place, and the order in which backends are asked."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, bound, evaluate, integer, mentions, parameter_default
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, comparison, identifiers, returned, speaks_of
from m3probe.vllm_source.tree import Found, Tree

ROOM = "vllm/distributed/device_communicators"
CUSTOM, COMMUNICATOR = f"{ROOM}/custom_all_reduce.py", f"{ROOM}/cuda_communicator.py"
OPS = "vllm/_aiter_ops.py"
# (receiver, method) -> word of the rule; None: a last resort that is no backend of its own. The batch-invariant
# reduction stands between custom and symm_mem at 0.32 and 0.33, and only under VLLM_BATCH_INVARIANT.
REDUCERS: dict[tuple[str, str], str | None] = {
    ("torch.ops.vllm", "all_reduce_symmetric_with_copy"): "nccl_symm_mem",
    ("qr_comm", "quick_all_reduce"): "quick_reduce",
    ("fi_pcie_ipc_ar_comm", "all_reduce"): "flashinfer",
    ("fi_ar_comm", "all_reduce"): "flashinfer",
    ("aiter_ar_comm", "custom_all_reduce"): "aiter_custom",
    ("ca_comm", "custom_all_reduce"): "custom",
    ("symm_mem_comm", "all_reduce"): "symm_mem",
    ("pynccl_comm", "all_reduce"): "pynccl",
    ("torch.distributed", "all_reduce"): None,
    ("", "all_reduce_batch_invariant"): None,
}


def custom(tree: Tree) -> Found:
    """vLLM's own: world sizes, the largest payload, and whether that is excluded."""
    source = tree.source(CUSTOM)
    start, asks = source.function("CustomAllreduce.__init__"), source.function("CustomAllreduce.should_custom_ar")
    # On ROCm the default stands: it is lowered only inside conditions on CUDA.
    lowered = {id(part) for test in branches(start, "is_cuda") for part in ast.walk(test)}
    for part in ast.walk(start):
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "max_size" and id(part) not in lowered:
            raise Moved(f"{CUSTOM}: max_size is set outside a condition on CUDA")
    largest = comparison(asks, "inp_size", ast.Lt)
    if ast.unparse(largest) != "self.max_size" or not mentions(start, "max_size"):
        raise Moved(f"{CUSTOM}: the payload is not compared with max_size")
    worlds = [int(size) for size in evaluate(bound(source.defined("CustomAllreduce"), "_SUPPORTED_WORLD_SIZES"))]
    tests = [part for part in ast.walk(asks) if isinstance(part, ast.Compare)]
    limits = [
        t.comparators[0] for t in tests if ast.unparse(t.left) == "self.world_size" and isinstance(t.ops[0], ast.Gt)
    ]
    value = {
        "worlds": worlds,
        "most_world": min([max(worlds), *(integer(limit) for limit in limits)]),
        "max_bytes": integer(parameter_default(start, "max_size")),
        "strict": True,
        "align": integer(_modulus(asks, "inp_size")),
    }
    same_shape(source, asks, "should_custom_ar", [*limits, _modulus(asks, "inp_size")])
    return source.found(asks, value)


def _modulus(node: ast.AST, name: str) -> ast.expr:
    found = [
        part.right
        for part in ast.walk(node)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and ast.unparse(part.left) == name
    ]
    if len(found) != 1:
        raise Moved(f"{len(found)} remainders of {name}, not 1")
    return found[0]


def aiter_custom(tree: Tree) -> Found:
    """The variable that puts AITER's in the place of vLLM's own."""
    communicator = tree.source(COMMUNICATOR)
    start = communicator.function("CudaCommunicator.__init__")
    if not speaks_of(communicator.module, "aiter"):
        raise Absent(f"{COMMUNICATOR}: no AITER")
    same_shape(communicator, branch(start, "use_custom_allreduce", "aiter_ar_comm").test, "custom_unless_aiter")
    source = tree.source(OPS)
    enabled = source.function("rocm_aiter_ops.is_custom_all_reduce_enabled")
    names = set(identifiers(returned(enabled.body)))
    if not {"_AITER_ENABLED", "_CUSTOM_ALL_REDUCE_ENABLED"} <= names:
        raise Moved(f"{OPS}: is_custom_all_reduce_enabled asks for something else")
    same_shape(source, returned(enabled.body), "is_custom_all_reduce_enabled")
    switch = evaluate(bound(source.defined("rocm_aiter_ops"), "_CUSTOM_ALL_REDUCE_ENABLED"))
    if not str(switch).startswith("envs.VLLM_"):
        raise Moved(f"{OPS}: _CUSTOM_ALL_REDUCE_ENABLED is {switch}")
    return source.found(enabled, {"env": str(switch).removeprefix("envs.")})


def order(tree: Tree) -> Found:
    """Backends in the order of the statements of ``all_reduce``; the log line at start has another order."""
    source = tree.source(COMMUNICATOR)
    function = source.function("CudaCommunicator.all_reduce")
    found: list[str] = []
    for statement in function.body:
        for word in sorted(_reducers(statement)):
            if not found or found[-1] != word:
                found.append(word)
    if len(set(found)) != len(found) or found[-1:] != ["pynccl"]:
        raise Moved(f"{COMMUNICATOR}: all_reduce asks {', '.join(found)}")
    same_shape(source, function, "all_reduce")
    return source.found(function, found)


def _reducers(statement: ast.stmt) -> set[str]:
    words = set()
    for part in ast.walk(statement):
        if not isinstance(part, ast.Call):
            continue
        method = part.func.attr if isinstance(part.func, ast.Attribute) else ast.unparse(part.func)
        receiver = ast.unparse(part.func.value) if isinstance(part.func, ast.Attribute) else ""
        if "reduce" not in method or method.startswith("should_"):
            continue
        key = (receiver.removeprefix("self."), method)
        if key not in REDUCERS or (REDUCERS[key] not in (None, "pynccl") and not isinstance(statement, ast.If)):
            raise Moved(f"{COMMUNICATOR}: all_reduce calls {receiver}.{method}")
        words.add(REDUCERS[key] or "")
    if len(words - {""}) > 1:
        raise Moved(f"{COMMUNICATOR}: one statement reduces in several ways")
    return words - {""}


READERS = {"custom_ar": custom, "aiter_ar": aiter_custom, "all_reduce_order": order}
