"""Perfetto's protobuf, for ui.perfetto.dev: packets of the message classes of PyPI's ``perfetto``, streamed to the file.

A trace is one field after another: tag 0x0a, length, one ``TracePacket`` (protos/perfetto/trace/trace.proto: ``repeated
TracePacket packet = 1``), so that packets are written as they are made. Names and texts are interned
(interned_data.proto). Times are uint64 ns; the clock is Perfetto's default, which its UI shows from the first event on,
and a snapshot says which wall time that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from m3probe.exporting._format import Export, Format, Written, one_file
from m3probe.exporting._perfetto_packets import Packets
from m3probe.exporting._said import about, wrote_something
from m3probe.exporting._timeline import Timeline, timeline
from m3probe.exporting._track import Track
from m3probe.model.export_report import WroteRow


def write(export: Export, path: Path) -> Written:
    """One file with every track.

    Raises:
        UnreadableInput: nothing of the recording has a time.
    """
    drawn = timeline(export)
    with path.open("wb") as file:
        packets = Packets(file)
        for track in drawn.ready(tracks(drawn)):
            packets.track(track, wall=drawn.when.wall)
        packets.close(about(export))
    wrote_something(export, packets.rows)
    return (WroteRow("", packets.rows, path.stat().st_size),), drawn.left_out()


def tracks(drawn: Timeline) -> Iterator[Track]:
    """Every track, group by group."""
    yield from drawn.shared()
    yield from drawn.findings()
    for file in drawn.files:
        yield from drawn.judged(file)
        yield from drawn.kernels(file)
        yield from drawn.called(file)


FORMAT = Format(
    "Perfetto protobuf",
    (".pftrace", ""),
    one_file,
    write,
    needs=("perfetto.protos.perfetto.trace.perfetto_trace_pb2",),
    host=True,
)
