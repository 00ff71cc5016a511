"""Shared-expert fusion and the monokernel of MiniMax M3's AMD model."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Function, Moved, bound, calls, evaluate, integer, sentence, words
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, comparison, identifiers, speaks_of
from m3probe.vllm_source.tree import Found, Tree

MODEL = "vllm/models/minimax_m3/amd/model.py"
CHECK = "vllm/model_executor/layers/quantization/utils/config_utils.py"
SPEC = "vllm/models/minimax_m3/amd/specialized_decode/runtime/spec.py"
GUARDS = "vllm/models/minimax_m3/amd/specialized_decode/runtime/guards.py"
KERNEL_CONFIG = "vllm/config/kernel.py"
M3_CONFIGS = ("ModelOptMxFp8Config", "QuarkConfig")  # of the MXFP8 and the MXFP4 checkpoint
SWITCH, COMPATIBLE = "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS", "is_shared_expert_quant_fse_compatible"


def fse(tree: Tree) -> Found:
    """Which quantisation configs the fusion accepts, and the sentence of its refusal."""
    model = tree.source(MODEL)
    model.class_("MiniMaxM3MoE")
    if not speaks_of(model.module, "fuse_shared", "fused_shared", "fusion_shared", "fusion_moe_shared"):
        raise Absent(f"{MODEL}: no shared-expert fusion")
    if SWITCH not in set(identifiers(model.module)):
        raise Moved(f"{MODEL}: the fusion is asked for by another name")
    if COMPATIBLE not in set(identifiers(model.module)):
        asks = model.function("_fuse_shared_experts_enabled")
        same_shape(model, asks, "_fuse_shared_experts_enabled")
        value = {"check": False, "accepts": [], "refusal": None, "no_ep": _no_ep(asks)}
        return model.found(asks, value)
    source = tree.source(CHECK)
    check = source.function(COMPATIBLE)
    start = branch(model.function("MiniMaxM3MoE.__init__"), "fse_requested", "enable_expert_parallel")
    same_shape(model, start, "fse_start")
    for kind in M3_CONFIGS:
        for accepts in branches(check, "isinstance", "quant_config", kind):
            same_shape(source, accepts, f"fse_{kind}")
    value = {
        "check": True,
        "accepts": _accepted(check),
        "refusal": _refusal(check),
        "no_ep": _no_ep(start.test),
    }
    return source.found(check, value)


def _no_ep(node: ast.AST) -> bool:
    """Whether it asks for ``not ....enable_expert_parallel``."""
    refused = [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.UnaryOp)
        and isinstance(part.op, ast.Not)
        and ast.unparse(part.operand).endswith(".enable_expert_parallel")
    ]
    if not refused and speaks_of(node, "expert_parallel"):
        raise Moved(f"{MODEL}: expert parallelism is asked for in another way")
    return bool(refused)


def _accepted(check: Function) -> list[str]:
    """Classes of the top-level ``isinstance(quant_config, ...)`` branches in which some return says True."""
    found: list[str] = []
    for statement in check.body:
        if not isinstance(statement, ast.If) or not any(_says(part, verdict=True) for part in ast.walk(statement)):
            continue
        for call in calls(statement.test, "isinstance"):
            if ast.unparse(call.args[0]) == "quant_config":
                kinds = call.args[1]
                found += words(kinds) if isinstance(kinds, ast.Tuple) else [ast.unparse(kinds)]
    if not found:
        raise Moved(f"{CHECK}: {COMPATIBLE} accepts no class")
    return sorted(set(found))


def _says(node: ast.AST, *, verdict: bool) -> bool:
    return (
        isinstance(node, ast.Return)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.value.elts[0], ast.Constant)
        and node.value.elts[0].value is verdict
    )


def _refusal(check: Function) -> str:
    last = check.body[-1]
    if not _says(last, verdict=False) or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise Moved(f"{CHECK}: {COMPATIBLE} does not end in a refusal")
    said = sentence(last.value.elts[1])
    if said is None or "{cls}" not in said:
        raise Moved(f"{CHECK}: the last refusal names no class")
    return said


def monokernel(tree: Tree) -> Found:
    """What the specialised decode asks, and every sentence with which it refuses."""
    config, model = tree.source(KERNEL_CONFIG).defined("KernelConfig"), tree.source(MODEL)
    model.class_("MiniMaxM3MoE")
    has = any(isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "monokernel" for node in config.body)
    if not has:
        if speaks_of(model.module, "specialized_decode", "mono_", "monokernel"):
            raise Moved(f"{MODEL}: a specialised decode without --monokernel")
        raise Absent(f"{KERNEL_CONFIG}: no monokernel")
    source = tree.source(SPEC)
    decode = source.class_("DecodeConfig")
    asks = source.function("DecodeConfig.refusal_reasons")
    widths = _range(bound(decode, "widths"))
    if integer(bound(decode, "max_rows")) != widths[1]:
        raise Moved(f"{SPEC}: max_rows is not the largest width")
    read = {
        "kv_dtypes": comparison(asks, "cc.cache_dtype", ast.NotIn),
        "block": comparison(asks, "cc.block_size", ast.NotEq),
        "index_dtype": comparison(asks, "index_dtype", ast.NotEq),
        "draft_method": comparison(asks, "speculative.method", ast.NotEq),
        "moe_backend": comparison(asks, "config.kernel_config.moe_backend", ast.NotEq),
    }
    same_shape(source, asks, "refusal_reasons", read.values())
    value = {"rows": widths, "tp": integer(bound(decode, "tp_size")), "units": _units(tree, decode)}
    value |= {key: evaluate(node) for key, node in read.items()}
    return source.found(asks, value | {"refusals": _sentences(asks, decode)})


def _range(node: ast.expr) -> list[int]:
    match node:
        case ast.Call(func=ast.Name(id="tuple"), args=[ast.Call(func=ast.Name(id="range"), args=[first, past])]):
            return [integer(first), integer(past) - 1]
    raise Moved(f"{SPEC}: widths is no range")


def _units(tree: Tree, decode: ast.ClassDef) -> int:
    """Compute units: the guard that runs after load compares them with ``blocks``."""
    guards = tree.source(GUARDS).function("model_refusals")
    if ast.unparse(comparison(guards, "cus", ast.NotEq)) != "config.blocks":
        raise Moved(f"{GUARDS}: compute units are asked for in another way")
    return integer(bound(decode, "blocks"))


def _sentences(asks: Function, decode: ast.ClassDef) -> list[str]:
    found: list[tuple[int, str]] = []
    for call in calls(asks, "append"):
        said = sentence(call.args[0]) if ast.unparse(call.func) == "reasons.append" else None
        if said is None:
            raise Moved(f"{SPEC}: a reason that is no sentence")
        for name in ("tp_size", "first_layer"):
            said = said.replace(f"{{self.{name}}}", str(integer(bound(decode, name))))
        found.append((call.lineno, said))
    if not found or not _gives_reasons(asks):
        raise Moved(f"{SPEC}: refusal_reasons gives no reasons")
    return [said for _, said in sorted(found)]


def _gives_reasons(asks: Function) -> bool:
    """Whether the function gives back the list that it fills."""
    last = asks.body[-1]
    return isinstance(last, ast.Return) and last.value is not None and ast.unparse(last.value) == "reasons"


READERS = {"fse": fse, "monokernel": monokernel}
