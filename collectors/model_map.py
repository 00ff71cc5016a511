"""The loaded model and its caches as this rank holds them, walked once; shapes of a step are products of it and counted rows."""

from __future__ import annotations

from m3probe.collectors._kv_layers import Caches
from m3probe.collectors._modules import Walk
from m3probe.collectors._modules_config import config
from m3probe.collectors._modules_look import get, models
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._seams.model_map import SEAMS
from m3probe.schema.roles import Role


class ModelMap(Part):
    """In a worker: configuration and modules when the model is loaded, caches when they are allocated."""

    def loaded(self) -> None:
        """One record a module, target first; what a draft model shares with it is the target's."""
        worker = self.probe.host(Role.WORKER)
        vllm_config = get(worker, "vllm_config")
        if vllm_config is not None:
            self.probe.ledger(config(vllm_config))
        walk, found = Walk(), 0
        for model, draft in models(worker):
            for record in walk.modules(model, draft=draft):
                self.probe.ledger(record)
                found += 1
        if not found:
            self.probe.note("no_model_map", "this worker's runner has no model that could be walked", lossy=True)

    def captured(self) -> None:
        """Caches by layer and the pool."""
        found = list(Caches(self.probe.host(Role.WORKER)).records())
        for record in found:
            self.probe.ledger(record)
        if not found:
            self.probe.note(
                "no_caches", "this worker has no KV caches, or keeps them where they were not found", lossy=True
            )


COLLECTOR = Collector(
    title="the loaded model: local shapes, quantisation, kernels and bytes by module, caches by layer",
    roles=(Role.WORKER,),
    make=ModelMap,
    seams=tuple(SEAMS),
    order=10,
)
