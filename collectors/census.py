"""What captured graphs hold (``M3PROBE_CENSUS=1``): a profiler window around each descriptor's capture, at start-up only.

Times a replay's count it proves execution without one kernel record of the replay. Off by default: it costs start-up (H200,
torch 2.11: 5 s for the first window, which starts CUPTI, then 3 ms each for a graph of 24 kernels). On CUDA launches name no
kernel, so the graph's nodes are read before its capture ends (0.4 ms for 13, 8 ms for 1,500); where the driver does not tell
them there is a note, and no further window. A graph that is captured twice (vLLM 0.32 and 0.33 capture a sample first, to estimate
memory) keeps its last census. A draft model's graphs have descriptor -1: drafts share the target's descriptors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from m3probe.collectors._census_window import CaptureWindow
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around, in_words
from m3probe.collectors._seams import SEAMS
from m3probe.schema import records
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._census_reduce import Reduced
    from m3probe.collectors._probe import Probe

SWITCH = "M3PROBE_CENSUS"
V1, V2, END = "census_v1", "census_v2", "census_end"
MOST_TEXT = 200
"""Of a descriptor, as its record has it."""
Key = tuple[bool, str, str]
"""Whether a draft model is captured, graph mode, descriptor in words."""


class Census(Part):
    """Watches capture in the worker; nothing of it stands once the server is up."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._window = CaptureWindow()
        self._found: dict[Key, Reduced] = {}
        self._capturing: Key | None = None
        self._over = self._no_nodes = ""

    def loaded(self) -> None:
        """Put the hooks on where a census was asked for and can be taken."""
        if os.environ.get(SWITCH) != "1":
            return
        worker = self.probe.host(Role.WORKER)
        self._over = self._why_not(worker)
        if self._over:
            self.probe.note("no_census", self._over, lossy=True)
            return
        before, after = self._v1_begins, lambda *_args, **_names: self._close()
        for seam, make in ((V2, self._v2), (V1, around(self.probe.patches, V1, before=before, after=after))):
            if SEAMS[seam].module in sys.modules:
                self.probe.hook(seam, make)
        if getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None):
            self.probe.hook(END, around(self.probe.patches, END, before=lambda *_args, **_names: self._read()))

    def captured(self) -> None:
        """Write what was found; take the hooks off."""
        self._close()
        self.probe.unhook(V1, V2, END)
        numbers = {(d.mode, d.text): d.id for d in self.probe.told(records.Descriptor)}
        for (draft, mode, text), held in self._found.items():
            descriptor = -1 if draft else numbers.get((mode, text), -1)
            source = f"{'draft ' if draft else ''}{mode} {text}"
            for piece, kernels in enumerate(held.graphs):
                self.probe.ledger(records.Census(descriptor=descriptor, piece=piece, kernels=kernels, source=source))
        if self._found:
            spent = self._window.spent_ns / 1e9
            self.probe.note("census", f"the census of {len(self._found)} descriptors took {spent:.1f} s of start-up")
        self._found = {}

    def _why_not(self, worker: Any) -> str:
        if self.probe.late:
            return "the probe came after capture: no census until a restart"
        if getattr(getattr(worker, "device", None), "type", "") != "cuda":
            return "no graphs are captured on this device"
        config = getattr(getattr(worker, "vllm_config", None), "profiler_config", None)
        for flag in ("capture_torch_profiler", "proton_graph_attribution"):
            if getattr(config, flag, False):
                return f"vLLM profiles the capture itself ({flag}), and there is one profiler at a time"
        return ""

    # -- in the thread that captures -----------------------------------------------------------------------------

    def _v1_begins(self, _runner: Any, desc: Any, cudagraph_runtime_mode: Any, *_args: Any, **_names: Any) -> None:
        self._open((False, cudagraph_runtime_mode.name, str(desc)[:MOST_TEXT]))

    def _v2(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the factory that vLLM asks per descriptor: once before its warm-up, once before its capture."""

        def wrapper(manager: Any, create_forward_fn: Any, *args: Any, **names: Any) -> Any:
            def watched(desc: Any, *more: Any, **named: Any) -> Any:
                self._close()
                made = create_forward_fn(desc, *more, **named)
                warmup = named["warmup"] if "warmup" in named else bool(more and more[0])
                self._guarded(lambda: self._v2_begins(manager, desc, warmup))
                return made

            try:
                return original(manager, watched, *args, **names)
            finally:
                self._close()

        return wrapper

    def _v2_begins(self, manager: Any, desc: Any, warmup: bool) -> None:
        # Compiled pieces are captured by the second call of the warm-up's function; all others get one of their own.
        pieces = desc.cg_mode.name == "PIECEWISE" and not getattr(manager, "use_breakable_cg", False)
        if pieces or not warmup:
            runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
            draft = manager is not getattr(runner, "cudagraph_manager", manager)
            self._open((draft, desc.cg_mode.name, str(desc)[:MOST_TEXT]))

    def _open(self, key: Key) -> None:
        if not self._over and not self._window.running:
            self._guarded(self._window.open)
            self._capturing = key

    def _close(self) -> None:
        if self._window.running:
            self._guarded(self._keep)

    def _read(self) -> None:
        """The kernels of the graph whose capture is about to end; the capture goes on without where that fails."""
        if self._window.running and not self._no_nodes:
            try:
                self._window.read_nodes()
            except Exception as error:  # noqa: BLE001 - as in ``_guarded``
                self._no_nodes = in_words(error)

    def _keep(self) -> None:
        held = self._window.close()
        unnamed = held.unnamed
        if unnamed and self._window.nodes and not self._no_nodes:
            held, bare = held.with_nodes(self._window.nodes)
            unnamed = 0
            if bare:
                self.probe.note(
                    "census_part", "some captured kernels have no operator: their launches are not told apart"
                )
        held = held.named()
        if unnamed and not any(held.graphs):
            why = self._no_nodes or "no end of a capture was seen"
            self._stop(f"launches inside of a capture name no kernel here (CUDA), nor do the graph's nodes: {why}")
        elif held.graphs and self._capturing is not None:
            self._found[self._capturing] = held
            if unnamed:
                self.probe.note("census_part", "some launches inside of captures name no kernel", lossy=True)

    def _guarded(self, act: Callable[[], None]) -> None:
        """Nothing of ours is raised into a capture; after an error there is no further window."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - see above
            self._stop(f"the census ended: {in_words(error)}")

    def _stop(self, why: str) -> None:
        self._over = why
        self.probe.note("no_census", why, lossy=True)


COLLECTOR = Collector(
    title="What captured graphs hold: kernels, shapes and grids in launch order (M3PROBE_CENSUS=1)",
    roles=(Role.WORKER,),
    make=Census,
    seams=(V1, V2, END),
    order=90,
)
