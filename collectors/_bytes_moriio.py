"""MoRIIO, which has no statistics of its own in any version: bytes of its calls, writes and acknowledgements per transfer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from m3probe.collectors._patch import around
from m3probe.schema import gates, records
from m3probe.schema.roles import Role

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


class Acks:
    """Acknowledgements that this producer rank got for each transfer until it freed the blocks."""

    def __init__(self) -> None:
        self._got: Counter[str] = Counter()
        self._freed: deque[tuple[int, int, int]] = deque(maxlen=MOST_OPEN)
        self._rank = -1

    def watch(self, probe: Probe) -> None:
        """Put the hook on."""
        self._rank = getattr(probe.host(Role.WORKER), "rank", -1)
        made = around(probe.patches, "kv_moriio_ack", before=_open, after=self._resolved)
        probe.hook("kv_moriio_ack", made)

    def drain(self) -> Iterator[records.Gate]:
        """What transfers that were freed since the last time had got; equal ones once."""
        freed = {self._freed.popleft() for _ in range(len(self._freed))}
        if freed:
            told = tuple(gates.Acks(self._rank, *one) for one in sorted(freed))
            yield records.Gate(facts=gates.GateFacts(acks=told), seam="kv_moriio_ack")

    def _resolved(self, is_open: bool | None, done: Any, ack: Any, producer_tp_size: int, *_a: Any, **_k: Any) -> None:
        """None where the transfer waits for more; an acknowledgement of a transfer that is unknown or freed is no answer."""
        if not is_open:
            return
        transfer = str(getattr(ack, "transfer_id", ack))
        if done is None:
            if len(self._got) < MOST_OPEN:
                self._got[transfer] += 1
            return
        self._freed.append((producer_tp_size, getattr(ack, "consumer_tp_size", 1), self._got.pop(transfer, 0) + 1))


def transfer_bytes(sizes: Any) -> int:
    """Of one call: a size, or the sizes of a batch."""
    return int(sizes) if isinstance(sizes, int) else sum(int(size) for size in sizes)


def _notified(_writer: Any, _transfer_id: Any, request_info: Any) -> bool:
    return bool(request_info.completion_notified)


def _open(
    ack: Any,
    _producer_tp_size: int = 0,
    live_transfer_ids: Any = (),
    _counts: Any = None,
    completed_transfer_ids: Any = (),
    **_named: Any,
) -> bool:
    transfer = getattr(ack, "transfer_id", ack)
    return transfer in live_transfer_ids and transfer not in completed_transfer_ids
