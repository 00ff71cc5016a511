"""The specialised decode of MiniMax M3's AMD model (``--monokernel``), and every sentence with which it refuses."""

from __future__ import annotations

import ast
from typing import Any

from m3probe.vllm_source.look import Absent, Function, Moved, bound, calls, integer, sentence, text, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import comparison, speaks_of
from m3probe.vllm_source.tree import Found, Tree

ROOM = "vllm/models/minimax_m3/amd"
MODEL, RUNTIME = f"{ROOM}/model.py", f"{ROOM}/specialized_decode/runtime"
SPEC, GUARDS, KERNEL_CONFIG = f"{RUNTIME}/spec.py", f"{RUNTIME}/guards.py", "vllm/config/kernel.py"


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
    value: dict[str, Any] = {"rows": widths, "tp": integer(bound(decode, "tp_size")), "units": _units(tree, decode)}
    value |= {"kv_dtypes": texts(read["kv_dtypes"]), "block": integer(read["block"])}
    value |= {key: text(read[key]) for key in ("index_dtype", "draft_method", "moe_backend")}
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


READERS = {"monokernel": monokernel}
