"""Perfetto protobuf of rocprofv3: packets in order, missing, doubled, with wild fields, and bytes that are none."""

from __future__ import annotations

from typing import Any

import perfetto_kit as kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

UNSIGNED = (0, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = [text for text in damage.TEXTS if text != "\ud800"]


@some.composite
def packets(draw: DrawFn) -> tuple[list[Any], int, int]:
    """Packets, kernels and their ns."""
    found, number, total = [*kit.rocprofv3()], 2, 5_000
    for _ in range(draw(some.integers(0, 4))):
        ran = draw(some.integers(1, 10**9))
        queue = draw(some.sampled_from((kit.QUEUE_4, kit.QUEUE_5)))
        agent = "Agent-4" if queue == kit.QUEUE_4 else "Agent-5"
        found.append(
            kit.begin(draw(some.integers(0, 10**6)), queue, "kernel_dispatch", "more", corr_id=99, agent=agent)
        )
        found.append(kit.end(ran, queue))
        number, total = number + 1, total + ran
    return found, number, total


@some.composite
def changed(draw: DrawFn, one: Any) -> Any:
    """A packet with a field of its own kind that cannot be."""
    made = kit.pb.TracePacket()
    made.CopyFrom(one)
    what = draw(some.integers(0, 6))
    if what == 0:
        made.timestamp = draw(some.sampled_from(UNSIGNED))
    elif what == 1:
        made.trusted_packet_sequence_id = draw(some.sampled_from((0, 1, 7, 2**32 - 1)))
    elif what == 2:
        made.timestamp_clock_id = draw(some.sampled_from((0, 6, 64, 2**32 - 1)))
    elif what == 3 and made.HasField("track_event"):
        made.track_event.track_uuid = draw(some.sampled_from(UNSIGNED))
    elif what == 4 and made.HasField("track_event"):
        made.track_event.name = draw(some.sampled_from(WORDS))
    elif what == 5 and made.HasField("track_descriptor"):
        made.track_descriptor.parent_uuid = made.track_descriptor.uuid
        made.track_descriptor.name = draw(some.sampled_from(WORDS))
    elif made.HasField("track_event") and made.track_event.debug_annotations:
        note = made.track_event.debug_annotations[0]
        note.uint_value = draw(some.sampled_from(UNSIGNED))
        if draw(some.booleans()):
            note.string_value = draw(some.sampled_from(WORDS))
    return made


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Whole, or not."""
    found, number, total = draw(packets())
    if draw(some.booleans()):
        data = kit.pb.Trace(packet=found).SerializeToString()
        return Sample({"501_results.pftrace": data}, {"kernels": number, "kernel_time_ns": total})
    for _ in range(draw(some.integers(1, 5))):
        at = draw(some.integers(0, len(found) - 1))
        what = draw(some.sampled_from(("change", "change", "lose", "double", "swap")))
        if what == "change":
            found[at] = draw(changed(found[at]))
        elif what == "double":
            found.insert(at, found[at])
        elif what == "swap":
            other = draw(some.integers(0, len(found) - 1))
            found[at], found[other] = found[other], found[at]
        elif len(found) > 1:
            del found[at]
    data = kit.pb.Trace(packet=found).SerializeToString()
    return Sample({"501_results.pftrace": draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data})


FORMAT = Format("perfetto_trace", samples(), examine)
