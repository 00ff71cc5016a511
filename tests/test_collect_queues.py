"""Statistics of steps and requests as vLLM's loggers get them: last and largest of gauges, sums of counters, capped requests."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from m3probe.collectors import _stat_logger as stat_logger
from m3probe.collectors._probe import Probe
from m3probe.collectors._queues_stats import request
from m3probe.collectors._stat_logger import StatTap
from m3probe.collectors.queues import Queues
from m3probe.schema import records
from m3probe.schema.roles import Level, Role


@dataclass
class SchedulerStats:
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    kv_cache_usage: float = 0.0
    prefix_cache_stats: Any = None
    connector_prefix_cache_stats: Any = None
    spec_decoding_stats: Any = None


@dataclass
class FinishedRequest:
    """As vLLM keeps it, in seconds; ``finish_reason`` has a text of its own."""

    finish_reason: str = "length"
    num_prompt_tokens: int = 100
    num_generation_tokens: int = 4
    num_cached_tokens: int = 96
    queued_time: float = 0.25
    prefill_time: float = 0.5
    decode_time: float = 0.75
    e2e_latency: float = 1.625


@dataclass
class IterationStats:
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    num_preempted_reqs: int = 0
    prompt_token_stats: Any = None
    finished_requests: list[FinishedRequest] = field(default_factory=list)
    time_to_first_tokens_iter: list[float] = field(default_factory=list)
    inter_token_latencies_iter: list[float] = field(default_factory=list)


def told(*calls: tuple[Any, Any, int]) -> list[records.AnyRecord]:
    tap = StatTap()
    for scheduler, iteration, engine in calls:
        tap.record(None, None, "manager", scheduler, iteration, mm_cache_stats=None, engine_idx=engine)
    found = tap.drain()
    assert tap.drain() == []
    return found


def values(found: list[records.AnyRecord], source: str, engine: str = "0") -> dict[str, float]:
    (one,) = [
        r for r in found if isinstance(r, records.Sample) and r.source == source and r.labels == {"engine": engine}
    ]
    return dict(one.values)


def test_gauges_have_their_last_and_their_largest_value_and_waiting_includes_deferred() -> None:
    steps = [(1, 2, 0, 0.1), (16, 8, 3, 0.9), (4, 0, 1, 0.5)]
    found = values(told(*((SchedulerStats(*step), None, 0) for step in steps)), "scheduler")
    assert found == {
        "stat_updates": 3.0,
        "num_requests_running": 4.0,
        "num_requests_running:max": 16.0,
        "num_requests_waiting": 1.0,
        "num_requests_waiting:max": 11.0,
        "num_requests_waiting_by_reason:capacity": 0.0,
        "num_requests_waiting_by_reason:capacity:max": 8.0,
        "num_requests_waiting_by_reason:deferred": 1.0,
        "num_requests_waiting_by_reason:deferred:max": 3.0,
        "kv_cache_usage_perc": 0.5,
        "kv_cache_usage_perc:max": 0.9,
    }


def test_counters_are_summed_and_those_a_server_does_not_have_are_left_out() -> None:
    def step(queries: int, hits: int, drafts: int) -> SchedulerStats:
        cache = SimpleNamespace(queries=queries, hits=hits, preempted_queries=7, preempted_hits=1)
        spec = SimpleNamespace(num_drafts=drafts, num_draft_tokens=3 * drafts, num_accepted_tokens=drafts)
        return SchedulerStats(prefix_cache_stats=cache, spec_decoding_stats=spec)

    found = values(told((step(100, 96, 2), None, 0), (step(50, 0, 3), None, 0)), "scheduler")
    assert (found["prefix_cache_queries"], found["prefix_cache_hits"]) == (150.0, 96.0)
    assert (found["prefix_cache_queries:preempted"], found["prefix_cache_hits:preempted"]) == (14.0, 2.0)
    spec = {name.removeprefix("spec_decode_"): v for name, v in found.items() if name.startswith("spec_decode")}
    assert spec == {"num_drafts": 5.0, "num_draft_tokens": 15.0, "num_accepted_tokens": 5.0}
    assert "external_prefix_cache_queries" not in found


def test_stages_of_kv_fetches_are_gauges_of_their_own() -> None:
    step = SchedulerStats()
    step.num_kv_fetch_reqs_by_stage = {"in_progress": 3}  # type: ignore[attr-defined] # from 0.32 on
    found = values(told((step, None, 0), (SchedulerStats(), None, 0)), "scheduler")
    assert found["num_requests_kv_fetch_by_stage:in_progress"] == 0.0
    assert found["num_requests_kv_fetch_by_stage:in_progress:max"] == 3.0


def test_iterations_are_summed_and_latencies_have_sum_and_count() -> None:
    prompt = SimpleNamespace(computed=4, local_cache_hit=96, external_kv_transfer=0)
    first = IterationStats(100, 1, 0, prompt, [], [0.5], [])
    later = IterationStats(0, 2, 1, None, [FinishedRequest()], [], [0.25, 0.5])
    found = values(told((None, first, 0), (None, later, 0)), "iteration")
    assert found == {
        "prompt_tokens": 100.0,
        "prompt_tokens_by_source:local_compute": 4.0,
        "prompt_tokens_by_source:local_cache_hit": 96.0,
        "prompt_tokens_by_source:external_kv_transfer": 0.0,
        "generation_tokens": 3.0,
        "num_preemptions": 1.0,
        "request_success": 1.0,
        "time_to_first_token_seconds:sum": 0.5,
        "time_to_first_token_seconds:count": 1.0,
        "inter_token_latency_seconds:sum": 0.75,
        "inter_token_latency_seconds:count": 2.0,
    }


def test_each_engine_has_its_own_samples() -> None:
    found = told((SchedulerStats(1), None, 0), (SchedulerStats(2), None, 1), (SchedulerStats(3), None, 0))
    assert values(found, "scheduler", "0")["num_requests_running"] == 3.0
    assert values(found, "scheduler", "1")["num_requests_running"] == 2.0


def test_a_finished_request_has_vllms_intervals_and_what_was_never_reached_is_unknown() -> None:
    whole = request(FinishedRequest(), 5)
    assert whole == records.Request(
        mono_ns=5,
        prompt_tokens=100,
        output_tokens=4,
        cached_tokens=96,
        finish="length",
        queued_ns=250_000_000,
        prefill_ns=500_000_000,
        decode_ns=750_000_000,
        e2e_ns=1_625_000_000,
    )
    # aborted in the queue: vLLM's marks are 0.0, so its intervals are minus the clock
    never = request(FinishedRequest("abort", 9, 0, 0, -8_000.5, 0.0, 0.0, 2.0), 5)
    assert (never.queued_ns, never.decode_ns, never.e2e_ns, never.output_tokens) == (None, None, 2_000_000_000, 0)


def test_requests_beyond_the_cap_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_logger, "MOST_REQUESTS", 3)
    found = told((None, IterationStats(finished_requests=[FinishedRequest()] * 5), 0))
    assert sum(isinstance(r, records.Request) for r in found) == 3
    assert [r.values for r in found if isinstance(r, records.Sample)][-1] == {"requests_not_told": 2.0}
    assert values(found, "iteration")["request_success"] == 5.0


def test_calls_beyond_the_queue_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_logger, "MOST_QUEUED", 2)
    tap = StatTap()
    for _ in range(5):
        tap.record(None, None, "manager", SchedulerStats(), None)
    assert tap.dropped == 3
    assert values(tap.drain(), "scheduler")["stat_updates"] == 2.0


class Manager:
    """Stands for StatLoggerManager."""

    def __init__(self) -> None:
        self.calls = 0

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: Any = None
    ) -> None:
        self.calls += 1


class Guest(Probe):
    """A probe with one part, whose records stay in a list."""

    def __init__(self, role: Role, host: Any) -> None:
        super().__init__(Level.LEDGER)
        self.kept: list[records.AnyRecord] = []
        self.part = Queues(self)
        self.part.role = role
        self._host = host

    def host(self, role: Role) -> Any:
        return self._host if role is self.part.role else None

    def put(self, record: records.AnyRecord) -> None:
        self.kept.append(record)

    def words(self) -> list[str]:
        return [r.word for r in self.kept if isinstance(r, records.Note)]


def test_the_manager_is_tapped_while_recording_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm.v1.metrics.loggers")
    module.StatLoggerManager = Manager  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    manager, before = Manager(), Manager.__dict__["record"]
    guest = Guest(Role.API, SimpleNamespace(logger_manager=manager))
    guest.part.arm()
    manager.record(SchedulerStats(3), IterationStats(finished_requests=[FinishedRequest()]), engine_idx=0)
    manager.record(scheduler_stats=SchedulerStats(1), iteration_stats=None)
    guest.part.tick()
    assert values(guest.kept, "scheduler")["num_requests_running:max"] == 3.0
    assert sum(isinstance(r, records.Request) for r in guest.kept) == 1
    assert guest.patches.undo() == ()
    assert Manager.__dict__["record"] is before
    assert (manager.calls, dict(guest.patches.failed)) == (2, {})


def test_a_server_without_statistics_is_not_made_to_collect_them() -> None:
    guest = Guest(Role.API, SimpleNamespace(logger_manager=None))
    guest.part.arm()
    guest.part.tick()
    assert guest.patches.standing == []
    assert guest.words() == ["no_stats"]


def test_without_statistics_the_engines_queues_are_read_once_a_second() -> None:
    cache = SimpleNamespace(enable_caching=False, usage=0.25)
    scheduler = SimpleNamespace(log_stats=False, kv_cache_manager=cache, get_request_counts=lambda: (16, 8))
    guest = Guest(Role.ENGINE, scheduler)
    guest.part.arm()
    guest.part.tick()
    (found,) = [r for r in guest.kept if isinstance(r, records.Sample)]
    assert (found.source, found.values) == (
        "scheduler",
        {"num_requests_running": 16.0, "num_requests_waiting": 8.0, "kv_cache_usage_perc": 0.25},
    )
    assert guest.words() == ["no_prefix_cache"]
    guest.part.disarm()
    guest.kept.clear()
    guest.part.tick()
    assert guest.kept == []
