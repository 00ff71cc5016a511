"""Which branch ran: every fast path of the catalogue that has a seam in Python.

Three sources, by ``Dispatch.stage``: ``load`` is what was selected (read from the loaded model; predicates that were asked
while it was built), ``warmup`` and ``capture`` what ran there (a capture times the counted replays of its descriptor is
an execution), ``eager`` and ``twin`` what steps ran. Calls of several seams of one path are views of the same work and
are not added up. What runs inside a replayed graph, or inside compiled code, calls no hook. A fact of capture that has
``outside_graph`` ran in a break of the graph: it runs, and is recorded, again in each replay, so it is not multiplied.
"""

from __future__ import annotations

from typing import Any

from m3probe.collectors import _dispatch_look as look
from m3probe.collectors._bytes_calls import tensor_parallel
from m3probe.collectors._dispatch_calls import Calls
from m3probe.collectors._dispatch_keep import keeping_cache
from m3probe.collectors._dispatch_table import BRANCHES
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around
from m3probe.collectors._seams.dispatch import SEAMS
from m3probe.schema.roles import Role

LOADING = tuple(seam for seam, branch in BRANCHES.items() if branch.loading)
CALLED = tuple(seam for seam, branch in BRANCHES.items() if not branch.loading)
"""Watched during warm-up and capture, and in steps."""


class Dispatches(Part):
    """Into the ledger while the model is built, warmed up and captured; counted each second while recording."""

    _calls: Calls | None = None
    _armed = False

    def early(self) -> None:
        """Predicates are asked while the model is built."""
        self._calls = Calls()
        self._hook(LOADING, self._calls, wait=True)

    def loaded(self) -> None:
        """What was selected; then warm-up and capture."""
        model = self._model()
        if model is not None:
            self._tell(look.of_model(model))
        self._tell(look.of_communicator(tensor_parallel()))
        self._tell(look.of_config(getattr(self.probe.host(Role.WORKER), "vllm_config", None)))
        if self._calls is None:
            self._calls = Calls()
        if not self.probe.late:
            self._hook(CALLED, self._calls, wait=True)

    def captured(self) -> None:
        """Caches are bound; the ledger is complete and its hooks come off."""
        calls, self._calls = self._calls, None
        self.probe.unhook(*LOADING, *CALLED)
        if calls is not None:
            self._tell(calls.drain())
            self._lost(calls)
        runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
        config = getattr(self.probe.host(Role.WORKER), "vllm_config", None)
        layers = getattr(getattr(config, "compilation_config", None), "static_forward_context", None) or {}
        self._tell(look.of_caches(layers, look.drafted(runner)))

    def arm(self) -> None:
        """Count from now on."""
        self._calls, self._armed = Calls(), True
        self._hook(CALLED, self._calls, wait=False)
        model = self._model()
        if model is not None and look.is_compiled(model):
            self.probe.note(
                "compiled_paths", "a part of the model is compiled: branches inside it are not seen", lossy=True
            )

    def tick(self) -> None:
        """Calls of the last second."""
        if self._armed and self._calls is not None:
            for record in self._calls.drain():
                self.probe.put(record)
            self._lost(self._calls)

    def disarm(self) -> None:
        """The probe takes the hooks off."""
        self._calls, self._armed = None, False

    def _hook(self, seams: tuple[str, ...], calls: Calls, *, wait: bool) -> None:
        put = self.probe.hook_when_loaded if wait else self.probe.hook
        cpu = getattr(getattr(self.probe.host(Role.WORKER), "device", None), "type", "") == "cpu"
        for seam in (seam for seam in seams if not (cpu and BRANCHES[seam].gpu)):
            before, after = calls.hooks(seam, BRANCHES[seam])
            put(seam, keeping_cache(around(self.probe.patches, seam, before=before, after=after, traced=True)))

    def _tell(self, records: Any) -> None:
        for record in records:
            self.probe.ledger(record)

    def _lost(self, calls: Calls) -> None:
        if calls.dropped:
            self.probe.note("queue_full", "dispatch: more calls in a second than are kept", lossy=True)

    def _model(self) -> Any:
        runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
        return getattr(runner, "model", None)


COLLECTOR = Collector(
    title="dispatch: predicates of fast paths with their sizes, the branch taken, and each refusal with its number",
    roles=(Role.WORKER,),
    make=Dispatches,
    seams=tuple(SEAMS),
    order=50,
)
