"""The FP32 router GEMM on ROCm."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, bindings, bound, evaluate, integer, parameters
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import (
    branches,
    identifiers,
    speaks_of,
)
from m3probe.vllm_source.tree import Found, Source, Tree

ROUTER = "vllm/model_executor/layers/fused_moe/router"


def router_gemm(tree: Tree) -> Found:
    """Rows and shapes of the FP32 router GEMM of ROCm (gfx950)."""
    gate = tree.source(f"{ROUTER}/gate_linear.py")
    gate.class_("GateLinear")
    if not speaks_of(gate.module, "rocm", "gfx"):
        raise Absent(f"{gate.name}: no ROCm kernel")
    source = tree.source(f"{ROUTER}/rocm_fp32_router_gemm.py")
    asks = source.function("_validate_inputs")
    if "can_use_rocm_fp32_router_gemm" not in set(identifiers(gate.module)) or "on_gfx950" not in set(
        identifiers(asks)
    ):
        raise Moved(f"{gate.name}: the ROCm kernel is asked for in another way")
    same_shape(source, asks, "fp32_router_inputs")
    same_shape(gate, _assigned(gate, "self.allow_fp32_router_gemm"), "allow_fp32_router_gemm")
    same_shape(gate, gate.function("fp32_router_gemm_dispatch_impl"), "fp32_router_gemm_dispatch_impl")
    rows = integer(_most_rows(asks), bindings(source.module))
    dispatched = integer(bound(gate.defined("GateLinear"), "FP32_MAX_TOKENS"))
    return source.found(asks, {"max_rows": min(rows, dispatched), "shapes": _shapes(source, asks)})


def _assigned(source: Source, target: str) -> ast.Assign:
    for part in ast.walk(source.class_("GateLinear")):
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == target:
            return part
    raise Moved(f"{source.name}: {target} is not set")


def _most_rows(asks: ast.AST) -> ast.expr:
    """``if not 0 <= hidden_states.shape[0] <= _MAX_TOKENS``."""
    for part in ast.walk(asks):
        if not isinstance(part, ast.Compare) or [type(op) for op in part.ops] != [ast.LtE, ast.LtE]:
            continue
        if ast.unparse(part.comparators[0]) == "hidden_states.shape[0]":
            return part.comparators[1]
    raise Moved("rows are not limited as before")


def _shapes(source: Source, asks: ast.AST) -> list[list[int]] | None:
    """The table that a shape is looked up in; None where no table is asked."""
    tables = branches(asks, "shape", "ROCM_FP32_ROUTER_GEMM_SUPPORTED_SHAPES")
    if tables:
        return sorted([int(k), int(n)] for k, n in evaluate(source.bound("ROCM_FP32_ROUTER_GEMM_SUPPORTED_SHAPES")))
    if "ROCM_FP32_ROUTER_GEMM_SUPPORTED_SHAPES" in bindings(source.module) or parameters(
        source.function("can_use_rocm_fp32_router_gemm")
    ) != ["hidden_states", "router_weight"]:
        raise Moved(f"{source.name}: shapes are asked for in another way")
    return None


READERS = {"router_gemm": router_gemm}
