"""Queues: scheduler and request statistics where the API server gets them, the prefix cache where the engine asks it."""

from __future__ import annotations

import time

from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around
from m3probe.collectors._prefix_cache import MOST_BLOCKS, PrefixTap
from m3probe.collectors._seams.queues import SEAMS
from m3probe.collectors._stat_logger import StatTap, of_engine
from m3probe.schema import records
from m3probe.schema.roles import Role


class Queues(Part):
    """In the API server the statistics of steps and requests; in the engine the prefix cache.

    A server started with ``--disable-log-stats`` makes no statistics, and none are switched on for it: the engine's part
    then reads its queues' lengths once a second.
    """

    _stats: StatTap | None = None
    _prefix: PrefixTap | None = None
    _lengths = False

    def arm(self) -> None:
        """Hooks of the role that this part was made for."""
        if self.role is Role.API:
            self._arm_stats()
        elif self.role is Role.ENGINE:
            self._arm_engine()

    def tick(self) -> None:
        """Samples and requests of the last second; the prefix cache's totals where they moved."""
        if self._stats is not None:
            for record in self._stats.drain():
                self.probe.put(record)
            self._told_dropped("stats", self._stats.dropped)
        if self._prefix is not None:
            self._tell_prefix(self._prefix)
        scheduler = self.probe.host(Role.ENGINE) if self._lengths else None
        if scheduler is not None:
            for sample in of_engine(scheduler, time.monotonic_ns()):
                self.probe.put(sample)

    def disarm(self) -> None:
        """Forget all: the next recording counts from its own start."""
        self._stats = self._prefix = None
        self._lengths = False

    def _arm_stats(self) -> None:
        client = self.probe.host(Role.API)
        if getattr(client, "logger_manager", None) is None:
            self.probe.note(
                "no_stats",
                "this server collects no statistics (--disable-log-stats, or an offline LLM's default): no request "
                "times; queue lengths are read from the engine's scheduler once a second",
                lossy=True,
            )
            return
        self._stats = StatTap()
        self.probe.hook("stat_record", around(self.probe.patches, "stat_record", after=self._stats.record))

    def _arm_engine(self) -> None:
        scheduler = self.probe.host(Role.ENGINE)
        if scheduler is None:
            return
        self._lengths = not getattr(scheduler, "log_stats", True)
        manager = getattr(scheduler, "kv_cache_manager", None)
        if manager is None:
            return
        if not manager.enable_caching:
            self.probe.note("no_prefix_cache", "prefix caching is off: no block hashes, no hit rates")
            return
        tap = PrefixTap(scheduler)
        patches = self.probe.patches
        seen = self.probe.hook("prefix_lookup", around(patches, "prefix_lookup", after=tap.looked_up))
        cached = self.probe.hook("prefix_cached", around(patches, "prefix_cached", after=tap.cached))
        if seen and cached:
            self._prefix = tap
        else:
            self.probe.unhook("prefix_lookup", "prefix_cached")

    def _tell_prefix(self, tap: PrefixTap) -> None:
        if not tap.drain():
            return
        total = tap.replay.total
        if tap.replay.forgotten:
            self.probe.note(
                "prefix_capped",
                f"more than {MOST_BLOCKS:,} block hashes: the oldest are forgotten, and what an infinite cache would hit is understated",
                lossy=True,
            )
        self._told_dropped("prefix", tap.dropped)
        self.probe.put(
            records.PrefixCache(
                mono_ns=time.monotonic_ns(),
                queries=total.queries,
                hits=total.hits,
                infinite_hits=total.infinite,
                lost_rounding=total.rounding,
                lost_eviction=total.eviction,
                lost_not_computed=total.not_computed,
            )
        )

    def _told_dropped(self, what: str, count: int) -> None:
        if count:
            self.probe.note("queue_full", f"{what}: more calls in a second than are kept; sums are too low", lossy=True)


COLLECTOR = Collector(
    title="queues: scheduler statistics, finished requests, prefix cache against an infinite one",
    roles=(Role.API, Role.ENGINE),
    make=Queues,
    seams=tuple(SEAMS),
    order=60,
)
