"""What a live recording adds to a report: its processes, and where each phase's time went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process of the server; counts are None where it has none."""

    role: str
    pid: int
    rank: int | None
    late: bool
    steps: int | None


@dataclass(frozen=True, slots=True)
class StepTimeRow:
    """Steps of one phase and graph mode; times are means in ns per step, None where no hook took them.

    Args:
        steps: of one rank, the mean over ranks.
        rows: real tokens a step.
        schedule_ns: the engine plans; ``prepare_ns``: inputs until the launch; ``launch_ns``: the forward or the replay is
            issued; ``wait_ns``: until tokens are sampled; ``output_ns``: the engine takes them in; ``idle_ns``: the worker
            waits for its next step (the engine's time is in it).
    """

    phase: str
    graph_mode: str
    steps: float
    rows: float
    requests: float
    schedule_ns: float | None
    prepare_ns: float | None
    launch_ns: float | None
    wait_ns: float | None
    output_ns: float | None
    idle_ns: float | None


@dataclass(frozen=True, slots=True)
class VerifiedRow:
    """One module that was recomputed in float32 on one rank."""

    module: str
    rank: int | None
    state: str
    cosine: float | None
    max_error: float | None
    text: str


@dataclass(frozen=True, slots=True)
class LiveSection:
    """A recording made inside the server; absent from the report of a trace.

    ``unseen``: what no hook could see here, and why.
    """

    processes: tuple[ProcessRow, ...]
    step_times: tuple[StepTimeRow, ...]
    seconds: float
    verified: tuple[VerifiedRow, ...] = ()
    unseen: tuple[str, ...] = ()
