"""One module against float32, on request: its real input at the next eager step, recomputed from the same parameters.

In the step the first rows of input and output are copied on the device, nothing else; the reference is computed on the host
in a thread of its own. A replayed graph calls no module: without an eager step there is no verdict, and that is said.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from m3probe.collectors._modules import kind_of
from m3probe.collectors._modules_look import get, is_a, models, number
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import in_words
from m3probe.collectors._quant import Unknown
from m3probe.collectors._seams.verify import SEAMS
from m3probe.collectors._verify_catch import Catch
from m3probe.collectors._verify_compare import CANNOT, Empty, check, verified
from m3probe.schema import control
from m3probe.schema.gates import Cosine, GateFacts
from m3probe.schema.records import Gate, Verified
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

PATIENCE_S = 55.0
"""Until the next eager step; below the wait of ``m3probe verify`` itself."""
MOST_TRIES = 20
"""Steps whose rows were all zero or tied (dummy batches) before it is given up."""


class Verify(Part):
    """At most one module at a time."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._name, self._kind = "", ""
        self._module: Any = None
        self._catch: Catch | None = None
        self._until, self._tries = 0.0, 0
        self._lock = threading.Lock()

    def ask(self, message: control.Ask) -> control.Answer | None:
        """Arm the module's seam; a module that cannot be recomputed is answered (and recorded) at once."""
        if not isinstance(message, control.Verify):
            return None
        if not self.probe.recording:
            return control.Refused(text="nothing is recorded here", next_move="Arm it with a folder first")
        module = self._find(message.module)
        if module is None:
            return control.Refused(text=f"no module {message.module!r} here{self._near(message.module)}")
        with self._lock:
            if self._catch is not None:
                return control.Refused(text=f"{self._name} is being verified", next_move="Ask again when it is done")
            return self._begin(message.module, module)

    def tick(self) -> None:
        """Hand a caught call over to the reference's thread, or say that none came."""
        with self._lock:
            catch = self._catch
            if catch is None:
                return
            if catch.done.is_set():
                catch.leave()
                self._catch = None
                threading.Thread(target=self._judge, args=(catch,), name="m3probe-verify", daemon=True).start()
            elif time.monotonic() >= self._until:
                self._give_up(f"no step ran this module outside of a graph within {PATIENCE_S:.0f} s")

    def disarm(self) -> None:
        """Recording has ended: the hook comes off with the others."""
        with self._lock:
            self._catch, self._module = None, None

    def _begin(self, name: str, module: Any) -> control.Answer:
        self._name, self._module, self._kind = name, module, "router" if is_a(module, "GateLinear") else kind_of(module)
        try:
            catch = Catch(self.probe, module, self._kind)
            check(module, self._kind)
        except Unknown as why:
            return self._cannot(str(why))
        if not catch.stand():
            return self._cannot(f"{catch.seam} is not in this vLLM")
        self._catch, self._until, self._tries = catch, time.monotonic() + PATIENCE_S, 0
        return control.Done(text=f"{name} is recomputed at the next eager step")

    def _judge(self, catch: Catch) -> None:
        name, module, kind = self._name, self._module, self._kind
        try:
            if module is not None and catch.caught is not None:
                self._tell(verified(name, module, kind, catch.caught))
        except Empty:
            self._again()
        except Exception as error:  # noqa: BLE001 - memory, a layout of another release: told, never raised
            self.probe.put(Verified(module=name, state=CANNOT, text=f"{CANNOT}: {in_words(error)}"))

    def _tell(self, found: Verified) -> None:
        """The verdict, and its cosine as a fact for the gate that asks for one."""
        self.probe.put(found)
        if found.cosine is not None:
            rank = number(self.probe.host(Role.WORKER), "rank")
            cosine = Cosine(name=f"{found.module}, rank {rank}", value=found.cosine)
            self.probe.put(Gate(facts=GateFacts(cosines=(cosine,)), seam="verify"))

    def _again(self) -> None:
        with self._lock:
            self._tries += 1
            if self._module is None:
                return
            if self._tries >= MOST_TRIES or time.monotonic() >= self._until:
                self._give_up(f"{self._tries} steps had rows of zeros or ties alone")
                return
            self._catch = Catch(self.probe, self._module, self._kind)
            self._catch.stand()

    def _give_up(self, why: str) -> None:
        if self._catch is not None:
            self._catch.leave()
        self._catch = None
        self._cannot(why)

    def _cannot(self, why: str) -> control.Answer:
        text = f"{CANNOT}: {why}"
        self.probe.put(Verified(module=self._name, state=CANNOT, text=text))
        return control.Done(text=text)

    def _find(self, name: str) -> Any:
        for model, _draft in models(self.probe.host(Role.WORKER)):
            found = dict(model.named_modules()).get(name)
            if found is not None:
                return found
        return None

    def _near(self, name: str) -> str:
        from difflib import get_close_matches

        names = [
            n
            for model, _draft in models(self.probe.host(Role.WORKER))
            for n, m in model.named_modules()
            if _has_kind(m)
        ]
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        return f" (did you mean {near[0]!r}?)" if near else ""


def _has_kind(module: Any) -> bool:
    return get(module, "named_modules") is not None and kind_of(module) != "other"


COLLECTOR = Collector(
    title="verify: one module recomputed in float32 from its own parameters, on request",
    roles=(Role.WORKER,),
    make=Verify,
    seams=tuple(SEAMS),
    order=80,
)
