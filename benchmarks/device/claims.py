"""What the probe claims against what the device did, row by row: exit status 1 where any row differs.

    python benchmarks/device/claims.py FOLDER [FOLDER ...]

A folder is one that ``record.py`` made: a guest's recording and the trace of a profiler window over some of its steps.
Claims are read from the guest's own records, the device from the trace with plain ``json``, weights and caches from
torch's allocations: the readers and analyzers of m3probe, which both sides pass in a report, take no part.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import device_trace
from recorded import Guest

from m3probe.schema import records

M3_TP4 = {
    "qkv_proj, dense layers": (2304, 6144),
    "qkv_proj, sparse layers": (2560, 6144),
    "o_proj": (6144, 2048),
    "gate_up_proj, dense layers": (6144, 6144),
    "down_proj, dense layers": (6144, 3072),
    "gate_up_proj, shared expert": (1536, 6144),
    "down_proj, shared expert": (6144, 768),
    "router": (128, 6144),
}
"""(N, K) on one of four ranks, from the model's config.json by hand (docs/shapes.md has the formulas)."""
ANCHORS = {
    ("sparse_attention", "Triton"): ("_gqa_sparse_decode_kernel", 1),
    ("indexer", "Triton"): ("_decode_index_score_kernel", 1),
    ("index_reuse", "every layer chooses"): ("_topk_index_merge_kernel", 1),
    ("moe_backend", "Triton fused_moe"): ("fused_moe_kernel", 2),
    ("router_gemm", "FP32 kernel (CUDA)"): ("*fp32_router_gemm_kernel<*", 1),
    ("fused_qknorm_rope_kv", "vLLM op"): ("*fusedMiniMaxM3QNormRopeKVInsertKernel<*", 1),
}
"""(path, variant) -> its kernel, and launches of it in one call; read in vLLM 0.25.1's sources."""


class Row(NamedTuple):
    what: str
    claim: Any
    device: Any

    @property
    def equal(self) -> bool:
        return self.claim == self.device


def rows(folder: Path) -> list[Row]:
    guest = Guest(folder)
    if guest.trace is None:
        return of_routing(guest)
    steps = device_trace.steps(guest.trace)
    found = [*of_steps(guest, steps), *of_shapes(guest, steps), *of_layers(guest, steps)]
    if any(guest.replays):
        found += [*of_census(guest, steps), *of_paths(guest, steps)]
    else:
        found += of_eager_paths(guest, steps)
    return found + of_bytes(guest, json.loads((folder / "witness.json").read_text()))


def of_steps(guest: Guest, steps: list) -> list[Row]:
    ours = [(s.phase, s.rows, s.requests) for s in guest.steps]
    theirs = [(s.phase, s.rows, s.ctx + s.gen) for s in steps]
    padded = [s.padded_rows for s in guest.steps]
    grids = [grid_rows(s) for s in steps]
    return [
        Row("steps: phase, rows, requests of each", brief(ours), brief(theirs)),
        Row("graph launches of each step", brief([s.replays for s in guest.steps]), brief([s.graphs for s in steps])),
        Row("padded rows of each step (grid of the embedding's norm)", brief(padded), brief(grids)),
    ]


def grid_rows(step) -> int:
    """Rows that the first norm of the model ran on: ``_gemma_rmsnorm_kernel`` has one program a row."""
    (grid,) = step.grids.get("_gemma_rmsnorm_kernel", {(-1,)})
    return grid[0]


def of_shapes(guest: Guest, steps: list) -> list[Row]:
    """Weights of the model map, against the table by hand and against the operators of the window's first eager step."""
    modules = [m for m in guest.all(records.Module) if m.kind in ("linear", "router")]
    held = sorted({(m.N, m.K) for m in modules})
    found = [Row("N, K of the model map: those of one TP4 rank", shapes(held), shapes(sorted(set(M3_TP4.values()))))]
    eager = next((s for s in steps if not s.graphs and s.gemms), None)
    if eager is not None:
        head = {(m.N, m.K) for m in guest.all(records.Module) if m.kind == "lm_head"}
        ran: Counter = Counter()
        for (_rows, n, k), count in eager.gemms.items():
            if (n, k) not in head:
                ran[n, k] += count
        # at up to 32 rows the router is a kernel of its own and no operator of aten (vLLM 0.25.1)
        told = Counter((m.N, m.K) for m in modules if m.kind == "linear" or eager.rows > 32)
        found.append(Row(f"GEMMs of an eager step of {eager.rows:,} rows", counted(told), counted(ran)))
    return found


def shapes(found: list[tuple[int, int]]) -> str:
    return ", ".join(f"{n}x{k}" for n, k in found)


def counted(found: Counter) -> str:
    return ", ".join(f"{count} of {n}x{k}" for (n, k), count in sorted(found.items()))


