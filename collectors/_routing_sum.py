"""Sums of the sampled steps, and the records they become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from m3probe.collectors._routing_count import Copy
from m3probe.collectors._routing_layers import PAD, Layer
from m3probe.schema.gates import GateFacts, RoutedRows
from m3probe.schema.records import Gate, Routing


@dataclass(slots=True)
class LayerSum:
    """One layer over the sampled steps since the last record. ``padded`` is -1 once a step has no known block."""

    layer: Layer
    steps: int = 0
    rows: int = 0
    slots: int = -1
    counts: list[int] = field(default_factory=list)
    padded: int = 0
    shares: list[float] = field(default_factory=list)


class Sums:
    """All layers. ``derived``: rows are worked out from the counts, so that nothing is checked by them."""

    def __init__(self, layers: dict[int, Layer], *, derived: bool) -> None:
        self._layers = sorted(layers.values(), key=lambda layer: layer.row)
        self._derived = derived
        self._sums: dict[int, LayerSum] = {}
        self._last: dict[int, RoutedRows] = {}
        self._before: list[list[int]] = []

    def take(self, copy: Copy) -> None:
        """One copy that has arrived."""
        tables, shares = copy.counts.tolist(), copy.shares.tolist()
        if self._derived:  # these counts are since the start: what is new is the difference, the first copy the base
            before, self._before = self._before, tables
            if not before:
                return
            tables = [[new - old for new, old in zip(*rows, strict=True)] for rows in zip(tables, before, strict=True)]
        for layer in self._layers:
            if layer.row in copy.told:
                self._add(layer, tables[layer.row], shares[layer.row], copy)

    def records(self) -> Iterator[Routing | Gate]:
        """What was summed, and the facts of the last step for ``token_conservation``; begins anew."""
        sums, self._sums = self._sums, {}
        for held in sums.values():
            yield _routing(held)
        last, self._last = self._last, {}
        if last:
            yield Gate(facts=GateFacts(routed=tuple(last.values())), seam="route_experts")

    def _add(self, layer: Layer, counts: list[int], share: float, copy: Copy) -> None:
        rows, slots, block = copy.told[layer.row]
        last = layer.experts + layer.shared
        pad, known, wrong = counts[PAD], counts[1 : last + 1], counts[last + 1]
        real = (sum(known) + wrong) // slots if self._derived else rows - pad // slots
        if not real and not sum(counts):
            return
        held = self._sums.setdefault(layer.row, LayerSum(layer))
        held.steps, held.rows, held.slots = held.steps + copy.steps, held.rows + real, slots
        held.counts = [a + b for a, b in zip(held.counts or [0] * len(known), known, strict=True)]
        blocks = sum(-(-count // block) * block for count in known) if block > 0 and not self._derived else -1
        held.padded = -1 if blocks < 0 or held.padded < 0 else held.padded + blocks
        if share >= 0:
            held.shares.append(share)
        if layer.experts and not self._derived:
            self._last[layer.row] = RoutedRows(layer.name, real, slots, sum(known))


def _routing(held: LayerSum) -> Routing:
    layer = held.layer
    return Routing(
        layer=layer.name,
        steps=held.steps,
        rows=held.rows,
        top_k=held.slots,
        experts=tuple(held.counts[: layer.experts]),
        shared=sum(held.counts[layer.experts :]) if layer.shared else -1,
        padded=held.padded,
        overlap_next=sum(held.shares) / len(held.shares) if held.shares else None,
    )
