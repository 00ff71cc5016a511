"""Bytes of a file in order, inflated when it is gzip, in bounded memory."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from m3probe.errors import UnreadableInput

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 4 * 2**20
"""Bytes per read. 1, 4 and 8 MiB were equally fast on a 1 GB trace; 4 holds the least memory at no cost."""


GZIP_READ_BYTES = 256 * 1024
"""Compressed bytes per read: traces deflate 10 to 30 times."""


MOST_RATIO = 250
"""Times that a gzip file may inflate, beyond the first ``RATIO_FROM`` bytes: repetition alone comes near 1,032, deflate's
limit; traces inflate 10 to 30 times and logs up to 60."""
RATIO_FROM = 32 * 2**20

_STEP_BYTES = 4096
"""Compressed bytes per step where a damaged file is read again."""


def _inflater() -> tuple[Any, Any]:
    """A new decompressor of one gzip member, and the errors that it raises on damaged data.

    isal inflates at about 1,300 MB/s where the standard library does 350-580. A decompressor gives
    what a cut stream holds; ``gzip.open().read`` would lose the last chunk of it.
    """
    try:
        from isal import isal_zlib
    except ImportError:  # a platform without isal wheels
        return zlib.decompressobj(wbits=31), (zlib.error,)
    return isal_zlib.decompressobj(wbits=31), (isal_zlib.error, zlib.error)


class Chunks:
    """Iterates over a file's bytes; afterwards ``cut`` says whether a gzip stream ended early.

    Args:
        path: file, plain or gzip (told by its first bytes, not by its suffix).

    Raises:
        UnreadableInput: the file cannot be opened, holds no byte, or inflates beyond ``MOST_RATIO``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = False
        self.size_bytes, self.is_gzip = _look(path)

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as stream:
                yield from self._inflated(stream) if self.is_gzip else _pieces(stream, self.size_bytes, CHUNK_BYTES)
        except OSError as error:
            raise UnreadableInput(f"reading failed ({error.strerror})", where=str(self.path)) from error

    def _inflated(self, stream: IO[bytes]) -> Iterator[bytes]:
        given = 0
        inflater, damaged = _inflater()
        pieces = _pieces(stream, self.size_bytes, GZIP_READ_BYTES)
        data = next(pieces, b"")
        while data:
            try:
                chunk = inflater.decompress(data, CHUNK_BYTES)
            except damaged:
                self.cut = True
                yield from _salvaged(self.path, given)
                return
            if chunk:
                given += len(chunk)
                if given > max(RATIO_FROM, MOST_RATIO * stream.tell()):
                    raise self._bomb(given)
                yield chunk
            data = inflater.unconsumed_tail
            if inflater.eof:  # a file may hold several members, one after the other
                data = inflater.unused_data or next(pieces, b"")
                inflater, _ = _inflater() if data else (inflater, ())
            data = data or next(pieces, b"")
        self.cut = not inflater.eof

    def _bomb(self, given: int) -> UnreadableInput:
        return UnreadableInput(
            f"inflates more than {MOST_RATIO}-fold: {given // 2**20:,} MiB so far of {self.size_bytes:,} bytes, which is "
            "repetition and no recording",
            where=str(self.path),
            next_move="Where you trust it, inflate it yourself and name what comes out",
        )


def _pieces(stream: IO[bytes], size: int, most: int) -> Iterator[bytes]:
    """The file as long as it was when it was opened: one that is written faster than it is read would never end."""
    while size > 0 and (data := stream.read(min(most, size))):
        size -= len(data)
        yield data


def _salvaged(path: Path, given: int) -> Iterator[bytes]:
    """What a damaged gzip file holds beyond the bytes already given, up to the damage.

    A decompressor that meets damage (a flipped byte, a wrong checksum) gives nothing of the piece that
    holds it; so the piece is read again byte by byte. Only the first member is read so.
    """
    inflater = zlib.decompressobj(wbits=31)
    seen = 0
    with path.open("rb") as stream:
        while data := stream.read(_STEP_BYTES):
            before = inflater.copy()
            try:
                chunk = inflater.decompress(data)
            except zlib.error:
                chunk = _until_damage(before, data)
                yield chunk[max(given - seen, 0) :]
                return
            if seen + len(chunk) > given:
                yield chunk[max(given - seen, 0) :]
            seen += len(chunk)


def _until_damage(inflater: Any, data: bytes) -> bytes:
    found = b""
    for byte in data:
        try:
            found += inflater.decompress(bytes([byte]))
        except zlib.error:
            break
    return found


def _look(path: Path) -> tuple[int, bool]:
    try:
        said = path.stat()
        if not stat.S_ISREG(said.st_mode):
            raise UnreadableInput(
                "is no regular file (a pipe, device or socket)", where=str(path), next_move="Save it to a file first"
            )
        size = said.st_size
        with path.open("rb") as stream:
            head = stream.read(2)
    except OSError as error:
        raise UnreadableInput(
            f"cannot be read ({error.strerror})", where=str(path), next_move="Check the path and its permissions"
        ) from error
    if size == 0:
        raise UnreadableInput("the file is empty (0 bytes)", where=str(path), next_move="Record the trace again")
    return size, head == GZIP_MAGIC
