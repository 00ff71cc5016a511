"""MoRIIO, which has no statistics of its own in any version: bytes of its transfer calls, and writes per transfer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from m3probe.collectors._patch import around
from m3probe.schema import gates, records

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_TOLD = 256
"""Finished transfers told per second; the rest is summed up in a note."""
MOST_OPEN = 65_536


class Writes:
    """Writes scheduled, sealed and completed of each transfer, at the moment its blocks may be freed."""

    def __init__(self) -> None:
        self._scheduled: Counter[str] = Counter()
        self._done: deque[gates.Writes] = deque()
        self._probe: Probe | None = None

    def watch(self, probe: Probe) -> None:
        """Put the two hooks on."""
        self._probe, patches = probe, probe.patches
        probe.hook("kv_moriio_schedule", around(patches, "kv_moriio_schedule", after=self._schedule))
        made = around(patches, "kv_moriio_finalize", before=_notified, after=self._finalize)
        probe.hook("kv_moriio_finalize", made)

    def drain(self) -> Iterator[records.Gate]:
        """Transfers that ended since the last time."""
        done = [self._done.popleft() for _ in range(len(self._done))]
        if len(done) > MOST_TOLD and self._probe is not None:
            self._probe.note("writes_not_told", f"more than {MOST_TOLD} transfers ended within a second", lossy=True)
        if done:
            yield records.Gate(facts=gates.GateFacts(writes=tuple(done[:MOST_TOLD])), seam="kv_moriio_finalize")

    def _schedule(self, _token: Any, queued: Any, _writer: Any, task: Any) -> None:
        if queued and len(self._scheduled) < MOST_OPEN:
            self._scheduled[str(task.transfer_id)] += 1

    def _finalize(self, before: Any, _result: Any, _writer: Any, transfer_id: Any, request_info: Any) -> None:
        """``completion_notified`` turns True in the call after which the scheduler frees the blocks."""
        if before or not request_info.completion_notified:
            return
        scheduled = self._scheduled.pop(str(transfer_id), None)
        if scheduled is not None:  # else: scheduled before recording began
            sealed, completed = request_info.writes_expected, request_info.writes_done
            self._done.append(
                gates.Writes(
                    request=str(transfer_id), scheduled=scheduled, sealed=sealed, completed=completed, freed=True
                )
            )


def transfer_bytes(sizes: Any) -> int:
    """Of one call: a size, or the sizes of a batch."""
    return int(sizes) if isinstance(sizes, int) else sum(int(size) for size in sizes)


def _notified(_writer: Any, _transfer_id: Any, request_info: Any) -> bool:
    return bool(request_info.completion_notified)
