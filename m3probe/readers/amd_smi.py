"""JSON of ``amd-smi`` (metric, static, list, also ``--watch``) and of ``rocm-smi``: one or more documents in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._smi_amd import of_card, of_gpu
from m3probe.readers._smi_rows import MOST_ROWS, Sample, add
from m3probe.readers.chunks import Chunks

KIND = "amd-smi"
DOCUMENTS = "documents"
MOST_BYTES = 256 << 20
_LOOKED = 64 * 1024
_GPU = re.compile(rb'[\[{,]\s*"gpu"\s*:\s*\d{1,4}\s*[,}]')
_TELLING = re.compile(
    rb'"(?:gpu_data|bdf|uuid|usage|gfx_activity|socket_power|mem_usage|used_vram|asic|ecc|limit|partition)"\s*:'
)
_CARD = re.compile(rb'[{,]\s*"card\d{1,4}"\s*:\s*\{\s*"')
_OTHERS = (b'"traceEvents"', b'"schemaVersion"')
_CARD_KEY = re.compile(r"card(\d{1,4})")
_WATCH = "'CTRL'"
"""How ``--watch`` begins: ``'CTRL' + 'C' to stop watching output:``."""
_BEGIN = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
_NEXT = re.compile(r"\s*[\[{]")


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the content has a GPU's entry with a key that only these tools write."""
    head = head[:_LOOKED]
    if any(word in head for word in _OTHERS):
        return False
    return bool((_GPU.search(head) and _TELLING.search(head)) or _CARD.search(head))


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the readings of one file.

    Raises:
        UnreadableInput: it cannot be read, is larger than ``MOST_BYTES``, or names no GPU.
    """
    chunks = Chunks(path)
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > MOST_BYTES:
            what = f"larger than {MOST_BYTES // 2**20:,} MiB"
            raise UnreadableInput(what, where=str(path), next_move="Save fewer readings, or at a longer interval")
    found = _Documents(content.decode("utf-8", "replace"))
    samples: list[Sample] = []
    for document in found:
        _take(document, samples)
        if len(samples) > MOST_ROWS:
            what = f"more than {MOST_ROWS:,} readings of a GPU"
            raise UnreadableInput(what, where=str(path), next_move="Save fewer readings, or at a longer interval")
    if not samples:
        move = "Save it again: amd-smi metric --json, or rocm-smi -a --json"
        raise UnreadableInput("no whole reading of a GPU in it", where=str(path), next_move=move)
    builder.note(found.notes(str(path), cut_stream=chunks.cut))
    cut = found.cut or chunks.cut
    add(builder, path, KIND, samples, chunks.size_bytes, cut=cut, in_folder=in_folder)
    progress(path, chunks.size_bytes, chunks.size_bytes)


READER = Reader(title="amd-smi or rocm-smi JSON", sniff=sniff, read=read)


class _Documents:
    """Whole JSON values, one after the other, with what stands between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.cut = False
        self.before = ""
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        decoder, place = json.JSONDecoder(), 0
        while begin := _NEXT.match(self._text, place) or _BEGIN.search(self._text, place):
            start = begin.end() - 1
            if not self.number:
                lines = [line for line in self._text[:start].splitlines() if line.strip()]
                self.before = next((line for line in lines if not line.startswith(_WATCH)), "")
            try:
                value, place = decoder.raw_decode(self._text, start)
            except (ValueError, RecursionError):
                self.cut = True
                return
            self.number += 1
            yield value

    def notes(self, path: str, *, cut_stream: bool) -> Iterator[Note]:
        """Nothing here holds a kernel: a loss is told and hides none."""
        if self.before:
            text = f"text before the JSON was left out: {self.before.strip()[:120]}"
            yield Note("text_before", text, path)
        if self.number > 1:
            yield Note(DOCUMENTS, f"{self.number:,} JSON documents in one file", path, self.number, quiet=True)
        if self.cut or cut_stream:
            yield Note("truncated", "the last reading is cut, or no JSON: it is left out", path, lossy=True)


def _take(document: Any, samples: list[Sample]) -> None:
    """A list of GPUs, the same below ``gpu_data``, or the cards of rocm-smi; another list is of something else."""
    if isinstance(document, Mapping) and isinstance(document.get("gpu_data"), list):
        document = document["gpu_data"]
    if isinstance(document, Mapping) and not isinstance(document.get("gpu"), int):
        for key, said in document.items():
            card = _CARD_KEY.fullmatch(key)
            if card and isinstance(said, Mapping):
                samples.append(of_card(int(card[1]), said))
        return
    entries = document if isinstance(document, list) else [document]
    reading = samples[-1].reading + 1 if samples else 0
    for said in entries:
        if isinstance(said, Mapping):
            one = of_gpu(said, reading, _time(said.get("timestamp")))
            if one is not None:
                samples.append(one)


def _time(value: Any) -> int:
    """Seconds since 1970 -> ns; -1 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e9 < value < 9e9:
        return -1
    return int(value * 1e9)
