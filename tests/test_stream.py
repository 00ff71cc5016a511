"""Whatever the layout of the JSON, the same events come out; what is broken is repaired, lost and counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel, launch, op, step
from hypothesis import given, settings
from hypothesis import strategies as st

from m3probe.errors import UnreadableInput
from m3probe.readers import chunks
from m3probe.readers.events import to_ns
from m3probe.readers.stream import TraceStream
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording

PYTHON = {"ph": "X", "cat": "python_function", "name": "a.py(1): f", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}


def events() -> list[dict[str, Any]]:
    found = [step(0.0, 50.0, "execute_context_0(0)_generation_2(2)")]
    for i in range(40):
        found.append({**PYTHON, "ts": i + 0.25, "args": {"Python id": i, "Python parent id": None}})
        found.append(op(i + 0.5, 0.75, "aten::mm", [[2, 8], [8, 4]], ["float", "float"]))
        found.append(launch(i + 0.625, i + 1))
        found.append(kernel(100.0 + i, 0.5, i + 1, 'gemm}, {"x": 1' if i == 7 else f"k_{i % 3}"))
    return found


def document(layout: str) -> bytes:
    doc: Any = {"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 4}, "traceEvents": events()}
    if layout == "header last":
        doc = {"traceEvents": events(), "deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}],
               "distributedInfo": {"rank": 3, "world_size": 4}}  # fmt: skip
    if layout == "array":
        doc = events()
    if layout == "name first":
        doc["traceEvents"] = [dict(sorted(e.items())) for e in events()]
    if layout == "args first":
        doc["traceEvents"] = [dict(sorted(e.items(), key=lambda item: item[0] != "args")) for e in events()]
    if layout == "string times":
        doc["traceEvents"] = [{**e, "ts": str(e["ts"]), "dur": str(e["dur"])} for e in events()]
    separators = (",", ":") if layout == "minified" else None
    return json.dumps(doc, indent=2 if layout == "indented" else None, separators=separators).encode()


LAYOUTS = ["plain", "minified", "indented", "header last", "array", "name first", "args first", "string times"]


@pytest.mark.parametrize("chunk", [64, 1000, 4 * 2**20])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_chunk_size_gives_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, chunk: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk)
    path = tmp_path / "t.json"
    path.write_bytes(document(layout))
    rec = open_recording([path])
    wanted = [e for e in events() if e["cat"] == "kernel"]
    assert rec.names("kernels") == [e["name"] for e in wanted]
    assert rec.kernels["start_ns"].tolist() == [round(e["ts"] * 1000) for e in wanted]
    assert rec.kernels["dur_ns"].tolist() == [500] * 40
    assert (len(rec.launches), len(rec.ops), len(rec.steps)) == (40, 40, 1)
    assert rec.files[0].counts.python_functions == 40
    assert rec.files[0].counts.events_x == len(events())
    assert rec.files[0].rank == (None if layout == "array" else 3)
    assert rec.outcome is Outcome.OK
    assert not rec.files[0].counts.truncated


@pytest.mark.parametrize("inflate", ["isal", "stdlib"])
def test_gzip_is_read_by_isal_and_by_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inflate: str
) -> None:
    if inflate == "stdlib":
        monkeypatch.setitem(__import__("sys").modules, "isal", None)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(document("plain")))
    assert len(open_recording([path]).kernels) == 40


@pytest.mark.parametrize("inflate", ["isal", "stdlib"])
def test_a_cut_gzip_keeps_what_is_whole_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inflate: str
) -> None:
    if inflate == "stdlib":
        monkeypatch.setitem(__import__("sys").modules, "isal", None)
    path = tmp_path / "t.json.gz"
    # stored, not deflated: every byte before the cut inflates
    path.write_bytes(gzip.compress(document("plain"), compresslevel=0)[:9000])
    rec = open_recording([path])
    assert rec.outcome is Outcome.PARTIAL
    assert rec.files[0].counts.truncated
    assert 0 < len(rec.kernels) < 40


@given(cut=st.integers(min_value=120, max_value=len(document("plain")) - 2))
@settings(max_examples=60, deadline=None)
def test_a_cut_anywhere_never_raises_and_never_invents(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "t.json"
    path.write_bytes(document("plain")[:cut])
    names = [e["name"] for e in events() if e["cat"] == "kernel"]
    try:
        rec = open_recording([path])
    except UnreadableInput:
        return  # cut before the first whole event
    assert rec.names("kernels") == names[: len(rec.kernels)]
    assert rec.outcome is Outcome.PARTIAL


@given(st.integers(min_value=0, max_value=2**61 // 1000 - 1), st.integers(min_value=0, max_value=999))
def test_microseconds_with_three_decimals_are_exact_whatever_their_size(whole: int, thousandths: int) -> None:
    text = f"{whole}.{thousandths:03d}"
    if whole < 2**43:
        assert to_ns([float(text)], 1000).tolist() == [whole * 1000 + thousandths]
    assert to_ns([text], 1000).tolist() == [whole * 1000 + thousandths]


def test_epoch_microseconds_with_decimals_keep_their_nanoseconds(tmp_path: Path) -> None:
    # 1.76e15 us with three decimals: a double's step there is 0.25 us
    path = tmp_path / "t.json"
    first, second = "1763597818861916.101", "1763597818861916.359"
    rows = [json.dumps(kernel(0.0, 0.0, 0, "a")), json.dumps(kernel(0.0, 0.0, 0, "b"))]
    body = [row.replace('"ts": 0.0', f'"ts": {ts}').replace('"dur": 0.0', '"dur": 0.217') for row, ts in
            zip(rows, (first, second), strict=True)]  # fmt: skip
    path.write_text('{"traceEvents": [' + ", ".join(body) + "]}")
    rec = open_recording([path])
    assert rec.kernels["start_ns"].tolist() == [1763597818861916101, 1763597818861916359]
    assert rec.kernels["dur_ns"].tolist() == [217, 217]


def test_64_bit_stream_handles_and_both_spellings_of_external_id(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    rows = [kernel(1.0, 1.0, 1, "a"), kernel(2.0, 1.0, 2, "b")]
    rows[0]["args"] |= {"stream": 2**63 + 5, "External id": 4}
    rows[1]["args"] |= {"stream": "stream 7", "external id": 5}
    path.write_text(json.dumps({"traceEvents": [*rows, launch(0.0, 1), launch(0.5, 2)]}))
    rec = open_recording([path])
    assert rec.kernels["stream"].tolist() == [2**63 + 5 - 2**64, 7]


def test_one_event_of_another_type_costs_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    odd = kernel(3.0, 1.0, 1, "odd")
    odd["args"]["correlation"] = "12"
    odd["args"]["device"] = 1.0
    path.write_text(json.dumps({"traceEvents": [*events(), odd]}))
    rec = open_recording([path])
    assert len(rec.kernels) == 41
    assert rec.kernels["correlation"][-1] == 12
    assert rec.outcome is Outcome.OK


def test_bad_utf8_keeps_two_names_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = json.dumps({"traceEvents": [kernel(1.0, 1.0, 1, "n_A"), kernel(2.0, 1.0, 2, "n_B"), launch(0.0, 1)]})
    path.write_bytes(text.encode().replace(b"n_A", b"n_\xff").replace(b"n_B", b"n_\xfe"))
    rec = open_recording([path])
    assert rec.names("kernels") == ["n_\\xff", "n_\\xfe"]
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


BAD = {
    "missing": (None, "no such file"),
    "empty": (b"", "empty"),
    "empty gzip": (gzip.compress(b""), "no data"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "a PNG image"),
    "prose": (b"Traceback (most recent call last)", "no profiler data"),
    "other json": (b'{"a": 1}', "traceEvents"),
    "no events": (b'{"schemaVersion": 1, "traceEvents": []}', "no events"),
    "two documents": (b'{"traceEvents": [{"ph":"X","name":"a","ts":1,"dur":1}]}{"traceEvents": []}', "two writers"),
    "bare number": (b"[1, 2, 3]", "trace"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_input_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    content, words = BAD[what]
    path = tmp_path / "t.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=words) as caught:
        open_recording([path])
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnreadableInput, match="holds no trace"):
        open_recording([tmp_path])


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(document("plain"))
    told: list[tuple[int, int]] = []
    open_recording([path], lambda _path, read, size: told.append((read, size)))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_windows_are_arrays_of_whole_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(document("indented"))
    stream = TraceStream(path)
    found = [event for window in stream for event in window]
    assert len(found) + stream.python_functions == len(events())
    assert np.isfinite([float(e.ts) for e in found]).all()


def test_grids_of_hip_ext_module_launches_are_divided_by_their_blocks(tmp_path: Path) -> None:
    # MI300X: N = 201,088 in tiles of 448 columns is 449 workgroups of 256; kineto writes 114,944 work-items
    path = tmp_path / "t.json"
    grids = {"grid": [114944, 1, 1], "block": [256, 1, 1]}
    rows = [
        launch(0.0, 1, "hipExtModuleLaunchKernel"),
        launch(0.5, 2, "hipLaunchKernel"),
        kernel(1.0, 1.0, 1, "Cijk_A_MT448x32x64", **grids),
        kernel(2.0, 1.0, 2, "triton", **grids),
    ]
    path.write_text(json.dumps({"traceEvents": rows}))
    rec = open_recording([path])
    assert [rec.dims[i] for i in rec.kernels["grid"].tolist()] == [(449, 1, 1), (114944, 1, 1)]