def of_layers(guest: Guest, steps: list) -> list[Row]:
    """Modules of the map times steps, against launches of their kernels."""
    modules = guest.all(records.Module)
    sparse = sum(m.cls == "MiniMaxM3SparseAttention" for m in modules)
    dense = sum(m.kind == "attention" and m.cls == "Attention" for m in modules)
    moe = sum(m.kind == "moe" for m in modules)
    decoding = sum(s.gen_rows > 0 for s in guest.steps)
    prefilling = sum(s.ctx_rows > 0 for s in guest.steps)
    every = len(guest.steps)
    expected = {
        f"sparse decode: {sparse} layers x {decoding} steps": (sparse * decoding, "_gqa_sparse_decode_kernel"),
        f"sparse prefill: {sparse} layers x {prefilling} steps": (sparse * prefilling, "_gqa_sparse_fwd_kernel"),
        f"MoE GEMMs: {moe} layers x 2 x {every} steps": (moe * 2 * every, "fused_moe_kernel"),
        f"dense attention: {dense} layers x {every} steps": (dense * every, "*FlashAttnFwdSm90*"),
        f"QK-norm, RoPE and KV insert: {sparse + dense} layers x {every} steps": (
            (sparse + dense) * every,
            "*fusedMiniMaxM3QNormRopeKVInsertKernel<*",
        ),
    }
    return [Row(what, count, total(steps, glob)) for what, (count, glob) in expected.items()]


def of_census(guest: Guest, steps: list) -> list[Row]:
    ours, theirs = guest.replayed(), Counter()
    for step in steps:
        theirs += step.in_graph
    differ = sorted(name for name in ours | theirs if ours[name] != theirs[name])
    named = "; ".join(f"{name[:60]}: {ours[name]} and {theirs[name]}" for name in differ[:5]) or "none"
    return [
        Row("census x replays: kernels", ours.total(), theirs.total()),
        Row("census x replays: kernel names", len(ours), len(theirs)),
        Row("census x replays: names whose counts differ", named, "none"),
    ]


def of_paths(guest: Guest, steps: list) -> list[Row]:
    found = []
    for (path, variant), (glob, launches) in ANCHORS.items():
        full = [s for s, told in zip(steps, guest.steps, strict=False) if told.mode == "FULL"]
        ran = sum(count for s in full for name, count in s.in_graph.items() if fnmatch.fnmatchcase(name, glob))
        found.append(Row(f"{path}, {variant}: captured calls x replays", guest.calls(path, variant) * launches, ran))
    return found


def of_eager_paths(guest: Guest, steps: list) -> list[Row]:
    decode = [s for s in steps if s.phase == "decode"]
    found = []
    for (path, variant), (glob, launches) in ANCHORS.items():
        per_step = guest.eager_per_step(path, variant, "decode") * launches
        ran = total(decode, glob)
        found.append(Row(f"{path}, {variant}: calls x {len(decode)} decode steps", per_step * len(decode), ran))
    return found


def of_routing(guest: Guest) -> list[Row]:
    """Rows that the host scheduled in the sampled steps x experts a token, against what the device counted per expert."""
    moe = [r for r in guest.all(records.Routing) if r.experts]
    layers = sorted({r.layer for r in moe})
    ours = [sum(r.rows * r.top_k for r in moe if r.layer == layer) for layer in layers]
    theirs = [sum(sum(r.experts) for r in moe if r.layer == layer) for layer in layers]
    found = [
        Row("routing: MoE layers", sum(m.kind == "moe" for m in guest.all(records.Module)), len(layers)),
        Row("routing: rows x experts a token, by layer", brief(ours), brief(theirs)),
    ]
    shares = [r.overlap_next for r in guest.all(records.Routing) if not r.experts and r.overlap_next is not None]
    if shares:
        found.append(
            Row("sparse layers that choose other blocks than the next", len(shares), sum(s < 1 for s in shares))
        )
    return found


def of_bytes(guest: Guest, witness: dict) -> list[Row]:
    weights = sum(m.weight_bytes for m in guest.all(records.Module) if m.weight_bytes > 0)
    pool = sum(p.bytes for p in guest.all(records.KvPool))
    return [
        Row("bytes of weights (device: torch's allocations)", weights, witness.get("weight_bytes")),
        Row("bytes of caches (device: torch's allocations)", pool, witness.get("kv_bytes")),
    ]


def total(steps: list, glob: str) -> int:
    return sum(count for s in steps for name, count in s.kernels.items() if fnmatch.fnmatchcase(name, glob))


def brief(values: list) -> str:
    """Runs of equal values: ``3 x (prefill, 2,000)``."""
    out: list[list] = []
    for value in values:
        if out and out[-1][1] == value:
            out[-1][0] += 1
        else:
            out.append([1, value])
    return ", ".join(f"{count} x {told(value)}" for count, value in out)


def told(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def table(found: list[Row]) -> str:
    lines = ["| claim | probe | device | equal |", "| --- | --- | --- | --- |"]
    lines += [f"| {r.what} | {cell(r.claim)} | {cell(r.device)} | {'yes' if r.equal else 'NO'} |" for r in found]
    return "\n".join(lines)


def cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    differ = 0
    for folder in parser.parse_args().folder:
        found = rows(folder)
        differ += sum(not row.equal for row in found)
        print(f"{folder.name}\n\n{table(found)}\n")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
