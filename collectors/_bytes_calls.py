"""Collectives as they are called: operation, group, payload, and the backend by what ran inside.

One frame per call and thread. A call inside another one counts where it moves something else (an all-gather that a
pipeline receive makes), and not where it is how the outer one is done (``dispatch`` by ``all_gatherv``, a fused op that
falls back inside).
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from m3probe.collectors._now import NOW
from m3probe.schema import records

MOST_QUEUED = 200_000
MOST_SIZES = 16
"""Payload sizes told per second; eager prefill makes a new one each step, and the rest is summed."""


class Call(NamedTuple):
    """What makes calls the same."""

    op: str
    group: str
    payload_bytes: int
    dtype: Any
    backend: str
    ranks: int
    fused: bool
    phase: str
    descriptor: int
    stage: Any


@dataclass(frozen=True, slots=True)
class Kind:
    """How one seam is read.

    Args:
        op: the operation's name.
        payload: where its tensors are: ``first`` argument, all ``args``, or the ``result``.
        whole: what is called inside belongs to it.
        fused: it does more than communicate.
        refuses: a result of None means that it did nothing (AITER's).
        group: finds the coordinator, where the seam is no method of it.
        method: its first argument is ``self``.
        backend: where the seam itself says it.
    """

    op: str
    payload: str = "first"
    whole: bool = False
    fused: bool = False
    refuses: bool = False
    group: Callable[[], Any] | None = None
    method: bool = True
    backend: str = ""


@dataclass(slots=True, eq=False)
class Frame:
    """A call that runs now in this thread."""

    kind: Kind
    step: int
    outer: Frame | None
    backend: str = ""


class Calls:
    """Queues calls in vLLM's threads; ``drain`` counts them in ours."""

    def __init__(self) -> None:
        self.dropped = 0
        self._queue: deque[Call] = deque()
        self._here = threading.local()

    def hooks(self, kind: Kind) -> tuple[Callable[..., Any], Callable[..., None]]:
        """``before`` and ``after`` of a collective's seam."""

        def before(*_args: Any, **_kwargs: Any) -> Frame:
            outer = getattr(self._here, "frame", None)
            if outer is not None and outer.step != NOW.step:
                outer = None  # vLLM's function raised in an earlier step: its frame was never closed
            frame = self._here.frame = Frame(kind, NOW.step, outer, kind.backend)
            return frame

        def after(frame: Frame | None, result: Any, *args: Any, **kwargs: Any) -> None:
            if frame is None:
                return
            outer = self._here.frame = frame.outer
            if kind.refuses and result is None:
                return
            if outer is not None and (outer.kind.whole or outer.kind.op == kind.op):
                outer.backend = outer.backend or frame.backend
                return
            self._seen(frame, result, args, kwargs)

        return before, after

    def backend(self, name: str) -> Callable[..., None]:
        """``before`` of a communicator's method: it is what carries the call around it."""

        def mark(*_args: Any, **_kwargs: Any) -> None:
            frame = getattr(self._here, "frame", None)
            if frame is not None:
                frame.backend = name

        return mark

    def drain(self) -> list[records.Collective]:
        """Calls since the last time, counted."""
        counted = Counter(self._queue.popleft() for _ in range(len(self._queue)))
        told = [_record(call, count) for call, count in counted.most_common(MOST_SIZES)]
        rest: dict[Call, list[int]] = {}
        for call, count in counted.most_common()[MOST_SIZES:]:
            summed = rest.setdefault(call._replace(payload_bytes=-1), [0, 0])
            summed[0] += count
            summed[1] += count * call.payload_bytes
        return told + [_record(call, count, total) for call, (count, total) in rest.items()]

    def _seen(self, frame: Frame, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kind = frame.kind
        group = args[0] if kind.group is None else kind.group()
        ranks = getattr(group, "world_size", -1)
        if ranks == 1:
            return
        given = (*(args[1:] if kind.method else args), *kwargs.values())
        held = result if kind.payload == "result" else given[:1] if kind.payload == "first" else given
        payload, dtype = tensor_bytes(held)
        if len(self._queue) >= MOST_QUEUED:
            self.dropped += 1
            return
        name = getattr(group, "unique_name", "")
        backend = frame.backend or _by_default(group, kind)
        self._queue.append(
            Call(kind.op, name, payload, dtype, backend, ranks, kind.fused, NOW.phase, NOW.descriptor, NOW.stage)
        )


def tensor_bytes(held: Any) -> tuple[int, Any]:
    """(bytes of the tensors in it, dtype of the first); lists, tuples and dicts are gone through, other values are nothing."""
    size = getattr(held, "nbytes", None)
    if size is not None:
        return int(size), held.dtype
    parts = held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else ()
    total, dtype = 0, None
    for part in parts:
        size, kind = tensor_bytes(part)
        total, dtype = total + size, dtype or kind
    return total, dtype


def tensor_parallel() -> Any:
    """The tensor-parallel coordinator; None before there is one."""
    return getattr(sys.modules.get("vllm.distributed.parallel_state"), "_TP", None)


def _by_default(group: Any, kind: Kind) -> str:
    """No communicator of vLLM's ran inside: the all-to-all manager of experts did it, else ``torch.distributed``."""
    if kind.whole and kind.group is None:
        manager = getattr(getattr(group, "device_communicator", None), "all2all_manager", None)
        if manager is not None:
            return type(manager).__name__
    return f"torch:{getattr(group, 'torch_distributed_backend', '')}".rstrip(":")


def _record(call: Call, count: int, total: int = -1) -> records.Collective:
    return records.Collective(
        op=call.op,
        group=call.group,
        payload_bytes=call.payload_bytes,
        payload_sum_bytes=total,
        dtype=str(call.dtype or "").removeprefix("torch."),
        backend=call.backend,
        ranks=call.ranks,
        fused=call.fused,
        phase=call.phase,
        descriptor=call.descriptor,
        stage=call.stage,
        count=count,
    )
