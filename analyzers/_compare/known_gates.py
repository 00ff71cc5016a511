"""Gates as far as a setup tells them: those that vLLM has for an operation, in rows, and one that deployments have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._compare.curves import OpKey
from m3probe.analyzers._compare.gate import ABOVE, BELOW, Gate, WorkloadGate
from m3probe.fastpaths._quick_reduce import codec, least
from m3probe.fastpaths._sparse_pa import PAYS_FROM
from m3probe.fastpaths._sparse_pa import asked as asks_sparse_pa
from m3probe.fastpaths._tp_group import row_bytes
from m3probe.model.compare_bench import Crossover
from m3probe.model.tiles import HOLDS_FOR_VLLM, native_refusal, select_tile
from m3probe.schema.setup import Held, Setup
from m3probe.schema.verdicts import Family


def switches(key: OpKey, setup: Setup | None) -> Iterator[Gate]:
    """Gates that choose between two ways to do one operation."""
    if setup is not None:
        yield from _router(key, setup)
        yield from _quick_reduce(key, setup)


def workload_gates(a: Setup | None, b: Setup | None) -> tuple[WorkloadGate, ...]:
    """Where deployments turn on what B asks for and A does not; () where either is not known."""
    if a is None or b is None or asks_sparse_pa(b).state is not Held.YES or asks_sparse_pa(a).state is not Held.NO:
        return ()
    tokens, requests = PAYS_FROM
    return (WorkloadGate("of AITER's sparse attention in InferenceX 2187", requests, tokens),)


def _router(key: OpKey, setup: Setup) -> Iterator[Gate]:
    """The FP32 kernel of small batches."""
    rule, model = setup.build.rule("router_gemm"), setup.model
    if rule.known and rule.value and (key.op, key.N, key.K) == ("gemm", model.experts, model.hidden_size):
        yield Gate("of the FP32 router GEMM", int(rule.value["max_rows"]), BELOW)


def _quick_reduce(key: OpKey, setup: Setup) -> Iterator[Gate]:
    """The smallest payload as rows of the step."""
    if key.op != Family.COMM or codec(setup) == "NONE":
        return
    smallest, label = least(setup)
    each = row_bytes(setup)
    if smallest is not None and each:
        yield Gate(f"of QuickReduce, {smallest:,} B ({label})", -(-smallest // each), ABOVE)


def tile_edges(key: OpKey, setup: Setup | None, crossings: Sequence[Crossover]) -> Iterator[Gate]:
    """The edge of vLLM's tile selector (0.33.0, ``_select_cfg``) that is nearest to each crossing, from half to twice it."""
    native = setup is not None and setup.model.linear_quant == "mxfp8" and setup.build.version == HOLDS_FOR_VLLM
    if setup is None or key.op != "gemm" or not native or native_refusal(key.K):
        return
    gfx = setup.gfx or "gfx950"
    for one in crossings:
        tiles = {
            m: select_tile(m, key.N, key.K, gfx=gfx) for m in range(max(int(one.low / 2), 1), int(one.high * 2) + 2)
        }
        edges = [m for m in tiles if m + 1 in tiles and tiles[m] != tiles[m + 1]]
        near = min(edges, key=lambda m: abs(m - one.at), default=None)
        if near is not None:
            above = one.b_faster_above
            yield Gate("of the tile selector's regime", near + 1 if above else near, ABOVE if above else BELOW)
