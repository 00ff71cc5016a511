"""Dense MXFP8 linear layers on ROCm: kernels, ``--linear-backend`` and tiles."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, bindings, evaluate, integer, texts, words
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.rules._platform import mx_archs
from m3probe.vllm_source.shape import (
    branch,
    comparison,
    identifiers,
    raises,
    returned,
)
from m3probe.vllm_source.tree import Found, Source, Tree

ROOM = "vllm/model_executor/kernels/linear"
CHOICE, NATIVE, CONFIG = f"{ROOM}/__init__.py", f"{ROOM}/mxfp8/rocm_native.py", "vllm/config/kernel.py"
KERNEL = "RocmDotScaledMxfp8LinearKernel"
# 0.24.0 and 0.25.1: (block M, block N, warps, stages) from 1,024 rows up, and below.
BUCKETS = (1024, (128, 256, 8, 2), (64, 64, 4, 2), 128)


def _order(tree: Tree) -> list[str]:
    for platform, kernels in _entries(tree.source(CHOICE).bound("_POSSIBLE_MXFP8_KERNELS")):
        if platform.rpartition(".")[2] == "ROCM":
            return words(kernels)
    raise Moved(f"{CHOICE}: no MXFP8 kernels for ROCm")


def _entries(table: ast.expr) -> list[tuple[str, ast.expr]]:
    if not isinstance(table, ast.Dict):
        raise Moved("no dictionary")
    return [(str(evaluate(key)), value) for key, value in zip(table.keys, table.values, strict=True) if key is not None]


def mxfp8_linear(tree: Tree) -> Found:
    """Kernels in the order asked on ROCm, and what the native one needs of the GPU and of K."""
    order = _order(tree)
    source = tree.source(NATIVE)
    kernel = source.defined(KERNEL)
    supported = source.defined(f"{KERNEL}.is_supported")
    if KERNEL not in order or "supports_mx" not in set(identifiers(supported)):
        raise Moved(f"{NATIVE}: the native kernel is not chosen by supports_mx")
    same_shape(source, supported, "mxfp8_is_supported")
    aligned = comparison(source.defined(f"{KERNEL}.apply_weights"), _alignment(kernel), ast.Eq)
    if evaluate(aligned) != 0:
        raise Moved(f"{NATIVE}: K's remainder is compared with {ast.unparse(aligned)}")
    align = integer(_remainder(source), bindings(source.module))
    return source.found(kernel, {"order": order, "k_align": align, "archs": mx_archs(tree).value})


def _alignment(kernel: ast.AST) -> str:
    found = {
        ast.unparse(part)
        for part in ast.walk(kernel)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and ast.unparse(part.left) == "x2d.shape[-1]"
    }
    if len(found) != 1:
        raise Moved(f"{NATIVE}: K is aligned in {len(found)} ways")
    return found.pop()


def _remainder(source: Source) -> ast.expr:
    node = ast.parse(_alignment(source.defined(KERNEL)), mode="eval").body
    if not isinstance(node, ast.BinOp):
        raise Moved(f"{NATIVE}: no remainder of K")
    return node.right


def backend_map(tree: Tree) -> Found:
    """Names of ``--linear-backend``, which of them leave an MXFP8 kernel, and what the others do."""
    source = tree.source(CHOICE)
    table = source.bound("_LINEAR_BACKEND_KERNEL_MAP")
    order = _order(tree)
    kept = [name for name, kernels in _entries(table) if any(kernel in order for kernel in words(kernels))]
    choices = tree.source(CONFIG).bound("LinearBackend")
    if not isinstance(choices, ast.Subscript) or ast.unparse(choices.value) != "Literal":
        raise Moved(f"{CONFIG}: LinearBackend is no Literal")
    value = {
        "names": texts(choices.slice),
        "mxfp8": kept,
        "unmatched": _unmatched(source),
        "per_quant": _per_quant(tree, source),
    }
    return source.found(table, value)


def _unmatched(source: Source) -> str:
    """0.24 and 0.25.1 raise in ``init_mxfp8_linear_kernel``; 0.32 and 0.33 give the whole list back, twice."""
    start = source.function("init_mxfp8_linear_kernel")
    if "_resolve_backend_kernels" not in set(identifiers(start)):
        asked = branch(start, "linear_backend", "auto")
        same_shape(source, asked, "linear_backend_filter")
        return "error" if raises(branch(asked, "filtered").body) else _moved("names that match nothing do not raise")
    for name in ("_filter_kernels_by_backend", "_resolve_backend_kernels"):
        unmatched = branch(source.function(name), "filtered")
        if raises(unmatched.body) or ast.unparse(returned(unmatched.body)) != "kernels":
            _moved(f"{name} does not give the whole list back")
        same_shape(source, source.function(name), name)
    return "fallback"


def _moved(why: str) -> str:
    raise Moved(f"{CHOICE}: {why}")


def _per_quant(tree: Tree, source: Source) -> bool:
    field = "linear_backend_per_quant"
    getter = source.function("_get_linear_backend")
    same_shape(source, getter, "_get_linear_backend")
    asks = field in set(identifiers(getter))
    has = any(
        isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == field
        for node in tree.source(CONFIG).defined("KernelConfig").body
    )
    if asks is not has:
        raise Moved(f"{CHOICE}: {field} is only half there")
    return asks


def tile_selector(tree: Tree) -> Found:
    """Which of the two known tile selectors the native kernel is launched with; any other one has moved."""
    source = tree.source(NATIVE)
    launcher = source.function("_mxfp8_dot_scaled_linear")
    if "_select_cfg" in set(identifiers(launcher)):
        selector = source.function("_select_cfg")
        same_shape(source, selector, "_select_cfg")
        return source.found(selector, "select_cfg")
    split = branch(launcher, "M")
    names = bindings(launcher)
    rows = integer(comparison(split.test, "M", ast.GtE))
    large, small = (tuple(evaluate(_tile(body))) for body in (split.body, split.orelse))
    if (rows, large, small, integer(names["BLOCK_K"])) != BUCKETS:
        raise Moved(f"{source.where(split)}: other tiles than those of 0.24 and 0.25.1")
    return source.found(split, "two_bucket")


def _tile(statements: list[ast.stmt]) -> ast.expr:
    wanted = "(BLOCK_M, BLOCK_N, num_warps, num_stages)"
    match statements:
        case [ast.Assign(targets=[target], value=value)] if ast.unparse(target) == wanted:
            return value
    raise Moved(f"{NATIVE}: tiles are chosen in another shape")


READERS = {"mxfp8_linear": mxfp8_linear, "linear_backend_map": backend_map, "tile_selector": tile_selector}
