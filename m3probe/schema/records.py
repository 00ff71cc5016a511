"""What a guest writes: one record a frame, told apart by the tag ``k``.

Unknown is None, or -1 where a field says so, and never 0. Times are ``time.monotonic_ns()``: on Linux one clock for all
processes of a host; ``Clock`` ties it to the wall. Names of dtypes are torch's without ``torch.``. A reader skips and
counts tags that it does not know; new fields get defaults, so that old readings stay possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from m3probe.schema.gates import GateFacts
from m3probe.schema.roles import Role, Stage

FORMAT = 1
"""Raised when an old reader would misread a new file; added fields and tags do not."""


class Record(msgspec.Struct, tag_field="k", gc=False, omit_defaults=True, kw_only=True):
    """What every record shares: nothing but its tag."""


class Process(Record, tag="process"):
    """First record of a file, again when more becomes known (the last holds): who wrote it. ``*_rank`` and sizes are -1 where the process has none.

    ``env``: variables of vLLM, AITER, the GPU runtime and m3probe as this process sees them, no others.
    """

    format: int = FORMAT
    m3probe: str = ""
    role: Role = Role.UNKNOWN
    """The one nearest to the device of ``roles``: with one GPU vLLM runs engine and worker in one process."""
    roles: tuple[Role, ...] = ()
    pid: int = -1
    ppid: int = -1
    host: str = ""
    started_ns: int = -1
    rank: int = -1
    local_rank: int = -1
    tp_rank: int = -1
    pp_rank: int = -1
    dp_rank: int = -1
    ep_rank: int = -1
    world_size: int = -1
    tp: int = -1
    pp: int = -1
    dp: int = -1
    ep: int = -1
    engine: int = -1
    """Index of the engine (data-parallel replica) that it belongs to."""
    vllm: str = ""
    torch: str = ""
    python: str = ""
    device: str = ""
    device_name: str = ""
    gfx: str = ""
    late: bool = False
    """The probe came after load and capture: what they would have told is missing."""
    env: Mapping[str, str] = {}


class Clock(Record, tag="clock"):
    """The two clocks, read together; written with every flush that has something to say, at least each 10 s."""

    mono_ns: int
    wall_ns: int


class Config(Record, tag="config"):
    """The engine's configuration as this process holds it: plain data by section, values that are none as text."""

    sections: Mapping[str, Any]
    model: Mapping[str, Any] = {}
    """The text model's config.json values."""


class Module(Record, tag="module"):
    """One module of the loaded model as this rank holds it.

    ``kind``: ``linear``, ``moe``, ``attention``, ``norm``, ``embedding``, ``lm_head``, ``router``, ``other``.
    ``N``, ``K``: rows and columns of the local weight as the GEMM sees it (experts: of one expert's w13 and, in ``facts``,
    w2). ``weight_bytes``: parameters and buffers by storage, scales included, shared storage counted once.
    ``facts``: what else its kind has (experts, top_k, heads, padding, scheme), plain data.
    """

    name: str
    cls: str
    kind: str
    layer: int = -1
    N: int = -1
    K: int = -1
    dtype: str = ""
    weight_bytes: int = -1
    quant: str = ""
    kernel: str = ""
    draft: bool = False
    facts: Mapping[str, Any] = {}


class KvLayer(Record, tag="kv_layer"):
    """One layer's cache: ``kind`` is ``main``, ``index`` or ``other``; bytes of one block, and without padding."""

    layer: str
    kind: str
    spec: str = ""
    group: int = -1
    block_tokens: int = -1
    kv_heads: int = -1
    head_size: int = -1
    dtype: str = ""
    page_bytes: int = -1
    real_page_bytes: int = -1
    shape: tuple[int, ...] = ()
    storage: int = -1
    """Layers with one number share one allocation."""
    draft: bool = False


class KvPool(Record, tag="kv_pool"):
    """All caches of this rank; ``bytes`` counts each allocation once."""

    blocks: int
    bytes: int
    block_tokens: int = -1
    groups: int = -1


class Descriptor(Record, tag="descriptor"):
    """A padded batch that a graph was captured for. ``id`` counts from 0 in each process."""

    id: int
    mode: str
    padded_rows: int
    requests: int = -1
    uniform: bool | None = None
    runner: str = ""
    """``v1``, ``v2`` or ``breakable``."""
    draft: bool = False
    """Of a draft model's graphs, whose replays ``StepCounts.draft_replays`` counts."""
    text: str = ""


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


class Dispatch(Record, tag="dispatch"):
    """A branch that was taken (or refused), with how often since the record before.

    ``path``: name in the catalogue; ``variant``: the implementation in the catalogue's words; ``eligible`` and
    ``reason``: what the seam's own predicate said of ``size`` (rows, or bytes where ``unit`` says so).
    """

    path: str
    seam: str
    variant: str = ""
    eligible: bool | None = None
    reason: str = ""
    size: int = -1
    unit: str = "rows"
    phase: str = "unknown"
    descriptor: int = -1
    stage: Stage = Stage.EAGER
    count: int = 1
    layers: int = -1
    """Distinct layers that took it, where the seam knows its layer."""
    facts: Mapping[str, Any] = {}


