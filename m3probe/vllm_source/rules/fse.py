"""Shared-expert fusion of MiniMax M3's AMD model: what it accepts and how it refuses."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Function, Moved, calls, sentence, words
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, identifiers, speaks_of
from m3probe.vllm_source.tree import Found, Tree

MODEL = "vllm/models/minimax_m3/amd/model.py"
CHECK = "vllm/model_executor/layers/quantization/utils/config_utils.py"
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


READERS = {"fse": fse}
