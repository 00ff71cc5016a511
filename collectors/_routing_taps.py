"""What the hooks of routing do in vLLM's thread: nothing on most steps, a few kernels per layer on a sampled one."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from m3probe.collectors._dispatch_read import capturing, given
from m3probe.collectors._routing_count import MOST_ROWS, Copy, Tables, add, shared_share
from m3probe.collectors._routing_layers import Layer


class Taps:
    """One sample at a time.

    Args:
        layers: MoE layers, and sparse layers where overlap is asked for, by the id of their module.
        tables: where they are counted.
        every: steps between two samples.
        overlap: also work out the share that neighbouring layers have in common.
        captured: the additions are in the graphs too, so they are made in every step and never cleared.
    """

    def __init__(self, layers: dict[int, Layer], tables: Tables, every: int, *, overlap: bool, captured: bool) -> None:
        self.layers, self.tables, self.every, self.captured = layers, tables, every, captured
        self.done: deque[Copy] = deque()
        self._overlap = overlap and not captured
        self._since = every
        self._on = captured
        self._told: dict[int, tuple[int, int, int]] = {}
        self._current = -1
        self._before: tuple[int, Any] | None = None
        self._blocks: tuple[int, Any] | None = None

    # -- the step ------------------------------------------------------------------------------------------------

    def begins(self, *args: Any, **kwargs: Any) -> None:
        """A sample is due, and there is room for its copy: the next step with an eager MoE layer is one."""
        self._since += bool(getattr(given(args, kwargs, 1, "scheduler_output"), "total_num_scheduled_tokens", 1))
        if not self.captured and self._since >= self.every and self.tables.free:
            self._on, self._told, self._before, self._blocks = True, {}, None, None
            self.tables.clear()

    def ends(self, *_args: Any, **_kwargs: Any) -> None:
        """Enqueue the copy."""
        if not self._on or not self._told or (self.captured and self._since < self.every):
            return
        held = self.tables.copy(dict(self._told), self._since if self.captured else 1)
        if held is not None:
            self.done.append(held)
            self._since = 0
        if not self.captured:
            self._on, self._told, self._before, self._blocks = False, {}, None, None

    # -- a layer -------------------------------------------------------------------------------------------------

    def routes(self, *args: Any, **kwargs: Any) -> None:
        """Rows and the experts of each, before they are computed."""
        layer = self.layers.get(id(args[0])) if self._on else None
        if layer is None or (not self.captured and capturing()):
            return
        ids = given(args, kwargs, 3, "topk_ids")
        add(ids, layer, self.tables.counts, self.tables.one)
        rows = 0 if self.captured else self._told.get(layer.row, (0, 0, 0))[0]
        self._told[layer.row] = (rows + int(ids.shape[0]), int(ids.shape[-1]), -1)
        self._current = layer.row
        if self._overlap:
            self._before = self._compare(self._before, layer.row, ids[:MOST_ROWS])

    def routed(self, *_args: Any, **_kwargs: Any) -> None:
        """The layer is over."""
        self._current = -1

    def aligns(self, *args: Any, **kwargs: Any) -> None:
        """Its kernel pads each expert's rows to blocks."""
        told = self._told.get(self._current)
        if told is not None:
            self._told[self._current] = (told[0], told[1], int(given(args, kwargs, 1, "block_size")))

    def chooses(self, _token: Any, _result: Any, *args: Any, **kwargs: Any) -> None:
        """A sparse layer has attended: the blocks that its indexer chose are in the shared buffer."""
        module = given(args, kwargs, 1, "layer")
        layer = self.layers.get(id(module)) if self._on and self._overlap and not capturing() else None
        rows = tokens_of(module) if layer is not None else 0
        if layer is None or not rows:
            return
        buffer, few = module.topk_indices_buffer, min(rows, MOST_ROWS)
        by_head = buffer.shape[0] == module.num_idx_heads
        chosen = (buffer[:, :few] if by_head else buffer[:few]).clone()
        self._told[layer.row] = (rows, int(buffer.shape[-1]), -1)
        self._blocks = self._compare(self._blocks, layer.row, chosen)

    def _compare(self, before: tuple[int, Any] | None, row: int, ids: Any) -> tuple[int, Any]:
        if before is not None and before[1].shape == ids.shape:
            self.tables.shares[before[0]].copy_(shared_share(before[1], ids))
        return row, ids


def tokens_of(module: Any) -> int:
    """Tokens of the step that runs now, as the layer's metadata has them; 0 in a profiling run."""
    context = getattr(sys.modules.get("vllm.forward_context"), "_forward_context", None)
    found = getattr(context, "attn_metadata", None)
    metadata = found.get(module.layer_name) if isinstance(found, dict) else None
    return int(getattr(metadata, "num_actual_tokens", 0))
