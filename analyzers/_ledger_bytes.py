"""Bytes of a live recording: weights a step must read, caches as they are allocated, collectives as they were called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from m3probe.analyzers._ledger import replays_of, texts, worker_steps
from m3probe.model.recording import Recording
from m3probe.model.report import PlaneRow
from m3probe.model.tables import NONE

MAP = "model map"


def compute_rows(rec: Recording) -> Iterator[PlaneRow]:
    """Weights of one rank by kind: a step reads all but the experts that no row was routed to."""
    table = rec.tables["modules"]
    files = sorted(set(table["file"].tolist()))
    if not files:
        return
    kinds, dtypes = texts(rec, table, "kind"), texts(rec, table, "dtype")
    sums, held, number = Counter[str](), dict[str, set[str]](), Counter[str]()
    for row, kind in enumerate(kinds):
        size = int(table["weight_bytes"][row])
        if int(table["file"][row]) == files[0] and size > 0 and table["draft"][row] != 1:
            sums[kind] += size
            number[kind] += 1
            held.setdefault(kind, set()).add(dtypes[row])
    for kind, size in sums.items():
        what = f"weights, {kind}" + (" (a step reads the experts its rows are routed to)" if kind == "moe" else "")
        yield PlaneRow(what, number[kind], size, None, "/".join(sorted(held[kind])), "per rank", MAP)


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
        yield PlaneRow(f"{kind} cache, per token", count, size, None, dtype, f"{count} layers of one rank", MAP)
        if rows:
            yield PlaneRow(
                f"{kind} cache written",
                rows,
                rows * size,
                None,
                dtype,
                "rows x bytes per token, one rank",
                "model map x rows",
            )
    pools = rec.tables["kv_pools"]
    for row in range(min(len(pools), 1)):
        size = int(pools["bytes"][row])
        yield PlaneRow(
            "cache pool", int(pools["blocks"][row]), size if size > 0 else None, None, "", "blocks of one rank", MAP
        )


def comm_rows(rec: Recording) -> Iterator[PlaneRow]:
    """Collectives of all ranks: calls and payloads, by operation, backend and size."""
    table, replays = rec.tables["collectives"], replays_of(rec)
    names = [texts(rec, table, c) for c in ("op", "backend", "dtype", "group", "stage", "phase")]
    calls = Counter[tuple[str, str, str, str, str]]()
    sizes = Counter[tuple[str, str, str, str, str]]()
    for row, (op, backend, dtype, group, stage, phase) in enumerate(zip(*names, strict=True)):
        key = (op, backend, dtype, group, phase)
        times = _times(stage, int(table["file"][row]), int(table["descriptor"][row]), phase, replays)
        for of, number in times.items():
            count = int(table["count"][row]) * number
            calls[(*key[:4], of)] += count
            sizes[(*key[:4], of)] += count * int(table["payload_bytes"][row])
    for (op, backend, dtype, group, phase), count in calls.items():
        size = sizes[op, backend, dtype, group, phase]
        where = f"group {group}, {phase}"
        yield PlaneRow(f"{op} by {backend or 'an unseen backend'}", count, size, None, dtype, where, "calls seen")


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
        yield PlaneRow(f"KV {direction} by {connector}", count, told, None, "", "", "calls seen")


def _times(
    stage: str, file: int, descriptor: int, phase: str, replays: dict[tuple[int, int, str], int]
) -> dict[str, int]:
    """Phase -> how often a recorded call counts: once when seen in a step, else once a counted replay."""
    if stage in ("eager", "twin"):
        return {phase: 1}
    if stage == "capture" and descriptor != NONE:
        return {of: number for (f, d, of), number in replays.items() if (f, d) == (file, descriptor)}
    return {}
