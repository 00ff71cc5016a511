"""rocprofv3's JSON as typed records: the document once, its long arrays in windows.

Arrays stay raw until they are read, so that the records of one window are all that lives as objects. 37 MB with 43,915
dispatches: 0.16 s of CPU for the document and 0.2 s for the records on a shared Xeon core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from m3probe.errors import UnreadableInput
from m3probe.readers.chunks import Chunks
from m3probe.readers.repair import UNDECODABLE, Damage, without_loss

TOOL = b'"rocprofiler-sdk-tool"'
MOST_BYTES = 2 * 2**30
"""Inflated; the text is held once. A larger one is better written as rocpd or CSV."""
_WINDOW = 4 * 2**20
_LOOK_BACK = 64 * 1024
_EMPTY = msgspec.Raw(b"[]")
_FIRST_KEY = re.compile(rb'\[\s*\{\s*("[\w ]{1,64}")\s*:')
_ELEMENT = re.compile(rb"\}\s*,\s*(?=\{)")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_CLOSERS = (b"]}}]}", b"]}]}")
"""What a document lacks that was cut in an array of ``buffer_records``, or in one beside it."""


class Handle(msgspec.Struct, gc=False, frozen=True):
    """An id in a box."""

    handle: int = 0


class Correlation(msgspec.Struct, gc=False, frozen=True):
    """Links a dispatch to the call that made it."""

    internal: int = 0


class Sizes(msgspec.Struct, gc=False, frozen=True):
    """Work-items along each axis."""

    x: int = -1
    y: int = -1
    z: int = -1


class DispatchInfo(msgspec.Struct, gc=False, frozen=True):
    """What was launched, and where."""

    agent_id: Handle
    kernel_id: int
    queue_id: Handle = Handle()
    workgroup_size: Sizes = Sizes()
    grid_size: Sizes = Sizes()


class Dispatch(msgspec.Struct, gc=False, frozen=True):
    """One kernel."""

    dispatch_info: DispatchInfo
    start_timestamp: int
    end_timestamp: int
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Call(msgspec.Struct, gc=False, frozen=True):
    """One call of an API, or one ROCTX range; ``kind`` and ``operation`` index ``strings`` of the same document."""

    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    thread_id: int = -1
    correlation_id: Correlation = Correlation()


class Copy(Call, gc=False, frozen=True):
    """One copy."""

    src_agent_id: Handle = Handle()
    dst_agent_id: Handle = Handle()
    payload_bytes: int = msgspec.field(default=-1, name="bytes")
    stream_id: Handle | None = None


class Kind(msgspec.Struct, frozen=True):
    """One domain of records and the names of its operations."""

    kind: str = ""
    operations: list[str] = []


class Said(msgspec.Struct, frozen=True):
    """The text of a ROCTX range, by its correlation."""

    key: int = -1
    value: str = ""


class Strings(msgspec.Struct, frozen=True):
    """Tables of names."""

    buffer_records: list[Kind] = []
    marker_api: list[Said] = []


class Symbol(msgspec.Struct, gc=False, frozen=True):
    """Names of one kernel, undecoded: most are of kernels that never ran."""

    kernel_id: int = -1
    formatted_kernel_name: msgspec.Raw = _EMPTY
    demangled_kernel_name: msgspec.Raw = _EMPTY
    kernel_name: msgspec.Raw = _EMPTY


class Agent(msgspec.Struct, frozen=True):
    """One processor; sizes are -1 where they are not written."""

    id: Handle = Handle()
    type: int = 0
    name: str = ""
    product_name: str = ""
    gfx_target_version: int = 0
    cu_count: int = -1
    wave_front_size: int = -1
    node_id: int = -1
    logical_node_id: int = -1
    logical_node_type_id: int = -1
    gpu_index: int = -1
    mem_banks: list[dict[str, Any]] = []


class CounterName(msgspec.Struct, frozen=True):
    """One counter that can be read."""

    id: Handle = Handle()
    name: str = ""


class Metadata(msgspec.Struct, frozen=True):
    """The process."""

    pid: int = -1


class Tool(msgspec.Struct, frozen=True):
    """One process's output."""

    metadata: Metadata = Metadata()
    agents: list[Agent] = []
    strings: Strings = Strings()
    kernel_symbols: list[Symbol] = []
    buffer_records: dict[str, msgspec.Raw] = {}
    counters: list[CounterName] = []
    callback_records: dict[str, msgspec.Raw] = {}


class Document(msgspec.Struct, frozen=True):
    """The file."""

    tools: list[Tool] = msgspec.field(name="rocprofiler-sdk-tool")


Record = TypeVar("Record", bound=msgspec.Struct)
_DOCUMENT = msgspec.json.Decoder(Document)


