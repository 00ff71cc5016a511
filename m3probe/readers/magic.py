"""What a file is that no reader knows, by its first bytes: to be told, never to be read any further.

Signatures are those of each format's own specification. Nothing here parses, inflates or runs what it looks at.
"""

from __future__ import annotations

import re

SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "an ELF program or library"),
    (0, b"MZ", "a Windows program"),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"ARROW1", "an Arrow (Feather) table"),
    (0, b"\xff\xff\xff\xff", "an Arrow stream"),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (8, b"WAVE", "a WAV sound"),
    (4, b"ftyp", "a video or sound (MP4)"),
    (0, b"OggS", "a sound or video (Ogg)"),
    (0, b"ID3", "an MP3 sound"),
    (0, b"GGUF", "a GGUF checkpoint"),
    (0, b"NVR\0", "a report of NVIDIA Nsight Compute (.ncu-rep)"),
    (0, b"\x28\xb5\x2f\xfd", "data packed by zstd"),
    (0, b"\xfd7zXZ\0", "data packed by xz"),
    (0, b"BZh", "data packed by bzip2"),
    (0, b"\x1f\x8b", "data packed by gzip once more"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"SQLite format 3\0", "a SQLite database"),
    (0, b"otf2", "an OTF2 trace archive"),
)
"""(place, bytes, what it is)."""
_MOVES = {
    "a report of NVIDIA Nsight Compute (.ncu-rep)": "It holds counters of single kernels; record a time line: nsys, or torch's profiler",
    "a tar archive": "Unpack it, and name the folder",
    "a zip archive": "Unpack it, and name the folder",
    "data packed by zstd": "Unpack it first: m3probe reads gzip alone",
    "data packed by xz": "Unpack it first: m3probe reads gzip alone",
    "data packed by bzip2": "Unpack it first: m3probe reads gzip alone",
    "data packed by gzip once more": "Unpack it once: gunzip",
}
_PICKLE = re.compile(rb"\x80[\x02-\x05](?:\x95.{8}|[\]}()cKXq\x8a\x8c])", re.DOTALL)
_SAFETENSORS = re.compile(rb".{5}\0\0\0\{\s*\"", re.DOTALL)
_TEXTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"<\?xml\b|<[A-Za-z][\w:.-]*(?:\s[^<>]*)?>"), "XML"),
    (re.compile(rb"#!\s*/"), "a script"),
    (re.compile(rb"(?:.*\n){0,40}?(?:from [\w.]+ import |import [\w.]+(?: as \w+)?\s*$|def \w+\(|class \w+[(:])", re.MULTILINE), "Python source"),
    (re.compile(rb"(?:---\s*\n|%YAML)|(?:#[^\n]*\n|[ \t\r]*\n)*[A-Za-z_][\w.-]*:(?: [^\n]*)?\n(?:\s*-? ?[\w.-]+:|\s*- )"), "YAML"),
)  # fmt: skip
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED = 64 * 1024
TEXT = "text"


def kind_of(head: bytes, name: str = "") -> str:
    """What the first (inflated) bytes are, in words; empty where nothing tells.

    Args:
        head: bytes from the file's beginning.
        name: of the file; its end tells apart what shares a signature (a checkpoint, a sheet and an archive are zip).
    """
    head = head[:_LOOKED]
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(head, name)
    for place, magic, words in SIGNATURES:
        if head[place : place + len(magic)] == magic:
            return words
    if _PICKLE.match(head):
        return "a Python pickle, which m3probe never loads"
    if _SAFETENSORS.match(head):
        return "a safetensors checkpoint"
    return _text(head)


def next_move(words: str) -> str:
    """What a user can do who has such a file; empty where nothing better than another file helps."""
    return _MOVES.get(words, "")


def _zipped(head: bytes, name: str) -> str:
    if b"/data.pkl" in head or b"/.format_version" in head or name.endswith((".pt", ".pth")):
        return "a PyTorch checkpoint (zip), which m3probe never loads"
    if b"[Content_Types].xml" in head or b"xl/" in head[:4096]:
        return "an Office document (.xlsx, .docx)"
    return "a NumPy archive (.npz)" if b".npy" in head[:256] else "a zip archive"


def _text(head: bytes) -> str:
    if _CONTROL.search(head):
        return ""
    try:
        head[:-4].decode() if len(head) > 8 else head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 8:
            return ""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((words for pattern, words in _TEXTS if pattern.match(start)), TEXT if start else "")
