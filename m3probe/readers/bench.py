"""Benchmark results: JSON of ``vllm bench serve``, SGLang and InferenceX, and the box a client prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.model.bench import BenchRun
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._bench_console import TITLE, Boxes
from m3probe.readers._bench_documents import Documents, Result, documents
from m3probe.readers._bench_inferencex import inferencex_run
from m3probe.readers._bench_notes import notes_of
from m3probe.readers._bench_run import dialect_of, run_of
from m3probe.readers._beside import beside
from m3probe.readers._log_lines import line_of, whole_lines, without_colours
from m3probe.readers.chunks import Chunks

JSON, CONSOLE, ROLE = "bench-json", "bench-console", "bench"
MOST_BYTES = 1 << 29
"""Of a JSON file, inflated; ``--save-detailed`` of 20,000 requests of 1,000 tokens each comes near it."""
_LATENCY = re.compile(rb'"(?:mean|median|std|p\d{1,2}(?:\.\d+)?)_(?:ttft|tpot|itl|e2el|e2e_latency)(?:_ms)?"\s*:')
_RATES = re.compile(rb'"(?:request|output|total_token)_throughput"\s*:')
_TELLING = re.compile(rb'"(?:completed|duration|max_concurrency|num_prompts|total_output_tokens)"\s*:')
_INFERENCEX = re.compile(rb'"(?:tput_per_gpu|total_tput_tps|num_requests_successful)"\s*:')
_OTHERS = (b'"traceEvents"', b'"schemaVersion"')
_BOX = f"= {TITLE} =".encode()
# A server's own log that a client's box was printed into is a log first.
_SERVER = re.compile(rb"[(\[](?:APIServer|EngineCore|Worker|VllmWorker|RayWorker)[\w ]{0,40} pid=")


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the content names a client's figures; the file's name says nothing."""
    if _is_json(head):
        if any(word in head for word in _OTHERS):
            return False
        rates = bool(_RATES.search(head))
        return bool(_INFERENCEX.search(head) or (rates and _TELLING.search(head)) or _LATENCY.search(head))
    return _BOX in without_colours(head) and not _SERVER.search(head)


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the runs of one file.

    Raises:
        UnreadableInput: it cannot be read, or holds no run after all.
    """
    chunks = Chunks(path)
    file = len(builder.files)
    kind, runs, notes = _console(chunks, file) if _reads_as_text(chunks) else _results(chunks, file)
    builder.files.append(beside(path, kind, ROLE, chunks.size_bytes, cut=chunks.cut, in_folder=in_folder))
    builder.note(notes)
    builder.meta = replace(builder.meta, bench=(*builder.meta.bench, *runs))
    progress(path, chunks.size_bytes, chunks.size_bytes)


READER = Reader(title="benchmark result", sniff=sniff, read=read)


def _is_json(head: bytes) -> bool:
    return head.lstrip()[:1] in (b"{", b"[")


def _reads_as_text(chunks: Chunks) -> bool:
    return not _is_json(next(iter(chunks), b""))


def _results(chunks: Chunks, file: int) -> tuple[str, list[BenchRun], list[Note]]:
    where = str(chunks.path)
    found = documents(_content(chunks), where)
    runs = [_run(result, file, where, index) for index, result in enumerate(found.results) if _says_something(result)]
    if not runs:
        raise UnreadableInput(
            "no result of a serving benchmark: no throughput and no latency in it",
            where=where,
            next_move="Give what vllm bench serve --save-result wrote",
        )
    return JSON, runs, [*_damage(found, where, cut_stream=chunks.cut), *notes_of(runs, where)]


def _content(chunks: Chunks) -> bytes:
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > MOST_BYTES:
            raise UnreadableInput(
                f"larger than {MOST_BYTES // 2**20:,} MiB",
                where=str(chunks.path),
                next_move="Save the result without --save-detailed",
            )
    return bytes(found)


def _run(result: Result, file: int, path: str, index: int) -> BenchRun:
    make = inferencex_run if dialect_of(result).startswith("inferencex") else run_of
    return make(result, file, path, index)


def _says_something(result: Result) -> bool:
    return any(
        _RATES.match(key) or _LATENCY.match(key) or _INFERENCEX.match(key) for key in map(_quoted, result.values)
    )


def _quoted(key: str) -> bytes:
    return b'"%s":' % key.encode("utf-8", "replace")


def _damage(found: Documents, path: str, *, cut_stream: bool) -> Iterator[Note]:
    if found.cut or cut_stream:
        text = f"truncated file: the result after the first {len(found.results)} is cut and left out"
        yield Note("truncated", text, path, lossy=True)
    if found.stray:
        text = f"{found.stray:,} byte(s) between the results belong to no JSON object and are left out"
        yield Note("stray_bytes", text, path, found.stray, lossy=True)
    repaired = found.damage
    if repaired.non_finite:
        text = f"{repaired.non_finite} value(s) that are no finite number: what was not measured, read as not known"
        yield Note("non_finite", text, path, repaired.non_finite)
    odd = repaired.bad_utf8 + repaired.control_bytes
    if odd:
        yield Note("repaired_text", f"{odd} text(s) with raw control bytes or bad UTF-8", path, odd)


def _console(chunks: Chunks, file: int) -> tuple[str, list[BenchRun], list[Note]]:
    where, boxes = str(chunks.path), Boxes(file, str(chunks.path))
    for window, _ in whole_lines(chunks):
        boxes.feed(line_of(raw, 0).text for raw in without_colours(window).split(b"\n") if raw)
    boxes.end()
    if not boxes.runs:
        raise UnreadableInput(
            f"no box headed {TITLE!r} in it", where=where, next_move="Give what vllm bench serve printed"
        )
    notes = notes_of(boxes.runs, where)
    if boxes.cut:
        text = f"truncated: {boxes.cut} of {len(boxes.runs)} box(es) without their last line, figures may be missing"
        notes = [Note("truncated", text, where, boxes.cut, lossy=True), *notes]
    return CONSOLE, boxes.runs, notes
