"""The next bottleneck where no step time bounds one: the highest level at which a queue, a limit or a cache was found short."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.findings import Finding
from m3probe.model.report import NextBottleneck

LEVELS = (
    ("queues.os_limit", "an OS limit comes before anything that it lets through"),
    ("queues.outside_vllm", "what never reaches vLLM comes before what vLLM does"),
    ("queues.kv_transfer.stranded", "requests that nothing serves come before the speed of those that are served"),
    ("queues.prefix_cache", "work that a cache would save comes before doing it faster"),
    ("queues.preemptions", "work that is done twice comes before doing it faster"),
    ("queues.prefill", "the queue that holds the requests comes before the step that the others are in"),
    ("queues.admission.run", "the queue that holds the requests comes before the step that the others are in"),
    ("queues.admission", "a queue that grows comes before the step behind it"),
    ("queues.kv_transfer", "a queue that grows comes before the step behind it"),
    ("queues.front_end", "one core serves every request before and behind the engine"),
    ("queues.decode", "no queue holds the requests: the decode step does"),
)
"""Finding ids by their beginning, outermost level first. Bounds of unlike bases are not compared; within a level they are."""


def level_of(finding: Finding) -> tuple[int, str] | None:
    """(place of its level, why the level comes there); None for a finding of no queue, limit or cache."""
    for place, (level, why) in enumerate(LEVELS):
        if finding.id == level or finding.id.startswith(f"{level}."):
            grows = level != "queues.kv_transfer" or finding.verdict == "grows"
            return (place, why) if grows else None
    return None


STEP = "queues.decode"
"""No queue holds the requests: where the steps themselves were recorded, they answer and not this."""
FAILED = (
    ("startup.first_cause", "what a process failed by comes before how fast it was"),
    ("bench.failed", "requests that fail come before how fast the others were"),
)


def next_queue(findings: Sequence[Finding], *, steps: bool = False) -> NextBottleneck | None:
    """The finding to act on; None where no queue was found short. ``steps``: step time is bounded, so that it is no answer."""
    found = [(level, f) for f in findings if f.trusted and (level := level_of(f))]
    found = [(level, f) for level, f in found if not (steps and f.id.startswith(STEP))]
    if not found:
        return None
    (_, why), best = min(found, key=lambda pair: (pair[0][0], -(pair[1].bound.high if pair[1].bound else 0.0)))
    return NextBottleneck(best.id, best.bound, why)


def next_failure(findings: Sequence[Finding]) -> NextBottleneck | None:
    """Where nothing else answers: what failed, by the server's log before the client's result."""
    for start, why in FAILED:
        for f in findings:
            if f.trusted and f.id.startswith(start) and (f.verdict != "unproven" or start == "bench.failed"):
                return NextBottleneck(f.id, f.bound, why)
    return None
