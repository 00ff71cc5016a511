"""Perfetto traces that hold GPU work: rocprofv3's ``--output-format pftrace``, and what our own export wrote.

Read with the message classes of PyPI's ``perfetto`` (extra ``export``), packet by packet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.model.recording import EventCounts, Note, RecordingBuilder, SourceFile
from m3probe.plugs import Progress, Reader
from m3probe.readers import _exported
from m3probe.readers._perfetto_process import Ran, processes
from m3probe.readers._perfetto_slices import MOST_SLICES, Slices
from m3probe.readers._perfetto_stream import PacketStream, packets_in
from m3probe.readers._process import add_process, check_devices

KIND = "perfetto"
_RANK = re.compile(r"rank (\d{1,6})(?: \(.*\))?", re.DOTALL)
_EVERY = 50_000


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the first bytes are packets of Perfetto; told without its package."""
    return packets_in(head)


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the processes of one file, each device of each as a file of its own.

    Raises:
        UnreadableInput: the package is missing, or the file holds no GPU slices.
    """
    stream = PacketStream(path)
    slices = Slices(builder.strings.intern)
    for number, (packet, sequence, at_ns) in enumerate(stream):
        slices.take(packet, sequence, at_ns)
        if number % _EVERY == 0:
            progress(path, min(stream.bytes_read, stream.size_bytes), stream.size_bytes)
    ran = processes(slices, builder)
    if not any(one.process.count(part) for one in ran for part in ("kernels", "memcpy", "memset", "launches")):
        raise _nothing(path, stream, slices)
    check_devices(sum(max(len(one.process.devices()), 1) for one in ran), path)
    header = {"m3probe": _decoded(slices.about)} if slices.about else {}
    before = _exported.losses(header)
    base_ns = stream.wall_ns if header else None
    for number, one in enumerate(ran):
        counts = EventCounts(
            events_x=sum(one.process.count(part) for part in one.process.parts),
            lost_events=0 if number else stream.undecoded + slices.beyond + before.events,
            truncated=not number and (stream.cut or before.cut),
        )
        add_process(one.process, builder, _file_of(path, one, counts, base_ns, stream.size_bytes, in_folder))
    builder.note([*_exported.notes(before, str(path)), *_notes(path, stream, slices), *_gaps(path, slices, ran)])
    progress(path, stream.size_bytes, stream.size_bytes)


READER = Reader(title="Perfetto trace (rocprofv3 pftrace, or our own export)", sniff=sniff, read=read)


def _file_of(
    path: Path, ran: Ran, counts: EventCounts, base_ns: int | None, size_bytes: int, in_folder: bool
) -> Callable[[int | None], SourceFile]:
    """What is said of the file of one device; the records and losses of the process stand at its first."""
    told = iter([counts])
    named = _RANK.fullmatch(ran.name)

    def file_of(device: int | None) -> SourceFile:
        return SourceFile(
            path=str(path),
            kind=KIND,
            role="rank",
            rank=int(named[1]) if named else ran.ranks.get(device),
            world_size=None,
            base_time_ns=base_ns,
            size_bytes=size_bytes,
            counts=next(told, EventCounts()),
            in_folder=in_folder,
            pid=None if named else ran.pid,
            device=ran.labels.get(device, "") if device is not None else "",
        )

    return file_of


def _decoded(about: dict[str, str]) -> dict[str, Any]:
    """What the export says of itself; lists were written as JSON."""
    found: dict[str, Any] = dict(about)
    for key in ("lost", "truncated", "events_lost"):
        try:
            found[key] = json.loads(about[key]) if key in about else None
        except (ValueError, RecursionError):
            found[key] = None
    return found


def _nothing(path: Path, stream: PacketStream, slices: Slices) -> UnreadableInput:
    """Why a trace of Perfetto is none for m3probe, and what it holds instead."""
    counted = sorted(slices.others.items(), key=lambda item: -item[1])
    held = [f"{slices.events:,} track events"] if slices.events else []
    held += [f"{count:,} {kind}" for kind, count in counted[:4]]
    if stream.undecoded == stream.packets and stream.packets:
        what = f"none of the {stream.packets:,} packets of this Perfetto trace can be decoded"
        return UnreadableInput(what, where=str(path), next_move="Record again")
    cut = ", and it is cut or damaged" if stream.cut else ""
    return UnreadableInput(
        f"a Perfetto trace with no GPU slices in it (it holds {', '.join(held) or 'nothing'}){cut}",
        where=str(path),
        next_move="m3probe reads what rocprofv3 --output-format pftrace and m3probe export --to perfetto write",
    )


def _notes(path: Path, stream: PacketStream, slices: Slices) -> Iterator[Note]:
    """Losses and oddities of one file."""
    where = str(path)
    rest = "what follows was not read"
    place = "the gzip stream ends early" if stream.damaged_at < 0 else f"cut or damaged at byte {stream.damaged_at:,}"
    found = (
        ("truncated", int(stream.cut), f"{place}: {rest}"),
        ("lost_events", stream.undecoded, f"{stream.undecoded:,} packet(s) cannot be decoded and are lost"),
        ("dropped_packets", stream.dropped, f"the writer dropped packets {stream.dropped:,} time(s)"),
        (
            "full_buffer",
            stream.discarded,
            f"{stream.discarded:,} piece(s) of the trace were lost in a full buffer: raise --perfetto-buffer-size",
        ),
        (
            "compressed_packets",
            stream.compressed,
            f"{stream.compressed:,} packet(s) are compressed and were not read",
        ),
        ("beyond", slices.beyond, f"{slices.beyond:,} slice(s) beyond {MOST_SLICES:,} were counted and not kept"),
        ("undated", slices.undated, f"{slices.undated:,} slice(s) without a time of a known clock"),
        ("stray_ends", slices.stray_ends, f"{slices.stray_ends:,} slice(s) end that were never begun"),
        ("unended", ended := slices.unended(), f"{ended:,} slice(s) never end: how long they took is not known"),
    )
    for word, count, text in found:
        if count:
            yield Note(word, text, where, min(count, 2**62), lossy=True)


def _gaps(path: Path, slices: Slices, ran: list[Ran]) -> Iterator[Note]:
    """What such a file does not hold, whatever was recorded."""
    if slices.categories:
        text = (
            "rocprofv3's pftrace moves the ends of kernels that overlap on one queue to the middle and tells sizes of "
            "grids as products: its rocpd or JSON output holds both as they were"
        )
        yield Note("pftrace_holds", text, str(path), quiet=True)
    elif any(one.process.count("kernels") and not one.host for one in ran):
        text = (
            "exported without --host: of launches it holds those of graphs alone and no operator, so that only kernels "
            "of replayed graphs belong to a step"
        )
        yield Note("no_host", text, str(path), quiet=True)
