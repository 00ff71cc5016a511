"""QuickReduce: size table, codecs and what its start asks (``distributed/device_communicators/quick_all_reduce.py``)."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, Name, bindings, bound, evaluate, integer, parameters, texts, words
from m3probe.vllm_source.rules._env import default_of
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, comparison, identifiers, raises, speaks_of
from m3probe.vllm_source.tree import Found, Source, Tree

FILE = "vllm/distributed/device_communicators/quick_all_reduce.py"
CLASS = "QuickAllReduce"
MIB = 1 << 20


def codecs(tree: Tree) -> Found:
    """Members of the regime enum in the order that the size lists are indexed by."""
    source = tree.source(FILE)
    regime = source.defined("QuickReduceRegime")
    by_index = sorted((integer(value), name) for name, value in bindings(regime).items() if name != "NONE")
    if [index for index, _ in by_index] != list(range(len(by_index))):
        raise Moved(f"codecs are not numbered from 0: {by_index}")
    return source.found(regime, [name for _, name in by_index])


def min_size_mb(tree: Tree) -> Found:
    """The table, in MiB, and that a payload is asked ``min <= bytes <= max`` with it."""
    source = tree.source(FILE)
    table = bound(source.defined(CLASS), "_QR_MIN_SIZE")
    asks = source.defined(f"{CLASS}.should_quick_allreduce")
    smallest = ast.unparse(comparison(asks, "inp_size", ast.GtE))
    comparison(asks, "inp_size", ast.LtE)
    same_shape(source, asks, "should_quick_allreduce")
    if smallest != "min_size" or "_QR_MIN_SIZE" not in set(identifiers(asks)):
        raise Moved("should_quick_allreduce does not ask the table")
    count = len(codecs(tree).value)
    value: dict[str, dict[str, list[int]]] = {}
    for key, sizes in evaluate(table, bindings(source.module)).items():
        dtype, world = key
        if not isinstance(dtype, Name) or len(sizes) != count or any(size % MIB for size in sizes):
            raise Moved(f"an entry that is no list of {count} MiB: {key}")
        value.setdefault(dtype.last, {})[str(world)] = [size // MIB for size in sizes]
    return source.found(table, value)


def _constant(tree: Tree, name: str) -> tuple[Source, ast.expr]:
    source = tree.source(FILE)
    return source, bound(source.defined(CLASS), name)


def world_sizes(tree: Tree) -> Found:
    """World sizes that its start accepts."""
    source, node = _constant(tree, "_SUPPORTED_WORLD_SIZES")
    return source.found(node, [int(size) for size in evaluate(node)])


def dtypes(tree: Tree) -> Found:
    """Payload dtypes that a call accepts."""
    source, node = _constant(tree, "_SUPPORTED_DTYPES")
    return source.found(node, words(node))


def archs(tree: Tree) -> Found:
    """Pieces of the GPU's name that its start looks for."""
    source = tree.source(FILE)
    function = source.defined(f"{CLASS}._rocm_arch_available")
    for part in ast.walk(function):
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "supported_archs":
            same_shape(source, function, "_rocm_arch_available", [part.value])
            return source.found(part, texts(part.value))
    raise Moved(f"{FILE}: _rocm_arch_available holds no supported_archs")


def int3_worlds(tree: Tree) -> Found:
    """The world sizes that INT3 starts at."""
    source = tree.source(FILE)
    if "INT3" not in codecs(tree).value:
        raise Absent(f"{FILE}: QuickReduceRegime has no INT3")
    refused = branch(source.defined(f"{CLASS}.init_quick_all_reduce"), "INT3", "world_size")
    worlds = comparison(refused.test, "self.world_size", ast.NotEq)
    if not isinstance(refused.body[-1], ast.Return) or raises(refused.body):
        raise Moved("INT3 at another world size does not just leave QuickReduce off")
    same_shape(source, refused.test, "int3_world", [worlds])
    return source.found(refused, [integer(worlds)])


def cast_default(tree: Tree) -> Found:
    """Whether BF16 payloads are cast to FP16, and so take its column, when nothing is set."""
    return default_of(tree, "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16")


def flydsl_int4(tree: Tree) -> Found:
    """Which payloads AITER's FlyDSL INT4 takes from the HIP kernel."""
    source = tree.source(FILE)
    source.function(f"{CLASS}.quick_all_reduce")
    if not speaks_of(source.module, "flydsl", "aiter"):
        raise Absent(f"{FILE}: no AITER, no FlyDSL")
    asks = source.defined(f"{CLASS}._use_flydsl_int4")
    if parameters(asks) != ["self", "inp"] or "INT4" not in set(identifiers(asks)):
        raise Moved("_use_flydsl_int4 does not ask for INT4")
    dtype = comparison(asks, "inp.dtype", ast.Eq)
    for part in ast.walk(asks):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and "data_ptr" in ast.unparse(part.left):
            same_shape(source, asks, "_use_flydsl_int4", [dtype, part.right])
            return source.found(asks, {"dtype": words(ast.List(elts=[dtype]))[0], "align": integer(part.right)})
    raise Moved("_use_flydsl_int4 asks for no alignment")


READERS = {
    "qr_min_size_mb": min_size_mb,
    "qr_codecs": codecs,
    "qr_world_sizes": world_sizes,
    "qr_archs": archs,
    "qr_int3_worlds": int3_worlds,
    "qr_dtypes": dtypes,
    "qr_cast_default": cast_default,
    "qr_flydsl_int4": flydsl_int4,
}
