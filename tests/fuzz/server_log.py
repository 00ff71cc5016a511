"""Logs of a server: records in vLLM's text and JSON forms, lines of others between them, a kernel table inside."""

from __future__ import annotations

import json

import log_kit
from fuzz import damage, kernel_table
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

LABELS = ("APIServer pid=1", "EngineCore_DP0 pid=500", "Worker_TP0 pid=700", "Worker_TP1 pid=701")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SAID = (
    "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN'].",
    "Graph capturing finished in 3 secs, took 0.21 GiB",
    (
        "Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 101.0 tokens/s, Running: 4 reqs, Waiting: 2 "
        "reqs, GPU KV cache usage: 12.5%, Prefix cache hit rate: 0.0%"
    ),
    "Loading weights took 12.25 seconds",
    "Application startup complete.",
    "vLLM is using nccl==2.27.3",
)
OTHERS = (
    "",
    "Loading safetensors checkpoint shards:  50% |#####     | 1/2",
    "some other program",
    "Traceback (most ...",
)


@some.composite
def lines(draw: DrawFn, hostile: bool) -> tuple[list[str], int]:
    """Lines, and how many of them are records."""
    found: list[str] = list(log_kit.START)
    records = len(found)
    for _ in range(draw(some.integers(0, 8))):
        if draw(some.integers(0, 3)):
            text = draw(damage.texts) if hostile and draw(some.booleans()) else draw(some.sampled_from(SAID))
            label, level = draw(some.sampled_from(LABELS)), draw(some.sampled_from(LEVELS))
            found.append(log_kit.record(text, label, level))
            records += 1
        else:
            found.append(draw(some.sampled_from(OTHERS)))
    return found, records


@some.composite
def samples(draw: DrawFn) -> Sample:
    """A log that is whole, or one that is not."""
    hostile = draw(some.booleans())
    found, records = draw(lines(hostile))
    if not hostile:
        return Sample({"server.log": "\n".join([*found, ""]).encode()}, {"records": records})
    if draw(some.booleans()):
        found += kernel_table.table(draw(kernel_table.rows(hostile=True)))
    if draw(some.booleans()):
        at = draw(some.integers(0, len(found)))
        one = {"levelname": "INFO", "asctime": log_kit.STAMP, "message": SAID[0], "process": 5}
        found.insert(at, json.dumps(draw(damage.spoilt_tree(one)))[:10_000])
    data = "\n".join(found).encode("utf-8", "surrogatepass")
    data = draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data
    if not draw(some.integers(0, 3)):
        return Sample({"server.log.gz": draw(damage.packed(data, sound=False))})
    return Sample({"server.log": data})


FORMAT = Format("server_log", samples(), examine)
