"""Facts for correctness gates that a loaded worker can tell, once after load: what each gate makes of them is judged elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from m3probe.collectors import _gates_facts as facts_of
from m3probe.collectors._gates_kv import kv
from m3probe.collectors._gates_loaded import Loaded
from m3probe.collectors._modules_look import get
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around, in_words
from m3probe.collectors._seams.gates import SEAMS
from m3probe.schema.gates import FusedParam, GateFacts
from m3probe.schema.records import Gate
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe


class Gates(Part):
    """Watches the loaders while weights are loaded, and looks at the worker when its caches are there."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._loaded = Loaded()
        self._fused: tuple[FusedParam, ...] | None = None

    def early(self) -> None:
        """Parameters keep the loader of their layer from when they are made: the hooks come before."""
        for seam in SEAMS:
            after = self._loaded.experts if seam == "load_experts" else self._loaded.linear
            self.probe.hook_when_loaded(seam, around(self.probe.patches, seam, after=after))

    def loaded(self) -> None:
        """All weights have come."""
        self.probe.unhook(*SEAMS)
        self._fused = self._loaded.params()

    def captured(self) -> None:
        """One record with all that was found; what cannot be looked at stays None."""
        worker = facts_of.Worker(self.probe.host(Role.WORKER))
        facts = GateFacts(
            gfx=self.probe.process().gfx or None,
            kv=self._look("kv", lambda: kv(worker)),
            fused=self._fused,
            activation=self._look("activation", lambda: facts_of.activation(worker)),
            masks=self._look("masks", lambda: facts_of.masks(worker)),
            experts=self._look("experts", lambda: facts_of.experts(worker)),
            groups=self._look("groups", lambda: facts_of.groups(worker)),
            blocks=self._look("blocks", lambda: facts_of.blocks(worker)),
            caches=self._look("caches", lambda: facts_of.caches(worker, connector())),
            topk=self._look("topk", lambda: facts_of.topk(worker)),
            workers=self._look("workers", lambda: facts_of.workers(worker)),
        )
        self.probe.ledger(Gate(facts=facts, seam="after load"))

    def _look(self, name: str, look: Callable[[], Any]) -> Any:
        """One fact; an object of another shape than the releases have costs this fact alone."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001 - see above
            self.probe.note("gate_fact", f"{name}: {in_words(error)}", about=name)
            return None


def connector() -> Any:
    """This worker's KV connector; None without one."""
    return get(sys.modules.get("vllm.distributed.kv_transfer.kv_transfer_state"), "_KV_CONNECTOR_AGENT")


COLLECTOR = Collector(
    title="facts for correctness gates: cache dtypes, loaded slices, expert masks, attention groups, block sizes",
    roles=(Role.WORKER,),
    make=Gates,
    seams=tuple(SEAMS),
    order=20,
)
