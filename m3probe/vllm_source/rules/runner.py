"""Model runner, CUDA graphs, draft attention and block size: defaults that depend on the build alone."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, bindings, calls, evaluate, parameters, words
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, called, identifiers, is_true, returned, speaks_of
from m3probe.vllm_source.tree import Found, Source, Tree

CONFIG, COMPILATION = "vllm/config/vllm.py", "vllm/config/compilation.py"
SPECULATIVE, PROPOSER = "vllm/config/speculative.py", "vllm/v1/spec_decode/llm_base_proposer.py"
V2 = "vllm/v1/worker/gpu"
PLATFORM, ROCM = "vllm/platforms/interface.py", "vllm/platforms/rocm.py"
BREAKABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"
M3 = {"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"}


def breakable(tree: Tree) -> Found:
    """Architectures for which breakable graphs go on by themselves on ROCm."""
    source = tree.source(CONFIG)
    if source.holds("default_breakable_cudagraph_architectures"):
        function = source.function("default_breakable_cudagraph_architectures")
        rocm = branch(function, "is_rocm")
        return source.found(rocm, sorted(words(returned(rocm.body))))
    post = source.function("VllmConfig.__post_init__")
    for test in branches(post, BREAKABLE):
        for part in ast.walk(test.test):
            if isinstance(part, ast.Compare) and isinstance(part.comparators[0], ast.Tuple | ast.List | ast.Set):
                if "is_rocm" in set(identifiers(test.test)):
                    raise Moved(f"{source.where(test)}: the platform is asked too")
                return source.found(test, sorted(words(part.comparators[0])))
    raise Moved(f"{CONFIG}: no default of {BREAKABLE}")


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
    listed = set(words(source.bound("DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES")))
    return source.found(by_name, value=bool(listed & M3))


def piecewise_refused(tree: Tree) -> Found:
    """Whether PIECEWISE with nothing to capture is overridden; before, such steps ran eager."""
    source = tree.source(COMPILATION)
    if not speaks_of(source.module, "piecewise_capture"):
        resolver = source.function("CompilationConfig.resolve_cudagraph_mode_and_sizes")
        return source.found(resolver, value=False)
    resolver = source.function("CompilationConfig.resolve_cudagraph_mode_and_sizes")
    test = branch(resolver, "piecewise_capture_available", "requires_piecewise_compilation")
    replaced = {ast.unparse(part.targets[0]) for part in test.body if isinstance(part, ast.Assign)}
    if "cudagraph_mode" not in replaced or "piecewise_capture_available" not in parameters(resolver):
        raise Moved(f"{source.where(test)}: the mode is not overridden")
    used = tree.source(f"{V2}/model_runner.py")
    if "piecewise_capture_available" not in set(identifiers(used.module)):
        raise Moved(f"{used.name}: the runner does not say what can be captured")
    same_shape(source, test, "piecewise_override")
    return source.found(test, value=True)


def draft_backend(tree: Tree) -> Found:
    """Whether the draft takes the target's attention backend, per runner, and whether its own is heard at V2."""
    inherits, override, place = _v2(tree)
    return Found({"v1_inherits": _v1(tree), "v2_inherits": inherits, "v2_override": override}, place)


def _v1(tree: Tree) -> bool:
    source = tree.source(PROPOSER)
    functions = [
        node
        for node in ast.walk(source.module)
        if isinstance(node, ast.FunctionDef) and node.name == "_create_draft_vllm_config"
    ]
    if len(functions) != 1:
        raise Moved(f"{PROPOSER}: {len(functions)} ways to make the draft's config")
    for statement in functions[0].body:
        for call in calls(statement, "replace"):
            for keyword in call.keywords:
                if keyword.arg == "backend" and ast.unparse(keyword.value).endswith(".attention_backend"):
                    # under a condition an unset backend would leave the target's in place
                    return isinstance(statement, ast.If)
    raise Moved(f"{PROPOSER}: the draft's attention backend is set in another way")


def _v2(tree: Tree) -> tuple[bool, bool, str]:
    """(inherits, override is heard, where)."""
    source = tree.source(f"{V2}/spec_decode/eagle/utils.py")
    loads = source.function("load_eagle_model")
    if "get_model" not in called(loads) or speaks_of(loads, "attention_config", "attention_backend"):
        raise Moved(f"{source.where(loads)}: the draft is loaded in another way")
    if "apply_draft_overrides" not in called(loads):
        if speaks_of(loads, "override"):
            raise Moved(f"{source.where(loads)}: overrides by another name")
        return True, False, source.where(loads)
    return _overrides(tree.source(SPECULATIVE))


def _overrides(source: Source) -> tuple[bool, bool, str]:
    table = source.bound("_DRAFT_VLLM_CONFIG_OVERRIDES")
    heard = ("attention_backend", "attention_config", "backend") in [tuple(entry) for entry in evaluate(table)]
    applies = source.function("SpeculativeConfig.apply_draft_overrides")
    only_set = branch(applies, "value")
    if ast.unparse(comparison_of(only_set.test)) != "None":
        raise Moved(f"{source.where(applies)}: unset overrides are applied too")
    same_shape(source, applies, "apply_draft_overrides")
    return True, heard, source.where(table)


def comparison_of(test: ast.expr) -> ast.expr:
    """The right side of ``... is not None``; Moved for another test."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.IsNot):
        raise Moved("a test that is no `is not None`")
    return test.comparators[0]


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


READERS = {
    "breakable_rocm": breakable,
    "runner_v2_m3": runner_v2,
    "piecewise_refused": piecewise_refused,
    "draft_backend": draft_backend,
    "block_size_pick": block_size_pick,
}
