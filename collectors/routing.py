"""Rows per expert of each MoE layer, in samples of eager steps; on request, overlap between neighbouring layers.

A sample is one step in ``M3PROBE_ROUTING_EVERY`` (100). Nothing waits for the device: ids are added into a table by
kernels, the table is copied behind them, and read when the copy is over. Rows that replayed graphs route are seen only if
the additions were captured with them: with ``M3PROBE=1`` and ``M3PROBE_ROUTING=1`` at start-up. Those counts include rows
of padding, and the captured kernels stay until the server ends.

Measured on an H200 (57 layers, 64 rows, top-5): a sampled step costs 3.6 ms of launches, a captured one 0.37 ms of kernels.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from m3probe.collectors._dispatch_look import is_compiled
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around
from m3probe.collectors._routing_count import Tables
from m3probe.collectors._routing_layers import Layer, layers_of, sparse_layers_of
from m3probe.collectors._routing_sum import Sums
from m3probe.collectors._routing_taps import Taps
from m3probe.collectors._seams.routing import SEAMS
from m3probe.schema.roles import Level, Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

ASKED, EVERY, OVERLAP = "M3PROBE_ROUTING", "M3PROBE_ROUTING_EVERY", "M3PROBE_OVERLAP"
MOST_BETWEEN_S = 30
"""Between two records of a layer (57 layers of 128 experts are 23 kB); a second after the first, two after the second."""
LAYER_SEAMS = ("route_experts", "route_align")

_CAPTURED: list[Tables] = []
"""Tables that captured kernels write to: graphs hold their addresses, so they live as long as the process."""


class Routes(Part):
    """Samples while recording."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._taps: Taps | None = None
        self._captured: Taps | None = None
        self._sums: Sums | None = None
        self._next, self._told = 0.0, 0

    def loaded(self) -> None:
        """Before graphs are captured: put the additions into them, where that was asked for."""
        asked = os.environ.get(ASKED) == "1" and self.probe.level is Level.ARMED and not self.probe.late
        if not asked or self._graphs() == "NONE":
            return
        taps = self._made(captured=True)
        if taps is not None:
            _CAPTURED.append(taps.tables)
            self._captured = taps
            self._hook("route_experts", before=taps.routes)

    def captured(self) -> None:
        """Capture is over; what was added by warm-up and capture is none of a step's."""
        self.probe.unhook(*LAYER_SEAMS)
        if self._captured is not None:
            self._captured.tables.clear()

    def arm(self) -> None:
        """Sample from now on: a recording of start-up always does, ``attach`` where it is asked to."""
        if not self.probe.options.routing and self.probe.options.owner:
            return
        taps = self._taps = self._captured or self._made(captured=False)
        if taps is None:
            return
        self._sums, self._next = Sums(taps.layers, derived=taps.captured), 0.0
        self._told = 0
        self._hook("route_experts", before=taps.routes, after=taps.routed)
        self._hook("route_step", before=taps.begins, after=taps.ends)
        if not taps.captured:
            self._hook("route_align", before=taps.aligns)
        if any(not layer.experts for layer in taps.layers.values()):
            for seam in ("route_blocks_triton", "route_blocks_aiter"):
                self._hook(seam, after=taps.chooses)
        self._tell_unseen(taps)

    def tick(self) -> None:
        """Take what has arrived; records at once for the first sample, then ever more seldom."""
        if self._taps is not None and self._sums is not None:
            self._take(self._taps, self._sums)
            if time.monotonic() >= self._next:
                self._put()

    def disarm(self) -> None:
        """What has arrived is told; a copy that is still under way is not waited for."""
        if self._taps is not None and self._sums is not None:
            self._take(self._taps, self._sums)
            self._put()
        self._taps = self._sums = None

    def _take(self, taps: Taps, sums: Sums) -> None:
        while taps.done and taps.done[0].ready():
            copy = taps.done.popleft()
            sums.take(copy)
            taps.tables.free.append(copy)

    def _put(self) -> None:
        told = list(self._sums.records()) if self._sums is not None else []
        for record in told:
            self.probe.put(record)
        if told:
            self._told += 1
            self._next = time.monotonic() + min(self._told, MOST_BETWEEN_S)

    def _made(self, *, captured: bool) -> Taps | None:
        worker = self.probe.host(Role.WORKER)
        model = getattr(getattr(worker, "model_runner", None), "model", None)
        if model is None:
            return None
        layers, monolithic = layers_of(model)
        if monolithic:
            text = f"{len(monolithic)} MoE layers route inside of their kernel: not seen"
            self.probe.note("routing_monolithic", text, lossy=True)
        overlap = not captured and (self.probe.options.overlap or os.environ.get(OVERLAP) == "1")
        if overlap:
            layers |= sparse_layers_of(model, len(layers))
        return self._taps_for(layers, worker, overlap=overlap, captured=captured) if layers else None

    def _taps_for(self, layers: dict[int, Layer], worker: Any, *, overlap: bool, captured: bool) -> Taps:
        every = os.environ.get(EVERY, "")
        return Taps(
            layers,
            Tables(layers, getattr(worker, "device", None)),
            int(every) if every.isdecimal() and int(every) else 100,
            overlap=overlap,
            captured=captured,
        )

    def _hook(self, seam: str, **calls: Any) -> None:
        self.probe.hook(seam, around(self.probe.patches, seam, traced=True, **calls))

    def _graphs(self) -> str:
        """The graph mode in force."""
        config = getattr(getattr(self.probe.host(Role.WORKER), "vllm_config", None), "compilation_config", None)
        return str(getattr(getattr(config, "cudagraph_mode", None), "name", "NONE"))

    def _tell_unseen(self, taps: Taps) -> None:
        worker, mode = self.probe.host(Role.WORKER), self._graphs()
        if taps.captured:
            self.probe.note("routing_captured", "rows per expert include the rows of padding of each replay")
        elif mode != "NONE":
            text = (
                f"rows routed by replayed graphs ({mode}) are not seen; M3PROBE=1 {ASKED}=1 at start-up captures them"
            )
            self.probe.note("routing_graphs", text, lossy=True)
        model = getattr(getattr(worker, "model_runner", None), "model", None)
        if getattr(getattr(worker, "device", None), "type", "") == "cpu" and model is not None and is_compiled(model):
            self.probe.note(
                "routing_compiled", "on this platform compiled code holds the experts: not seen", lossy=True
            )


COLLECTOR = Collector(
    title="routing: rows per expert of each MoE layer, sampled; overlap of neighbouring layers on request",
    roles=(Role.WORKER,),
    make=Routes,
    seams=tuple(SEAMS),
    order=60,
)
