"""AITER's sparse paged attention, the FP8 indexer that feeds it, and the fused QK-norm of MiniMax M3."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Function, Moved, bindings, integer, parameters, text, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, comparison, identifiers, is_true, raises, returned, speaks_of
from m3probe.vllm_source.tree import Found, Tree

AMD, COMMON = "vllm/models/minimax_m3/amd", "vllm/models/minimax_m3/common"
MODEL, SPARSE = f"{AMD}/model.py", f"{COMMON}/sparse_attention.py"
OPS, CUSTOM_OPS = "vllm/_aiter_ops.py", "vllm/_custom_ops.py"
LAYER = "MiniMaxM3SparseAttention"
FUSED_OP = "fused_minimax_m3_qknorm_rope_kv_insert"


def selector(tree: Tree) -> tuple[str, str] | None:
    """(module, word) of the FP8 indexer that the AMD model imports a selector from; None where it imports none."""
    tree.source(MODEL).class_(LAYER)
    found = {
        (node.module.rpartition(".")[2], name.name)
        for node in ast.walk(tree.source(MODEL).module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm.models.minimax_m3.amd.indexer")
        for name in node.names
        if node.module and name.name.startswith("select_") and name.name.endswith("_indexer_impl_cls")
    }
    if not found:
        if any(name.startswith(f"{AMD}/indexer") for name in tree.files(AMD)):
            raise Moved(f"{MODEL}: an indexer of AMD's is chosen in another way")
        return None
    if len(found) > 1:
        raise Moved(f"{MODEL}: {len(found)} indexers are chosen")
    module, function = found.pop()
    return module, function.removeprefix("select_").removesuffix("_indexer_impl_cls")


def sparse_pa(tree: Tree) -> Found:
    """What happens with several KV heads per rank, and which indexer can lift it."""
    source = tree.source(SPARSE)
    source.class_("MiniMaxM3SparseBackend")
    if not speaks_of(source.module, "aiter"):
        raise Absent(f"{SPARSE}: no AITER")
    function = source.function("minimax_m3_use_aiter_sparse_pa")
    refused = branch(function, "num_kv_heads", "emits_sparse_block_table")
    heads = integer(comparison(refused.test, "num_kv_heads", ast.NotEq))
    same_shape(source, function, "minimax_m3_use_aiter_sparse_pa")
    chosen = selector(tree)
    if heads != 1 or chosen is None:
        raise Moved(f"{source.where(refused)}: {heads} KV heads, indexer {chosen}")
    return source.found(function, {"one_kv_head": True, "raises": raises(refused.body), "table_from": chosen[0]})


def fp8_indexer(tree: Tree) -> Found:
    """What the FP8 indexer asks of GPU, config and context."""
    chosen = selector(tree)
    if chosen is None:
        raise Absent(f"{MODEL}: no FP8 indexer")
    module, word = chosen
    source = tree.source(f"{AMD}/{module}.py")
    asks = source.function(f"{word}_indexer_unsupported_reason")
    names = bindings(source.module)
    archs = texts(source.bound("SUPPORTED_ARCHS"))
    if len(archs) != 1 or f"on_{archs[0]}" not in set(identifiers(asks)):
        raise Moved(f"{source.where(asks)}: not one GPU but {archs}")
    same_shape(source, asks, "indexer_unsupported_reason")
    value = {
        "name": word.upper(),
        "gfx": archs[0],
        "score": text(comparison(asks, "score_type", ast.NotEq), names),
        "topk": integer(comparison(asks, "topk_blocks", ast.NotEq), names),
        "block": integer(comparison(asks, "sparse_block_size", ast.NotEq), names),
        "dim": integer(comparison(asks, "index_head_dim", ast.NotEq), names),
        "max_blocks": integer(comparison(asks, "max_blocks", ast.Gt), names),
        "mfma_columns": _columns(asks, names),
    }
    return source.found(asks, value)


def _columns(asks: Function, names: dict[str, ast.expr]) -> int | None:
    """MFMA columns that (index heads x tokens) must fit.

    0.33 asks for them only where the indexer is sharded: below the early return for one shard they do not count.
    """
    for statement in asks.body:
        if isinstance(statement, ast.If) and "cp_world" in set(identifiers(statement.test)):
            comparison(statement.test, "cp_world", ast.LtE)
            if ast.unparse(returned(statement.body)) == "None":
                return None
        for part in ast.walk(statement):
            if isinstance(part, ast.Compare) and ast.unparse(part.left).startswith("num_index_heads *"):
                return integer(part.comparators[0], names)
    raise Moved("neither MFMA columns nor a sharded indexer")


def index_skip_branch(tree: Tree) -> Found:
    """Whether vLLM's fused op can leave the index branch out."""
    source = tree.source(CUSTOM_OPS)
    function = source.function(FUSED_OP)
    if "skip_index_branch" in parameters(function):
        return source.found(function, {"skips": True})
    if any("skip" in name for name in parameters(function)):
        raise Moved(f"{source.where(function)}: another argument skips")
    raise Absent(f"{source.where(function)}: no skip_index_branch")


def qknorm_aiter(tree: Tree) -> Found:
    """KV cache dtypes that AITER's fused QK-norm takes; FP8 with both scales."""
    model, source = tree.source(MODEL), tree.source(OPS)
    model.class_(LAYER)
    used = {
        part.attr
        for part in ast.walk(model.module)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "rocm_aiter_ops" and "norm" in part.attr
    }
    if not used and not speaks_of(source.module, "idxr", "minimax"):
        raise Absent(f"{MODEL}: no norm of AITER's")
    if "fused_qknorm_idxrqknorm_enabled" not in used:
        raise Moved(f"{MODEL}: AITER's norm is asked for in another way")
    asks = source.function("rocm_aiter_ops.fused_qknorm_idxrqknorm_enabled")
    always = [b for b in branches(asks, "kv_cache_dtype") if is_true(returned(b.body))]
    scaled = [b for b in branches(asks, "kv_cache_dtype") if {"k_scale", "v_scale"} <= set(identifiers(b))]
    if len(always) != 1 or len(scaled) != 1 or ast.unparse(returned(asks.body)) != "False":
        raise Moved(f"{source.where(asks)}: dtypes are asked for in another way")
    plain = comparison(always[0].test, "kv_cache_dtype", ast.Eq)
    fp8 = comparison(scaled[0].test, "kv_cache_dtype", ast.In)
    same_shape(source, asks, "fused_qknorm_idxrqknorm_enabled", [plain, fp8])
    return source.found(asks, {"dtypes": [text(plain), *texts(fp8)]})


READERS = {
    "sparse_pa": sparse_pa,
    "fp8_indexer": fp8_indexer,
    "index_skip_branch": index_skip_branch,
    "qknorm_aiter": qknorm_aiter,
}
