"""What moves between ranks and between servers: collectives, and the KV connector's loads and saves."""

from __future__ import annotations

from m3probe.collectors._bytes_calls import Calls, tensor_parallel
from m3probe.collectors._bytes_kinds import BACKEND_OF, KINDS
from m3probe.collectors._bytes_kv import WorkerKv
from m3probe.collectors._bytes_kv_engine import EngineKv
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._seams.bytes import SEAMS
from m3probe.schema.roles import Role


class Bytes(Part):
    """In a worker collectives (into the ledger during warm-up and capture) and its side of the KV connector.

    In the engine the scheduler's side of the connector.
    """

    _calls: Calls | None = None
    _kv: WorkerKv | EngineKv | None = None
    _armed = False

    def loaded(self) -> None:
        """Warm-up and capture follow: what is called there is what a replay runs."""
        if self.role is Role.WORKER and not self.probe.late:
            self._watch_calls()
            self._kv = WorkerKv(self.probe)
            self._kv.watch_made()

    def captured(self) -> None:
        """The ledger is complete; hooks come off until recording begins."""
        if self._calls is not None:
            for record in self._calls.drain():
                self.probe.ledger(record)
            self._unwatch_calls()
        if isinstance(self._kv, WorkerKv):
            self._kv.made()

    def arm(self) -> None:
        """Count from now on."""
        self._armed = True
        if self.role is Role.WORKER:
            self._tell_compiled()
            self._watch_calls()
            self._kv = WorkerKv(self.probe)
            self._kv.watch()
        elif self.role is Role.ENGINE:
            self._kv = EngineKv(self.probe)
            self._kv.watch()

    def tick(self) -> None:
        """Counts of the last second."""
        if not self._armed:
            return
        if self._calls is not None:
            for record in self._calls.drain():
                self.probe.put(record)
            if self._calls.dropped:
                self.probe.note("queue_full", "collectives: more calls in a second than are kept", lossy=True)
        if self._kv is not None:
            for kv in self._kv.drain():
                self.probe.put(kv)

    def disarm(self) -> None:
        """The probe takes the hooks off."""
        self._calls = self._kv = None
        self._armed = False

    def _watch_calls(self) -> None:
        calls = self._calls = Calls(self.probe.patches)
        for seam, kind in KINDS.items():
            self.probe.hook(seam, calls.watch(seam, kind))
        for seam, backend in BACKEND_OF.items():
            self.probe.hook(seam, calls.mark(seam, backend))

    def _unwatch_calls(self) -> None:
        self._calls = None
        self.probe.unhook(*KINDS, *BACKEND_OF)

    def _tell_compiled(self) -> None:
        """On CPU collectives are no ops of torch's (``use_custom_op_collectives``): compiled code holds them itself."""
        config = getattr(self.probe.host(Role.WORKER), "vllm_config", None)
        mode = int(getattr(getattr(config, "compilation_config", None), "mode", 0) or 0)
        group = tensor_parallel()
        if mode and getattr(group, "world_size", 1) > 1 and not getattr(group, "use_custom_op_call", True):
            self.probe.note(
                "compiled_collectives", "collectives inside compiled code are not seen on this platform", lossy=True
            )


COLLECTOR = Collector(
    title="bytes: collectives by operation, payload and backend; loads and saves of the KV connector",
    roles=(Role.WORKER, Role.ENGINE),
    make=Bytes,
    seams=tuple(SEAMS),
    order=50,
)
