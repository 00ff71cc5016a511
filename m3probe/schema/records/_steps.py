"""Steps: one each in windows, counts by kind per second always."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from m3probe.schema.records._base import Record
from m3probe.schema.roles import Role, Stage


class StepRow(Record, tag="step"):
    """One step of a window. Counts are -1 where not known, times None.

    ``t_start``..``t_end``: ``execute_model`` of the worker; ``t_launch``..``t_launched``: the model's forward or the
    replay in it; ``t_sample_end``: end of sampling. The engine's own row has ``t_schedule``..``t_scheduled`` and
    ``t_output``..``t_done`` (``update_from_output``) instead.
    """

    step: int
    phase: str
    rows: int
    role: Role = Role.UNKNOWN
    padded_rows: int = -1
    requests: int = -1
    ctx_reqs: int = -1
    ctx_rows: int = -1
    gen_reqs: int = -1
    gen_rows: int = -1
    ctx_seq_len_sum: int = -1
    gen_seq_len_sum: int = -1
    spec_rows: int = 0
    """Drafted tokens verified."""
    spec_rows_on_prefill: int = 0
    """Of those, rows that the attention metadata put on the prefill side."""
    mode: str = ""
    descriptor: int = -1
    replays: int = 0
    stage: Stage = Stage.EAGER
    t_start: int | None = None
    t_launch: int | None = None
    t_launched: int | None = None
    t_end: int | None = None
    t_sample_end: int | None = None
    t_schedule: int | None = None
    t_scheduled: int | None = None
    t_output: int | None = None
    t_done: int | None = None


class StepCount(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Steps of one kind within one second: sums over them. Times are sums of ns, -1 where not taken.

    ``padded_rows`` is M of one step: of the descriptor under graphs, the real rows of an eager step; where
    ``padded_rows * count`` is not ``rows_sum``, eager steps of several sizes were counted together.
    """

    phase: str
    mode: str
    descriptor: int
    padded_rows: int
    count: int
    rows_sum: int
    requests_sum: int
    ctx_reqs_sum: int = 0
    ctx_rows_sum: int = 0
    gen_reqs_sum: int = 0
    gen_rows_sum: int = 0
    ctx_seq_len_sum: int = 0
    gen_seq_len_sum: int = 0
    spec_rows_sum: int = 0
    spec_rows_on_prefill_sum: int = 0
    replays: int = 0
    schedule_ns: int = -1
    prepare_ns: int = -1
    launch_ns: int = -1
    wait_ns: int = -1
    output_ns: int = -1
    idle_ns: int = -1
    """Between the end of the step before and the start of this one, in this process."""
    role: Role = Role.UNKNOWN
    """Whose times these are: one process may be engine and worker, and then counts each step twice."""
    stage: Stage = Stage.EAGER


class StepCounts(Record, tag="steps"):
    """One second of steps; ``first`` is the number of the first of them, counted from the start of the recording."""

    mono_ns: int
    first: int
    steps: tuple[StepCount, ...]
    draft_replays: Mapping[int, int] = {}
    """Descriptor -> FULL replays of a draft model within these steps (V2; V1's drafts are not told apart)."""