class Results:
    """One file: its processes, and what was repaired or lost.

    Raises:
        UnreadableInput: it cannot be read, is too large, or is no such document even when repaired.
    """

    def __init__(self, path: Path) -> None:
        chunks = Chunks(path)
        self.path, self.size_bytes = path, chunks.size_bytes
        self.damage = Damage()
        self.cut = False
        text = bytearray()
        for chunk in chunks:
            text += chunk
            if len(text) > MOST_BYTES:
                what = f"more than {MOST_BYTES // 2**30} GiB of JSON"
                move = "Record with --output-format csv or rocpd, or a shorter window"
                raise UnreadableInput(what, where=str(path), next_move=move)
        self.tools = self._document(text).tools
        self.cut = self.cut or chunks.cut

    def records(self, raw: msgspec.Raw | None, kind: type[Record]) -> Iterator[list[Record]]:
        """Records of one array, a window at a time; one that is no such record is counted as lost."""
        if raw is None:
            return
        many, one = msgspec.json.Decoder(list[kind]), msgspec.json.Decoder(kind)  # type: ignore[valid-type]
        text = memoryview(raw)
        for start, window in _windows(text):
            try:
                yield many.decode(window)
                continue
            except UNDECODABLE:
                pass
            pieces = _pieces(window)
            if pieces is not None:
                yield list(self._one_by_one(pieces, one.decode))
                continue
            # cut inside a record that holds such objects itself: the rest in one go
            yield list(self._one_by_one(_pieces(b"[" + bytes(text[start:])) or [], one.decode))
            return

    def _one_by_one(self, pieces: list[msgspec.Raw], decode: Callable[[Any], Record]) -> Iterator[Record]:
        for piece in pieces:
            try:
                yield decode(piece)
            except UNDECODABLE:
                self.damage.lost += 1

    def _document(self, text: bytearray) -> Document:
        try:
            return _DOCUMENT.decode(text)
        except UNDECODABLE as error:
            first = error
        repaired = self._whole_characters(without_loss(bytes(text), self.damage))
        for candidate in (repaired, *_closed(repaired)):
            try:
                found = _DOCUMENT.decode(candidate)
            except UNDECODABLE:
                continue
            self.cut = candidate is not repaired
            return found
        what = f"not what rocprofv3 writes, or cut before its first record ({first})"
        raise UnreadableInput(
            what, where=str(self.path), next_move="Record again; let the profiled process end by itself"
        )

    def _whole_characters(self, text: bytes) -> bytes:
        r"""Halves of characters (``\ud800`` without its other half) written as text."""

        def fix(match: re.Match[bytes]) -> bytes:
            if match[1] is None:
                return match[0]
            self.damage.bad_utf8 += 1
            return b"\\\\" + match[1]

        return _ESCAPE.sub(fix, text)


def _pieces(window: bytes) -> list[msgspec.Raw] | None:
    """The elements of an array; None where it is malformed."""
    try:
        return msgspec.json.decode(window, type=list[msgspec.Raw])
    except UNDECODABLE:
        return None


def text_of(raw: msgspec.Raw, damage: Damage) -> str:
    r"""A name, bytes that are no UTF-8 written ``\xNN`` (raw texts are not checked with the document); "" for no text."""
    try:
        return msgspec.json.decode(raw, type=str)
    except UNDECODABLE:
        pass
    try:
        return msgspec.json.decode(without_loss(bytes(raw), damage), type=str)
    except UNDECODABLE:
        return ""


def _windows(text: memoryview) -> Iterator[tuple[int, bytes]]:
    """(place, piece as an array of its own): cut where one ends and the next begins with the first one's first key."""
    first = _FIRST_KEY.match(text)
    if first is None or len(text) <= _WINDOW:
        yield 1, bytes(text)
        return
    boundary = re.compile(rb"\}\s*(,)\s*\{\s*" + re.escape(first[1]) + rb"\s*:")
    at = 1
    while len(text) - at > _WINDOW:
        ends = [m.start(1) for m in boundary.finditer(text, max(at, at + _WINDOW - _LOOK_BACK), at + _WINDOW)]
        if not ends:
            break
        yield at, b"[" + bytes(text[at : ends[-1]]) + b"]"
        at = ends[-1] + 1
    yield at, b"[" + bytes(text[at:])


def _closed(text: bytes) -> Iterator[bytes]:
    """A cut document with its brackets closed: after its last whole element, in each place where arrays stand."""
    last = text.rfind(b"}") + 1
    near = max(0, len(text) - 2**20)
    ends = [match.start() + 1 for match in _ELEMENT.finditer(text, near)]
    for end in (last, *ends[-1:]):
        for closer in _CLOSERS:
            yield text[:end] + closer
