"""rocprofv3's JSON: dispatches by kernel id and agent handle, calls, ranges, copies; one or several processes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import rocprof_kit as kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

NAMES = {7: "Cijk_gemm", 8: kit.RCCL}


@some.composite
def process(draw: DrawFn, pid: int = 501) -> tuple[dict[str, Any], list[tuple[int, int, int]]]:
    """One process's element, and (kernel id, agent handle, ns) of its dispatches."""
    found, records, at = [], [], draw(some.integers(1, 2**60))
    for number in range(1, draw(some.integers(1, 6)) + 1):
        ran = draw(some.integers(0, 10**9))
        kernel_id, agent = draw(some.sampled_from(sorted(NAMES))), 100 + draw(some.integers(0, 1))
        found.append((kernel_id, agent, ran))
        records.append(kit.dispatch(kernel_id, at, at + ran, number, agent))
        at += ran + draw(some.integers(0, 5_000))
    calls = [kit.api(1, 1, number, at + number, at + number + 1) for number in range(1, len(found) + 1)]
    made = kit.process(
        pid,
        {9: kit.STEP},
        kernel_dispatch=records,
        hip_api=calls,
        marker_api=[kit.api(2, 1, 9, 10, 20)],
        rccl_api=[kit.api(3, 1, 3, 10, 20)],
        memory_copy=[],
    )
    return made, found


def document(*processes: Any) -> Any:
    """The whole file."""
    return {"rocprofiler-sdk-tool": list(processes)}


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Whole, or not."""
    made, found = draw(process())
    if draw(some.booleans()):
        by_agent: Counter[str] = Counter()
        for _, agent, ran in found:
            by_agent[str(agent)] += ran
        said = {
            "kernels": len(found),
            "kernel_time_ns": sum(ran for *_, ran in found),
            "kernel_time_ns_by_agent_handle": dict(by_agent),
            "calls": dict(Counter(NAMES[kernel_id] for kernel_id, *_ in found)),
            "hip_api_records": len(found),
        }
        return Sample({"501_results.json": json.dumps(document(made)).encode()}, said)
    more = [draw(process(pid=502))[0]] if draw(some.booleans()) else []
    tree: Any = document(made, *more)
    what = draw(some.sampled_from(("all", "records", "rest", "bytes")))
    if what == "all":
        tree = draw(damage.spoilt_tree(tree, 5))
    elif what == "records":
        made["buffer_records"] = draw(damage.spoilt_tree(made["buffer_records"], 5))
    elif what == "rest":
        key = draw(some.sampled_from(("agents", "strings", "kernel_symbols", "metadata")))
        made[key] = draw(damage.spoilt_tree(made[key], 5))
    data = draw(damage.as_json(tree))
    if what == "bytes":
        data = draw(damage.spoilt_bytes(data))
    if not draw(some.integers(0, 4)):
        return Sample({"501_results.json.gz": draw(damage.packed(data, sound=False))})
    return Sample({"501_results.json": data})


FORMAT = Format("rocprof_json", samples(), examine)
