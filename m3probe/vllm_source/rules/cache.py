"""KV cache dtypes and KV transfer."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, bound, calls, text, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.rules._platform import fnuz_archs
from m3probe.vllm_source.rules.attention import SPARSE
from m3probe.vllm_source.shape import branches, raises
from m3probe.vllm_source.tree import Found, Tree

ROOM = "vllm/distributed/kv_transfer/kv_connector"
MORIIO, FACTORY = f"{ROOM}/v1/moriio/moriio_connector.py", f"{ROOM}/factory.py"


def moriio(tree: Tree) -> Found:
    """Whether MoRIIO raises on layers of unequal page bytes while the hybrid cache manager is on."""
    source = tree.source(MORIIO)
    worker = source.function("MoRIIOConnectorWorker.register_kv_caches")
    refusing = [test for test in branches(worker, "block_len") if _unequal(test.test) and raises(test.body)]
    if not refusing:
        return source.found(worker, {"equal_pages_with_hma": False})
    gates = [gate for gate in branches(worker, "hma_enabled") if refusing[0] in gate.body]
    if len(refusing) != 1 or len(gates) != 1:
        raise Moved(f"{source.where(refusing[0])}: unequal pages are refused in another way")
    same_shape(source, gates[0], "moriio_pages")
    return source.found(refusing[0], {"equal_pages_with_hma": True})


def _unequal(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotEq)
        and all(ast.unparse(side).endswith(".block_len") for side in (test.left, test.comparators[0]))
    )


def connectors(tree: Tree) -> Found:
    """Names that the factory registers."""
    source = tree.source(FACTORY)
    found = [text(call.args[0]) for call in calls(source.module, "register_connector") if call.args]
    if not found:
        raise Moved(f"{FACTORY}: nothing is registered")
    return source.found(source.defined("KVConnectorFactory"), sorted(found))


def sparse_dtypes(tree: Tree) -> Found:
    """KV cache dtypes of MiniMax M3's sparse layers."""
    source = tree.source(SPARSE)
    listed = bound(source.defined("MiniMaxM3SparseBackend"), "supported_kv_cache_dtypes")
    return source.found(listed, [name for name in texts(listed) if name != "auto"])


READERS = {
    "moriio": moriio,
    "kv_connectors": connectors,
    "kv_cache_dtypes_m3": sparse_dtypes,
    "fp8_fnuz_archs": fnuz_archs,
}
