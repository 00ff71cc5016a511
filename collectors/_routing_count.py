"""Histograms on the device, without a synchronisation: added by kernels, copied behind them, read when the copy is over.

``bincount`` would wait for the device (it asks for the largest value); ``scatter_add_`` into a table of fixed size does
not, and may be captured into a graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from m3probe.collectors._routing_layers import PAD, Layer, bins

SLOTS = 4
"""Copies that may wait for the writer's thread at once; with none free a sample is left out."""
MOST_ROWS = 256
"""Rows of a call whose overlap is worked out: rows x top-k x top-k comparisons."""


def add(ids: Any, layer: Layer, table: Any, one: Any) -> None:
    """Count ids into the layer's row: four kernels.

    Args:
        ids: any shape, integers.
        layer: of them.
        table: int64, [layers, bins].
        one: int64, [1]; a one of the table's device, seen as often as there are ids.
    """
    # the sum is a tensor of its own, whatever the dtype: vLLM's ids are only read
    bin_of = (ids.reshape(-1) + (PAD + 1)).clamp_(PAD, layer.experts + layer.shared + 1).long()
    table[layer.row].scatter_add_(0, bin_of, one.expand(bin_of.shape[0]))


def shared_share(before: Any, after: Any) -> Any:
    """Mean share of the ids of ``before`` that ``after`` has in the same row; ids below zero are none.

    Args:
        before: [..., top-k] of one layer.
        after: the same of the next one.

    Returns:
        A tensor of no dimension, on their device.
    """
    valid = before >= 0
    hit = (before.unsqueeze(-1) == after.unsqueeze(-2)).any(-1) & valid
    return hit.sum() / valid.sum().clamp(min=1)


@dataclass(slots=True)
class Copy:
    """Tables on their way to the host. ``told``: by layer (rows, slots of a row, block), as the calls had them."""

    counts: Any
    shares: Any
    event: Any = None
    told: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    steps: int = 1

    def ready(self) -> bool:
        """The copy is over; asks and never waits."""
        return self.event is None or bool(self.event.query())


class Tables:
    """Counts and shares of one step at a time (or, captured, since the start), and host memory for their copies."""

    def __init__(self, layers: dict[int, Layer], device: Any) -> None:
        import torch

        pinned = getattr(device, "type", "cpu") == "cuda"
        rows, width = len(layers), bins(layers)
        self.counts = torch.zeros((rows, width), dtype=torch.int64, device=device)
        self.one = torch.ones((1,), dtype=torch.int64, device=device)
        self.shares = torch.full((rows,), -1.0, dtype=torch.float32, device=device)
        self.free = [
            Copy(
                torch.empty((rows, width), dtype=torch.int64, pin_memory=pinned),
                torch.empty((rows,), dtype=torch.float32, pin_memory=pinned),
                torch.cuda.Event() if pinned else None,
            )
            for _ in range(SLOTS)
        ]

    def clear(self) -> None:
        """Begin a step."""
        self.counts.zero_()
        self.shares.fill_(-1.0)

    def copy(self, told: dict[int, tuple[int, int, int]], steps: int) -> Copy | None:
        """Enqueue a copy behind what was enqueued so far; None where all are in use."""
        if not self.free:
            return None
        held = self.free.pop()
        held.counts.copy_(self.counts, non_blocking=True)
        held.shares.copy_(self.shares, non_blocking=True)
        if held.event is not None:
            held.event.record()
        held.told, held.steps = told, steps
        return held
