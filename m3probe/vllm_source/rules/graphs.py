"""CUDA graphs: which go on by themselves on ROCm, what PIECEWISE becomes with nothing to capture, and which sizes."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, parameters, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, branches, called, identifiers, returned, speaks_of
from m3probe.vllm_source.tree import Found, Tree

CONFIG, COMPILATION, V2 = "vllm/config/vllm.py", "vllm/config/compilation.py", "vllm/v1/worker/gpu"
BREAKABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"


def breakable(tree: Tree) -> Found:
    """Architectures for which breakable graphs go on by themselves on ROCm."""
    source = tree.source(CONFIG)
    if source.holds("default_breakable_cudagraph_architectures"):
        function = source.function("default_breakable_cudagraph_architectures")
        rocm = branch(function, "is_rocm")
        return source.found(rocm, sorted(texts(returned(rocm.body))))
    post = source.function("VllmConfig.__post_init__")
    for test in branches(post, BREAKABLE):
        for part in ast.walk(test.test):
            if isinstance(part, ast.Compare) and isinstance(part.comparators[0], ast.Tuple | ast.List | ast.Set):
                if "is_rocm" in set(identifiers(test.test)):
                    raise Moved(f"{source.where(test)}: the platform is asked too")
                return source.found(test, sorted(texts(part.comparators[0])))
    raise Moved(f"{CONFIG}: no default of {BREAKABLE}")


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


def sizes(tree: Tree) -> Found:
    """How captured sizes follow drafted tokens: sizes of whole requests beside the grid, and V2's own rounding.

    Model Runner V1 makes every size a multiple of a request's tokens in all four releases; V2 did so by the same
    function before it rounded each size by itself.
    """
    source, compilation = tree.source(CONFIG), tree.source(COMPILATION)
    made = source.function("VllmConfig._set_cudagraph_sizes")
    same_shape(source, made, "_set_cudagraph_sizes")
    adjusts = compilation.function("CompilationConfig.adjust_cudagraph_sizes_for_spec_decode")
    same_shape(compilation, adjusts, "adjust_cudagraph_sizes_for_spec_decode")
    manager = tree.source(f"{V2}/cudagraph_utils.py")
    offers = manager.function("CudaGraphManager._init_candidates")
    same_shape(manager, offers, "_init_candidates")
    value = {
        "decode_sizes": "uniform_decode_sizes" in set(identifiers(made)),
        "v2_rounds": "round_up" in called(offers),
    }
    return source.found(made, value)


READERS = {"breakable_rocm": breakable, "piecewise_refused": piecewise_refused, "graph_sizes": sizes}
