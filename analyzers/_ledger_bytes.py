"""Bytes of a live recording: weights a step must read, caches as they are allocated, collectives as they were called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from m3probe.analyzers._ledger import counts, facts_of, texts, worker_steps
from m3probe.analyzers._ledger_comm import collectives
from m3probe.model.recording import Recording
from m3probe.model.report import PlaneRow
from m3probe.schema.verdicts import Evidence

LEDGER, CALLS = str(Evidence.LEDGER), str(Evidence.CALLS)

Kept = tuple[str, str, str, str, str]
"""Operation, backend, dtype, group, phase."""


def compute_rows(rec: Recording) -> Iterator[PlaneRow]:
    """Weights of one rank by kind, and how many of the experts' a step of each phase can read."""
    table = rec.tables["modules"]
    files = sorted(set(table["file"].tolist()))
    if not files:
        return
    kinds, dtypes = texts(rec, table, "kind"), texts(rec, table, "dtype")
    sums, held, number = Counter[str](), dict[str, set[str]](), Counter[str]()
    mine = [r for r in range(len(table)) if table["file"][r] == files[0] and table["draft"][r] != 1]
    for row in mine:
        if table["weight_bytes"][row] > 0:
            sums[kinds[row]] += int(table["weight_bytes"][row])
            number[kinds[row]] += 1
            held.setdefault(kinds[row], set()).add(dtypes[row])
    for kind, size in sums.items():
        read = READ.get(kind, "read once a step")
        yield PlaneRow(
            f"weights, {kind}", number[kind], size, None, "/".join(sorted(held[kind])), f"per rank, {read}", LEDGER
        )
    yield from _experts_read(rec, files[0], [r for r in mine if kinds[r] == "moe"])


READ = {"moe": "the chosen experts are read", "embedding": "a row is read for a token"}


def _experts_read(rec: Recording, file: int, rows: list[int]) -> Iterator[PlaneRow]:
    """At most this many bytes of experts in a step: each row chooses top-k, and no expert is read twice."""
    table = rec.tables["modules"]
    layers = [(int(table["weight_bytes"][r]), facts_of(text)) for r, text in _facts(rec, rows)]
    known = [
        (size, slots(facts), facts.get("top_k_with_shared", facts["top_k"]))
        for size, facts in layers
        if counts(facts, "experts", "top_k")
    ]
    if not known or len(known) < len(layers):
        return
    steps, tokens = Counter[str](), Counter[str]()
    for kind in worker_steps(rec):
        if kind.file == file:
            steps[kind.phase] += kind.steps
            tokens[kind.phase] += kind.rows
    for phase, number in steps.items():
        mean = tokens[phase] / number
        # a mean over steps stays below the bound at the mean number of rows: min() is concave
        most = sum(int(size * min(mean * top_k, experts) / experts) for size, experts, top_k in known)
        where = f"a step of {mean:,.1f} rows, per rank"
        yield PlaneRow(f"experts read, {phase}, at most", len(known), most, None, "", where, LEDGER)


def slots(facts: dict[str, Any]) -> int:
    """Experts that this rank holds, a fused shared one among them."""
    local = facts["local_experts"] if counts(facts, "local_experts") else facts["experts"]
    return int(local) + (int(facts["fused_shared"]) if counts(facts, "fused_shared") else 0)


def _facts(rec: Recording, rows: list[int]) -> list[tuple[int, str]]:
    told = texts(rec, rec.tables["modules"], "facts")
    return [(row, told[row]) for row in rows]


def state_rows(rec: Recording) -> Iterator[PlaneRow]:
    """Bytes per cached token of one rank by kind of cache, what counted rows wrote, and the pool."""
    table = rec.tables["kv_layers"]
    files = sorted(set(table["file"].tolist()))
    per_token = Counter[tuple[str, str]]()
    layers = Counter[tuple[str, str]]()
    for row, (kind, dtype) in enumerate(zip(texts(rec, table, "kind"), texts(rec, table, "dtype"), strict=True)):
        block = int(table["block_tokens"][row])
        page = int(table["real_page_bytes"][row])
        page = page if page > 0 else int(table["page_bytes"][row])
        if int(table["file"][row]) == files[0] and block > 0 and page > 0:
            per_token[kind, dtype] += page // block
            layers[kind, dtype] += 1
    rows = sum(kind.rows for kind in worker_steps(rec) if files and kind.file == files[0])
    for (kind, dtype), size in per_token.items():
        count = layers[kind, dtype]
        plural = f"{count} layer" + ("s" if count != 1 else "")
        yield PlaneRow(
            f"{kind} cache, per token", count, size, None, dtype, f"{plural} of one rank: {size:,} B", LEDGER
        )
        if rows:
            yield PlaneRow(
                f"{kind} cache written",
                rows,
                rows * size,
                None,
                dtype,
                "rows x bytes per token, one rank",
                LEDGER,
            )
    pools = rec.tables["kv_pools"]
    for row in range(min(len(pools), 1)):
        size, blocks = int(pools["bytes"][row]), int(pools["blocks"][row])
        if blocks >= 0:
            told = size if size > 0 else None
            yield PlaneRow("cache pool", blocks, told, None, "", "blocks of one rank", LEDGER)


def comm_rows(rec: Recording) -> Iterator[PlaneRow]:
    """Collectives of all ranks: calls and payloads, by operation, backend, group and phase."""
    calls, sizes = Counter[Kept](), dict[Kept, int | None]()
    for c in collectives(rec):
        key = (c.op, c.backend, c.dtype, c.group, c.phase)
        calls[key] += c.calls
        so_far = sizes.get(key, 0)
        sizes[key] = None if so_far is None or c.bytes is None else so_far + c.bytes
    for key, count in calls.items():
        op, backend, dtype, group, phase = key
        name = f"{op} by {backend or 'an unseen backend'}"
        yield PlaneRow(name, count, sizes[key], None, dtype, f"group {group}, {phase}", CALLS)


def move_rows(rec: Recording) -> Iterator[PlaneRow]:
    """What a KV connector loaded and saved."""
    table = rec.tables["kv_moves"]
    names = [texts(rec, table, c) for c in ("connector", "direction")]
    calls, sizes, untold = Counter[tuple[str, str]](), Counter[tuple[str, str]](), set()
    for row, key in enumerate(zip(*names, strict=True)):
        calls[key] += int(table["count"][row])
        size = int(table["payload_bytes"][row])
        sizes[key] += max(size, 0)
        if size < 0:
            untold.add(key)
    for (connector, direction), count in calls.items():
        known = sizes[connector, direction]
        told = known if known or (connector, direction) not in untold else None
        yield PlaneRow(f"KV {direction} by {connector}", count, told, None, "", "", CALLS)
