"""Question 5: which queue grows? By metrics, live samples and benchmark runs; a trace holds none, and says what would tell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._engine import once, told
from m3probe.analyzers._ledger_queues import live_queues
from m3probe.analyzers._queues_capacity import capacity_findings
from m3probe.analyzers._queues_client import client_findings
from m3probe.analyzers._queues_laws import law_findings
from m3probe.analyzers._queues_process import process_findings
from m3probe.analyzers._queues_rows import queue_rows
from m3probe.analyzers._queues_spread import spread_findings
from m3probe.analyzers._queues_transfer import transfer_findings
from m3probe.analyzers._steptime import StepTimes, step_times
from m3probe.analyzers._view import in_phases, ms, percent
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, QueuesSection
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import Phase

# What would answer, by queue. Names of the /metrics page as in vLLM 0.33.0; older versions have fewer.
_ANSWERED_BY = {
    "admission": "/metrics: vllm:num_requests_waiting and vllm:request_queue_time_seconds; bench JSON: TTFT by request",
    "prefill": "/metrics: vllm:request_prefill_time_seconds beside vllm:num_requests_waiting; bench JSON: TTFT",
    "decode": "/metrics: vllm:num_requests_running, vllm:inter_token_latency_seconds; bench JSON: TPOT",
    "kv_transfer": "/metrics of both ends: vllm:num_requests_waiting_by_reason, vllm:num_requests_kv_fetch_by_stage; "
    "server log of the connector",
    "kv_capacity": "/metrics: vllm:kv_cache_usage_perc, vllm:num_preemptions_total; server log: GPU KV cache usage",
    "prefix_cache": "/metrics: vllm:prefix_cache_hits_total over vllm:prefix_cache_queries_total",
    "front_end": "a trace of the API server (*.async_llm*), /metrics: vllm:time_to_first_token_seconds beside "
    "vllm:request_queue_time_seconds",
    "outside_vllm": "bench JSON with request times as the client saw them, beside vllm:e2e_request_latency_seconds",
    "os_limits": "limits of the host (ulimit -n), process_open_fds and process_max_fds of /metrics, server log: "
    "Too many open files",
}
_SHOWN_BY_TRACE = "the trace shows"


FINDERS = (
    process_findings,
    client_findings,
    transfer_findings,
    capacity_findings,
    spread_findings,
    law_findings,
)


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """What was measured of each queue; of the others what would answer, and what a trace shows beside it."""
    times = step_times(rec)
    shown = {
        "prefill": _prefill(rec),
        "decode": _decode(rec),
        "kv_capacity": _context(rec),
        "front_end": " and ".join(part for part in (_between_steps(rec, times), _frontend_files(rec)) if part),
    }
    queues = {name: _line(wanted, shown.get(name, "")) for name, wanted in _ANSWERED_BY.items()}
    measured = live_queues(rec)
    queues |= measured
    rows = queue_rows(rec)
    found = [finding for find in FINDERS for finding in find(rec)]
    if not measured and not rec.meta.bench:
        found += _unmeasured(rec)
    return Answer((QueuesSection(queues, rows),), tuple(found))


ANALYZER = Analyzer(title="Which queue grows?", order=60, judge=judge)


def _line(wanted: str, shown: str) -> str:
    seen = f"; {_SHOWN_BY_TRACE} {shown}" if shown else ""
    return f"not measured{seen}. Would answer: {wanted}"


def _known(values: Array) -> Array:
    return values[values >= 0]


def _range(values: Array) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _prefill(rec: Recording) -> str:
    steps = np.flatnonzero(in_phases(rec, Phase.PREFILL, Phase.MIXED) & once(rec))
    tokens = _known(rec.steps["ctx_tokens"][steps])
    return f"{_range(tokens)} prefill tokens in each of {len(tokens)} step(s)" if len(tokens) else ""


def _decode(rec: Recording) -> str:
    steps = np.flatnonzero(in_phases(rec, Phase.DECODE, Phase.MIXED) & once(rec))
    requests = _known(rec.steps["gen_reqs"][steps])
    return f"{_range(requests)} decode requests in each of {len(requests)} step(s)" if len(requests) else ""


def _context(rec: Recording) -> str:
    steps = np.flatnonzero(in_phases(rec, Phase.DECODE, Phase.MIXED))
    keys = _known(rec.steps["gen_seq_len_sum"][steps])
    return f"up to {int(keys.max()):,} cached tokens attended in one step" if len(keys) else ""


def _between_steps(rec: Recording, times: StepTimes) -> str:
    """Device time between the work of a step and the first work of the next one: the host was not ready."""
    working = in_phases(rec, Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN)
    gaps = np.flatnonzero(working & times.followed & ~times.short)  # nothing is known of what comes after the last step
    window = int(times.window_ns[gaps].sum())
    if not window:
        return ""
    waits = int(times.tail_ns[gaps].sum())
    return (
        f"the device waiting {ms(waits / len(gaps))} on average between the work of a step and that of the next "
        f"({percent(waits / window)} of step time): scheduling, sampling, input preparation or the front end, "
        "which of them it does not say"
    )


def _frontend_files(rec: Recording) -> str:
    count = sum(f.role == "frontend" for f in rec.files)
    return f"{count} front-end file(s), whose queues this version does not read" if count else ""


def _unmeasured(rec: Recording) -> Iterator[Finding]:
    if not len(rec.steps):
        return
    steps = np.arange(len(rec.steps))
    yield Finding(
        id="queues.unmeasured",
        question="queues",
        verdict="unproven",
        claim="Which queue grows is unproven: a trace shows steps, not the requests that wait for one",
        where="",
        evidence=(evidence("steps", steps, f"{told(rec, steps)}, no queue"),),
        advice="Take the /metrics page twice during the run and keep the bench JSON: waiting requests that rise between the "
        "two say which queue grows",
    )
