"""The indexer across ranks (context parallel) and across layers (top-k reuse), and the dtypes of its cache."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, bound, mentions, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.rules.attention import AMD, COMMON, LAYER, MODEL
from m3probe.vllm_source.shape import branch, identifiers, raises, speaks_of
from m3probe.vllm_source.tree import Found, Tree

ATTENTION_CONFIG = "vllm/config/attention.py"
MODELS_CONFIG = "vllm/model_executor/models/config.py"
INDEXER = f"{COMMON}/indexer.py"
KEYS = ("use_index_cache", "index_topk_freq", "index_skip_topk_offset")


def indexer_cp(tree: Tree) -> Found:
    """The switch that shards the indexer's context over ranks."""
    source = tree.source(ATTENTION_CONFIG)
    config = source.defined("AttentionConfig")
    fields = {ast.unparse(node.target): node for node in config.body if isinstance(node, ast.AnnAssign)}
    field = fields.get("minimax_m3_indexer_cp")
    if field is not None:
        return source.found(field, {"flag": "attention_config.minimax_m3_indexer_cp"})
    names = [name.rpartition("/")[2] for name in (*fields, *tree.files(AMD))]
    if any(name.startswith(("indexer_c", "minimax_m3_indexer")) for name in names):
        raise Moved(f"{ATTENTION_CONFIG}: sharding of the indexer is asked for by another name")
    raise Absent(f"{ATTENTION_CONFIG}: no minimax_m3_indexer_cp")


def index_reuse(tree: Tree) -> Found:
    """What top-level overrides do: the text model reads text_config alone."""
    model = tree.source(MODEL)
    model.class_(LAYER)
    if not speaks_of(model.module, "skip_index_topk"):
        if any(mentions(model.module, key) for key in KEYS):
            raise Moved(f"{MODEL}: index reuse by another name")
        raise Absent(f"{MODEL}: no index reuse")
    skips = model.function("_should_skip_index_topk")
    if not all(mentions(skips, key) for key in KEYS):
        raise Moved(f"{model.where(skips)}: other settings than {', '.join(KEYS)}")
    same_shape(model, skips, "_should_skip_index_topk")
    source = tree.source(MODELS_CONFIG)
    if not mentions(source.module, "use_index_cache"):
        if mentions(source.module, "MiniMaxM3SparseForConditionalGeneration"):
            raise Moved(f"{MODELS_CONFIG}: M3's config is verified in another way")
        return model.found(skips, {"flat": "silent"})
    config = source.defined("MiniMaxM3SparseForConditionalGenerationConfig")
    if texts(bound(config, "INDEX_CACHE_KEYS")) != list(KEYS):
        raise Moved(f"{source.where(config)}: other settings than {', '.join(KEYS)}")
    check = source.function("MiniMaxM3SparseForConditionalGenerationConfig.verify_and_update_model_config")
    refused = branch(check, "misplaced")
    if not raises(refused.body) or "hf_overrides" not in set(identifiers(check)):
        raise Moved(f"{source.where(check)}: misplaced settings are not refused")
    same_shape(source, check, "index_cache_overrides")
    return source.found(check, {"flat": "raises"})


def index_dtypes(tree: Tree) -> Found:
    """Words that ``indexer_kv_dtype`` takes, and whether the ROCm model hands the setting to its indexer."""
    source, layers = tree.source(ATTENTION_CONFIG), tree.source(INDEXER)
    listed = source.bound("IndexerKVDType")
    config = source.defined("AttentionConfig")
    kinds = {
        ast.unparse(node.target): ast.unparse(node.annotation)
        for node in config.body
        if isinstance(node, ast.AnnAssign)
    }
    kind = kinds.get("indexer_kv_dtype")
    if not isinstance(listed, ast.Subscript) or kind not in ("IndexerKVDType", "IndexerKVDType | str"):
        raise Moved(f"{source.where(listed)}: indexer_kv_dtype is {kind}")
    picks = layers.function("select_indexer_impl_cls")
    same_shape(layers, picks, "select_indexer_impl_cls")
    reaches = "indexer_kv_dtype" in set(identifiers(tree.source(MODEL).module))
    return source.found(listed, {"words": texts(listed.slice), "open": kind.endswith("str"), "reaches": reaches})


READERS = {"indexer_cp": indexer_cp, "index_reuse": index_reuse, "index_dtypes": index_dtypes}
