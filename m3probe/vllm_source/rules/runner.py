"""Model runner and block size: defaults that depend on the build alone."""

from __future__ import annotations

from m3probe.vllm_source.look import Moved, bindings, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, called, identifiers, is_true, returned, speaks_of
from m3probe.vllm_source.tree import Found, Tree

CONFIG, PLATFORM, ROCM = "vllm/config/vllm.py", "vllm/platforms/interface.py", "vllm/platforms/rocm.py"
M3 = {"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"}


def runner_v2(tree: Tree) -> Found:
    """Whether Model Runner V2 drives MiniMax M3 (a mixture of experts that generates) when nothing is set."""
    source = tree.source(CONFIG)
    chooses = source.function("VllmConfig.use_v2_model_runner")
    if not is_true(returned(chooses.body)):
        raise Moved(f"{source.where(chooses)}: V2 is not the last answer")
    if not speaks_of(chooses, "is_default"):
        return source.found(chooses, value=True)
    by_name = source.function("VllmConfig._is_default_v2_model_runner_model")
    if "_is_default_v2_model_runner_model" not in called(chooses):
        raise Moved(f"{source.where(chooses)}: V2 is chosen in another way")
    # `or not model_config.is_moe` (0.25.1) is never so for M3
    extra = set(identifiers(returned(by_name.body))) - {"any", "arch", "architectures", "model_config", "is_moe"}
    if extra != {"DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES"}:
        raise Moved(f"{source.where(by_name)}: V2 is chosen by {', '.join(sorted(extra))}")
    listed = set(texts(source.bound("DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES")))
    return source.found(by_name, value=bool(listed & M3))


def block_size_pick(tree: Tree) -> Found:
    """Whose block size is taken when --block-size is not set: every attention backend's, or the first one's."""
    source = tree.source(PLATFORM)
    function = source.function("Platform.update_block_size_for_backend")
    if tree.source(ROCM).holds("RocmPlatform.update_block_size_for_backend"):
        raise Moved(f"{ROCM}: ROCm picks its own block size")
    picks = called(function)
    same_shape(source, branch(function, "user_specified_block_size"), "block_size_pick")
    if {"_find_non_ssm_backends", "_preferred_block_size_for_backends"} <= picks:
        return source.found(function, "all")
    first = bindings(function).get("backend_cls")
    if first is not None and "_find_non_ssm_backend" in picks and "get_preferred_block_size" in picks:
        return source.found(function, "first")
    raise Moved(f"{source.where(function)}: the block size is picked in another way")


READERS = {"runner_v2_m3": runner_v2, "block_size_pick": block_size_pick}
