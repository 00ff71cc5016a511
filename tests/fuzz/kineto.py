"""torch-profiler traces: steps with ops, launches, kernels and copies, in object and array form, plain and packed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from builders import kernel, launch, op, step
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

NAMES = (
    "nvjet_tst_64x8",
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64",
    "_ZN2at6native18elementwise_kernelEv",
    "void vllm::rms_norm_kernel<float>(int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    """<fzz>' onfzz='1' " onfzz="1""",
    "große Schleife",
)
STEPS = ("execute_context_0(0)_generation_2(2)", "execute_context_1(64)_generation_0(0)", "step[DECODE bs=4]")


@some.composite
def events(draw: DrawFn, hostile: bool = False) -> list[dict[str, Any]]:
    """A trace's events; every time is a whole number of ns below 2^40."""
    names = damage.texts if hostile else some.sampled_from(NAMES)
    found: list[dict[str, Any]] = []
    host, device = draw(some.integers(1, 2**40)), 0
    for number in range(draw(some.integers(0, 3))):
        found.append(step(host / 1000, 50.0, draw(some.sampled_from(STEPS))))
        for place in range(draw(some.integers(0, 4))):
            host += draw(some.integers(1, 5_000))
            device = max(device, host) + draw(some.integers(0, 3_000))
            linked = draw(some.booleans())
            correlation = 100 * number + place + 1
            found.append(op((host - 1) / 1000, 3.0, "aten::mm", dims=[[2, 64], [64, 8]], types=["float", "float"]))
            found.append(launch(host / 1000, correlation if linked else 0))
            made = kernel(
                device / 1000,
                draw(some.integers(0, 40_000)) / 1000,
                correlation,
                draw(names),
                stream=draw(some.integers(0, 2)),
                grid=[draw(some.integers(1, 9)), 1, 1],
            )
            if not draw(some.integers(0, 4)):
                made["cat"] = "gpu_memcpy"
            found.append(made)
        host += 60_000
    return found


def ns(value: float) -> int:
    """Microseconds as whole ns."""
    return round(value * 1000)


def facts(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``inspect`` must say, counted one event at a time."""
    kernels = [event for event in found if event["cat"] == "kernel"]
    copies = [event for event in found if event["cat"] == "gpu_memcpy"]
    launches = [event for event in found if event["cat"] == "cuda_runtime"]
    known = {event["args"]["correlation"] for event in launches} - {0}
    said: dict[str, Any] = {
        "kernels": len(kernels),
        "memcpys": len(copies),
        "runtime_calls": len(launches),
        "cpu_ops": sum(event["cat"] == "cpu_op" for event in found),
        "events_x": len(found),
        "names": list(dict.fromkeys(event["name"] for event in kernels)),
        "linked_kernels": sum(event["args"]["correlation"] in known for event in kernels),
    }
    if kernels:
        said["kernel_time_ns"] = sum(ns(event["dur"]) for event in kernels)
        said["busy_union_ns"] = union((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in kernels)
    if copies:
        said["memcpy_time_ns"] = sum(ns(event["dur"]) for event in copies)
    return said


def union(spans: Iterable[tuple[int, int]]) -> int:
    """Length of what is covered by at least one span, walked from the first start."""
    total, reached = 0, 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


def document(found: list[Any], form: str) -> Any:
    """In kineto's object form, or as a bare array."""
    header = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "deviceProperties": []}
    header |= {"baseTimeNanoseconds": 1_764_000_000_000_000_000}
    return found if form == "array" else {**header, "traceEvents": found}


@some.composite
def sound(draw: DrawFn) -> Sample:
    """A trace that is whole."""
    found = draw(events().filter(bool))
    data = draw(damage.as_json(document(found, draw(some.sampled_from(("object", "array"))))))
    if draw(some.booleans()):
        return Sample({"t.pt.trace.json.gz": draw(damage.packed(data))}, facts(found))
    return Sample({"t.pt.trace.json": data}, facts(found))


@some.composite
def foreign(draw: DrawFn) -> Sample:
    """Values that are no events stand among the events: each is lost, counted, and costs nobody else."""
    found: list[Any] = list(draw(events().filter(bool)))
    whole = len(found)
    for _ in range(draw(some.integers(1, 3))):
        odd = draw(some.sampled_from((None, 5, -1.5, "text, with a comma", True, [], ["x"])))
        found.insert(draw(some.integers(0, len(found))), odd)

    def kept(rec: Any) -> None:
        counts = rec.files[0].counts
        assert counts.events_x == whole
        assert counts.lost_events == len(found) - whole

    return Sample({"t.json": json.dumps(document(found, "object")).encode()}, also=kept)


@some.composite
def damaged(draw: DrawFn) -> Sample:
    """A trace that is not."""
    found: list[Any] = draw(events(hostile=draw(some.booleans())))
    if draw(some.booleans()):
        found = draw(damage.spoilt_tree(found))
    tree = document(found, draw(some.sampled_from(("object", "array"))))
    if not draw(some.integers(0, 3)):
        tree = draw(damage.spoilt_tree(tree))
    data = draw(damage.as_json(tree))
    if not draw(some.integers(0, 2)):
        data = draw(damage.spoilt_bytes(data))
    if not draw(some.integers(0, 3)):
        return Sample({"t.json.gz": draw(damage.packed(data, sound=False))})
    return Sample({"t.json": data})


FORMAT = Format("kineto", sound() | foreign() | damaged() | damaged(), examine)
