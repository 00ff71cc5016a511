"""The scheduler's side of the KV connector: tokens that come from outside, and whether requests run once they are here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from m3probe.collectors._bytes_kv import parts
from m3probe.collectors._bytes_kv_sum import Seen, summed
from m3probe.collectors._patch import around
from m3probe.schema import gates, records
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe


class EngineKv:
    """Hooks on the scheduler's connector object; all run in the engine's thread."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: deque[Seen] = deque()
        self._waiting: set[str] = set()
        self._received = self._ran = 0
        self._told = (0, 0)

    def watch(self) -> None:
        """Put the hooks on; nothing where the engine has no connector."""
        scheduler = self._probe.host(Role.ENGINE)
        connector = getattr(scheduler, "connector", None)
        if connector is None:
            return
        patches = self._probe.patches
        name = "+".join(type(part).__name__ for part in parts(connector))
        self._probe.hook("kv_alloc", around(patches, "kv_alloc", after=self._allocated(name)), owner=connector)
        self._probe.hook("kv_arrived", around(patches, "kv_arrived", before=self._arrived))
        self._probe.hook("kv_scheduled", around(patches, "kv_scheduled", after=self._scheduled))

    def drain(self) -> Iterator[records.AnyRecord]:
        """Sums since the last time; arrivals since recording began, where they moved."""
        yield from summed([self._seen.popleft() for _ in range(len(self._seen))])
        now = (self._received, self._ran)
        if now != self._told:
            self._told = now
            facts = gates.GateFacts(arrivals=gates.Arrivals(received=now[0], ran=now[1]))
            yield records.Gate(facts=facts, seam="kv_arrived")

    def _allocated(self, name: str) -> Any:
        def after(_token: Any, _result: Any, _request: Any, _blocks: Any, num_external_tokens: int) -> None:
            if num_external_tokens:
                self._seen.append(Seen(name, "load", "kv_alloc", "", -1, num_external_tokens, 1, -1))

        return after

    def _arrived(self, _scheduler: Any, kv_connector_output: Any) -> None:
        for request in kv_connector_output.finished_recving or ():
            if request not in self._waiting:
                self._waiting.add(request)
                self._received += 1

    def _scheduled(self, _token: Any, output: Any, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
        if not self._waiting:
            return
        ran = self._waiting & output.num_scheduled_tokens.keys()
        gone = {request for request in self._waiting - ran if request not in scheduler.requests}
        self._ran += len(ran)
        self._received -= len(gone)  # aborted by its client before it could run
        self._waiting -= ran | gone
