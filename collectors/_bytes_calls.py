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
from m3probe.collectors._patch import Make, Patches
from m3probe.schema import records

MOST_QUEUED = 200_000
MOST_SIZES = 16
"""Payload sizes told per second; eager prefill makes a new one each step, and the rest is summed."""


@dataclass(frozen=True, slots=True, eq=False)
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

    def swallows(self, inner: Kind) -> bool:
        """Whether ``inner``, called inside of this, is how this is done."""
        return self.whole or self.op == inner.op


class Call(NamedTuple):
    """What makes calls the same."""

    kind: Kind
    group: Any
    payload_bytes: int
    dtype: Any
    backend: str
    phase: str
    descriptor: int
    stage: Any


class _Frame:
    """A call that runs now in a thread."""

    __slots__ = ("backend", "kind")

    def __init__(self, kind: Kind) -> None:
        self.kind, self.backend = kind, kind.backend


class _Here(threading.local):
    """The innermost call of this thread."""

    frame: _Frame | None = None


class Calls:
    """Queues calls in vLLM's threads; ``drain`` counts them in ours.

    Its wrappers are its own and not ``_patch.around``'s: an eager step of a large model makes 120 calls, each through two
    of them, and what is done here by one function and a plain tuple costs 1.7 instead of 5.4 us a call (measured).
    """

    def __init__(self, patches: Patches) -> None:
        self.dropped = 0
        self._patches = patches
        self._queue: deque[tuple[Any, ...]] = deque()
        self._here = _Here()

    def watch(self, seam: str, kind: Kind) -> Make:
        """The wrapper of a collective's seam."""
        from torch.compiler import is_compiling

        here, on, fault = self._here, self._patches.switch(seam), self._patches.fault

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if is_compiling() or not on:
                    return original(*args, **kwargs)
                outer = here.frame
                here.frame = frame = _Frame(kind)
                try:
                    result = original(*args, **kwargs)
                finally:
                    here.frame = outer
                try:
                    self._seen(frame, outer, result, args, kwargs)
                except Exception as error:  # noqa: BLE001 - a guest never raises into its host
                    fault(seam, error)
                return result

            return wrapper

        return make

    def mark(self, seam: str, backend: str) -> Make:
        """The wrapper of a communicator's method: it is what carries the call around it."""
        from torch.compiler import is_compiling

        here, on = self._here, self._patches.switch(seam)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if not is_compiling() and on:
                    frame = here.frame
                    if frame is not None:
                        frame.backend = backend
                return original(*args, **kwargs)

            return wrapper

        return make

    def drain(self) -> list[records.Collective]:
        """Calls since the last time, counted."""
        counted = Counter(self._queue.popleft() for _ in range(len(self._queue))).most_common()
        told = [_record(Call(*call), count) for call, count in counted[:MOST_SIZES]]
        rest: dict[Call, list[int]] = {}
        for found, count in counted[MOST_SIZES:]:
            call = Call(*found)
            summed = rest.setdefault(call._replace(payload_bytes=-1), [0, 0])
            summed[0] += count
            summed[1] += count * call.payload_bytes
        return told + [_record(call, count, total) for call, (count, total) in rest.items()]

    def _seen(
        self, frame: _Frame, outer: _Frame | None, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        kind = frame.kind
        if kind.refuses and result is None:
            return
        if outer is not None and outer.kind.swallows(kind):
            outer.backend = outer.backend or frame.backend
            return
        group = args[0] if kind.group is None else kind.group()
        if group.world_size == 1:
            return
        payload, dtype = tensor_bytes(_held(kind, result, args, kwargs))
        if len(self._queue) >= MOST_QUEUED:
            self.dropped += 1
            return
        now = NOW
        self._queue.append((kind, group, payload, dtype, frame.backend, now.phase, now.descriptor, now.stage))


def _held(kind: Kind, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the payload is in."""
    if kind.payload == "result":
        return result
    first = 1 if kind.method else 0
    if kind.payload == "first" and len(args) > first:
        return args[first]
    given = (*args[first:], *kwargs.values())
    return given if kind.payload == "args" else given[:1]


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
    kind, group = call.kind, call.group
    return records.Collective(
        op=kind.op,
        group=str(getattr(group, "unique_name", "")),
        payload_bytes=call.payload_bytes,
        payload_sum_bytes=total,
        dtype=str(call.dtype or "").removeprefix("torch."),
        backend=call.backend or _by_default(group, kind),
        ranks=group.world_size,
        fused=kind.fused,
        phase=call.phase,
        descriptor=call.descriptor,
        stage=call.stage,
        count=count,
    )
