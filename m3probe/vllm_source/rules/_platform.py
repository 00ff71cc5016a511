"""What ``platforms/rocm.py`` says about GPUs."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, evaluate, texts
from m3probe.vllm_source.shape import returned
from m3probe.vllm_source.tree import Found, Tree

FILE = "vllm/platforms/rocm.py"


def mx_archs(tree: Tree) -> Found:
    """Pieces of the GPU's name that ``supports_mx`` looks for: ``any(gfx in _GCN_ARCH for gfx in [...])``."""
    source = tree.source(FILE)
    function = source.function("RocmPlatform.supports_mx")
    for part in ast.walk(returned(function.body)):
        if isinstance(part, ast.comprehension):
            return source.found(function, texts(part.iter))
    raise Moved(f"{FILE}: supports_mx has another shape")


def fnuz_archs(tree: Tree) -> Found:
    """Pieces of the GPU's name whose FP8 is FNUZ: ``"gfx94" in _GCN_ARCH``."""
    source = tree.source(FILE)
    function = source.function("RocmPlatform.is_fp8_fnuz")
    test = returned(function.body)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.In):
        raise Moved(f"{FILE}: is_fp8_fnuz has another shape")
    arch = evaluate(test.left)
    if not isinstance(arch, str) or ast.unparse(test.comparators[0]) != "_GCN_ARCH":
        raise Moved(f"{FILE}: is_fp8_fnuz asks for {ast.unparse(test)}")
    return source.found(function, [str(arch)])
