"""Requests that wait for their first token: prefill, admission or KV capacity? The server's own times tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.analyzers._queues_cache import Usage, kv_usage
from m3probe.analyzers._queues_capacity import FULL
from m3probe.analyzers._queues_evidence import of_counters, of_series, of_took
from m3probe.analyzers._queues_servers import PREFILL, Server, Took
from m3probe.analyzers._view import percent
from m3probe.model.findings import Evidence

ADMISSION, KV_CAPACITY, ELSEWHERE = "admission", "kv_capacity", "elsewhere"
_LEAST = 0.5
"""Share of the client's time to first token that the server must account for, to be what holds the requests."""
_KV_ADVICE = (
    "KV capacity: admit fewer requests at once, a smaller KV dtype, offload, or more GPUs or replicas. A faster decode step "
    "frees blocks sooner; a faster prefill does not"
)
_LIMIT_ADVICE = (
    "Raise --max-num-batched-tokens or --max-num-seqs while TTFT and TPOT hold, or add replicas (prefill workers, where the "
    "roles are apart); a faster step, of prefill or of decode, empties the queue sooner"
)


@dataclass(frozen=True, slots=True)
class Held:
    """What holds requests before their first token, by the server.

    Args:
        verdict: ``prefill``, ``admission``, ``kv_capacity``; ``elsewhere``: not before the server's own prefill ends; empty where
            the server does not tell.
        queue_s: mean time in the server's queue; None where it is not known.
        why: a clause with the numbers.
        short: what is short.
    """

    verdict: str = ""
    queue_s: float | None = None
    why: str = ""
    short: str = ""
    advice: str = ""
    rows: tuple[Evidence, ...] = ()


def sides_of(servers: Sequence[Server]) -> list[Server]:
    """The servers at which prompts wait: the prefill side, or the only one."""
    return [s for s in servers if s.role == PREFILL] or (list(servers) if len(servers) == 1 else [])


def held_by(servers: Sequence[Server], ttft_ms: float) -> Held:
    """Times decide where they are known; without them a cache that is full while requests wait."""
    sides = sides_of(servers)
    times = [(s.took["queue"], s.took["prefill"]) for s in sides if "queue" in s.took and "prefill" in s.took]
    pressure, rows = _pressure(sides)
    if not times or len(times) < len(sides):
        return Held(KV_CAPACITY, None, pressure, "KV cache", _KV_ADVICE, tuple(rows)) if pressure else Held()
    queue_s, prefill_s = _mean([queue for queue, _ in times]), _mean([prefill for _, prefill in times])
    why = f"requests took {queue_s * 1e3:,.1f} ms in the server's queue and {prefill_s * 1e3:,.1f} ms in prefill"
    took = (of_took(times[0][0], "time in the queue"), of_took(times[0][1], "time in prefill"))
    since_start = any(part.since_start for pair in times for part in pair)
    if not since_start and (queue_s + prefill_s) * 1e3 < _LEAST * ttft_ms:
        return Held(ELSEWHERE, queue_s, why, rows=took)
    if prefill_s >= queue_s:
        return Held(PREFILL, queue_s, why, "prefill", rows=took)
    if pressure:
        return Held(KV_CAPACITY, queue_s, f"{why}; {pressure}", "KV cache", _KV_ADVICE, (*took, *rows))
    return Held(ADMISSION, queue_s, why, "token budget or --max-num-seqs", _LIMIT_ADVICE, took)


def _mean(times: Sequence[Took]) -> float:
    whole = sum(took.count for took in times)
    return sum(took.mean_s * took.count for took in times) / whole if whole else 0.0


def _pressure(sides: Sequence[Server]) -> tuple[str, list[Evidence]]:
    """Why the KV cache is what requests wait for; empty where it is not, or none waits."""
    for server in sides:
        if server.waiting is None or server.waiting.most <= 0:
            continue
        told = [found for found in (_full(kv_usage(server.metrics)), _preempted(server)) if found is not None]
        if told:
            said = " and ".join(text for text, _ in told)
            return f"{said} while {server.waiting.text('waiting')}", [row for _, row in told]
    return "", []


def _full(usage: Usage | None) -> tuple[str, Evidence] | None:
    if usage is None or usage.most <= FULL:
        return None
    text = f"{percent(usage.most)} of the KV cache was in use at most"
    return text, of_series(usage.series, text)


def _preempted(server: Server) -> tuple[str, Evidence] | None:
    held = server.metrics.named("num_preemptions")
    count = sum(series.increase for series in held)
    if count <= 0:
        return None
    text = f"{count:,.0f} requests were preempted"
    return text, of_counters(held, text, "0")
