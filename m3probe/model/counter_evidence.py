"""What would prove a finding wrong: for each kind of claim the measurement that would contradict it."""

from __future__ import annotations

_BY_ID = (
    (
        "next_bottleneck.family.",
        "A run in which these kernels take less and the step does not: other work fills their time, or they were hidden",
    ),
    ("next_bottleneck.copies", "A run without these copies whose step is as long: something else waits in their place"),
    (
        "next_bottleneck.idle",
        "The same steps timed without a profiler: a gap that is not there was the profiler's, for it slows the host",
    ),
    ("repeats.decode_eager", "The same decode in graphs whose step is as long: the gaps were not the launches'"),
    (
        "repeats.eager_decode_steps",
        "The same batches in graphs whose steps are as long: the gaps were not the launches'",
    ),
    ("repeats.launch_bound", "The step time without a profiler: launches that follow faster there do not bound it"),
    ("repeats.", "A run without the repeated work whose step is as long"),
    (
        "shapes.starved",
        "Memory counters of these kernels near the peak, or split-K that is no faster: then the weights bound them",
    ),
    (
        "roofline.below_floor.",
        "Counters that show as many bytes or operations as the least that was counted: then the device's peaks are others",
    ),
    (
        "roofline.",
        "Counters that show more bytes or operations than the counted least: then the floor lies higher than is said",
    ),
    (
        "paths.",
        "The workload with this path alone on and off, no further apart than its repeats; or a recording in which it ran",
    ),
    ("expert_skew.", "Counts over more steps that even out: a few sampled steps can be uneven by chance"),
    ("straggler.", "Payloads that differ between ranks, or a rank order that changes from step to step"),
    ("draft.", "Kernels that tell draft from target (a stream or an annotation of their own)"),
    (
        "device_health.",
        "The same GPU at its neighbours' clock with the same step time, or readings that were taken without load",
    ),
    ("queues.prefill", "A server whose prefill queue is empty meanwhile: the time lies before or behind it"),
    ("queues.decode", "A queue of the server that holds requests meanwhile"),
    ("queues.prefix_cache", "The same prompts with a larger cache and no more hits: the loss is not the capacity's"),
    ("queues.os_limit", "The limit raised, and the same failures: something else refuses the connections"),
    ("queues.", "Two scrapes under the same load between which this queue stays empty"),
    ("startup.first_cause", "The same command that ends or serves without this line: another fault stopped it"),
    ("bench.failed", "The same load again, with requests that complete: what refused them was not the load"),
    (
        "live.",
        "The device's own times of these steps: a device that is busy meanwhile leaves the host's time without effect",
    ),
)
_ANY = "The same workload without what it names, and a gain outside of its bound"


def counter_evidence(finding: str) -> str:
    """One sentence for a finding's id."""
    return next((text for begin, text in _BY_ID if finding.startswith(begin)), _ANY)