class Collective(Record, tag="collective"):
    """Calls of one collective: ``payload_bytes`` of one call on this rank; -1 where calls of several sizes are summed.

    ``backend``: ``shm``, ``quick``, ``aiter``, ``custom``, ``symm``, ``flashinfer``, ``pynccl``, ``torch:gloo``, ...
    """

    op: str
    group: str
    payload_bytes: int
    payload_sum_bytes: int = -1
    """Over all calls, where ``payload_bytes`` is -1."""
    dtype: str = ""
    backend: str = ""
    ranks: int = -1
    fused: bool = False
    phase: str = "unknown"
    descriptor: int = -1
    stage: Stage = Stage.EAGER
    count: int = 1


class KvTransfer(Record, tag="kv_transfer"):
    """Calls of a KV connector. ``direction``: ``load``, ``save``, ``register``, ``finish``.

    Bytes, tokens, requests and time are sums over ``count`` calls; ``seam``: one transfer may be seen at several.
    """

    connector: str
    direction: str
    seam: str
    layer: str = ""
    payload_bytes: int = -1
    tokens: int = -1
    requests: int = -1
    dur_ns: int = -1
    count: int = 1


class Routing(Record, tag="routing"):
    """Rows per expert of one MoE layer, summed over ``steps`` sampled steps; ``padded``: after block padding."""

    layer: str
    steps: int
    rows: int
    top_k: int
    experts: tuple[int, ...]
    shared: int = -1
    padded: int = -1
    overlap_next: float | None = None
    """Mean share of top-k experts that the next sampled sparse layer chose too, where asked for."""


class Gate(Record, tag="gate"):
    """Facts for the gates of the catalogue; fields left None were not looked at."""

    facts: GateFacts
    seam: str = ""


class Sample(Record, tag="sample"):
    """One value of a time series: queue lengths, counters, host figures."""

    mono_ns: int
    values: Mapping[str, float]
    source: str = ""
    """``scheduler``, ``iteration``, ``host``, ``metrics``."""
    labels: Mapping[str, str] = {}


class Request(Record, tag="request"):
    """One finished request; times in ns, None where vLLM did not keep them."""

    mono_ns: int
    prompt_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1
    finish: str = ""
    queued_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    e2e_ns: int | None = None
    ttft_ns: int | None = None
    preemptions: int = -1


class PrefixCache(Record, tag="prefix_cache"):
    """Prefix-cache tokens since arming: achieved, and what an infinite cache would have hit, the gap by cause."""

    mono_ns: int
    queries: int
    hits: int
    infinite_hits: int
    lost_rounding: int = -1
    lost_eviction: int = -1
    lost_not_computed: int = -1


class Host(Record, tag="host"):
    """Limits and use of one process on the path of a request; -1 where the host does not tell."""

    mono_ns: int
    pid: int
    role: str = ""
    fds: int = -1
    fd_soft: int = -1
    fd_hard: int = -1
    sockets: int = -1
    threads: int = -1
    rss_bytes: int = -1
    cpu_ns: int = -1
    cpu_by_thread: Mapping[str, int] = {}


class Kernels(Record, tag="kernels"):
    """A profiler window: ``state`` is ``done``, ``failed`` or ``refused``; ``path``: its trace, relative to the folder."""

    state: str
    path: str = ""
    first_step: int = -1
    steps: int = -1
    text: str = ""
    before_steps_per_s: float | None = None
    after_steps_per_s: float | None = None
    bytes: int = -1
    """Of the trace before compression."""
    held_ns: int = -1
    """How long the worker was held by opening, closing and writing; ``export_ns``: until the file was there."""
    export_ns: int = -1


class CensusKernel(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One kernel of a captured graph, in launch order."""

    name: str
    op: str = ""
    dims: str = ""
    types: str = ""
    grid: tuple[int, ...] = ()


class Census(Record, tag="census"):
    """What one captured graph holds; a replay runs exactly that."""

    descriptor: int
    piece: int
    kernels: tuple[CensusKernel, ...]
    source: str = ""


class Verified(Record, tag="verified"):
    """One module against float32: ``state`` is ``holds``, ``broken`` or ``cannot verify``."""

    module: str
    state: str
    cosine: float | None = None
    max_error: float | None = None
    rows: int = -1
    text: str = ""


class Seam(Record, tag="seam"):
    """How a seam was found here: ``present``, ``changed`` or ``absent``; ``hooked``: a wrapper stands on it now."""

    id: str
    state: str
    hooked: bool = False
    text: str = ""


class Note(Record, tag="note"):
    """Something the reader of the recording must be told; ``lossy``: facts are missing because of it."""

    word: str
    text: str
    count: int = 1
    lossy: bool = False
    mono_ns: int = -1


class End(Record, tag="end"):
    """Last record of a file that was closed in order; without it the process died, or still writes."""

    mono_ns: int
    reason: str
    dropped: Mapping[str, int] = {}
    failed_hooks: Mapping[str, int] = {}
    left_behind: tuple[str, ...] = ()
    """Attributes that could not be given back, because another party replaced them meanwhile."""


AnyRecord = (
    Process | Clock | Config | Module | KvLayer | KvPool | Descriptor | StepRow | StepCounts | Dispatch | Collective
    | KvTransfer | Routing | Gate | Sample | Request | PrefixCache | Host | Kernels | Census | Verified | Seam | Note | End
)  # fmt: skip
