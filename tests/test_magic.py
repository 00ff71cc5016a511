"""Files that are no recording: what they are, in words, that they hold no profiler data, and exit status 3."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import sys
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from m3probe import cli
from m3probe.readers.magic import kind_of


class Trap:
    """What unpickling runs."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return pytest.fail, ("it was unpickled",)


def png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    pixel = chunk(b"IDAT", zlib.compress(b"\0\0\0\0"))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
        + pixel
        + chunk(b"IEND", b"")
    )


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name in names:
            file.writestr(name, b"content " * 20)
    return made.getvalue()


def tarred() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.json"))
    return made.getvalue()


def sound() -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(400))
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.zeros(3))
    return made.getvalue()


def table(kind: str) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    made = pyarrow.BufferOutputStream()
    rows = pyarrow.table({"a": [1, 2]})
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(rows, made)
    else:
        file = pyarrow.ipc.new_file if kind == "arrow" else pyarrow.ipc.new_stream
        with file(made, rows.schema) as writer:
            writer.write_table(rows)
    return bytes(made.getvalue())


SAFETENSORS = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
KINDS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a.png": (png, "a PNG image"),
    "a.jpg": (lambda: b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(100), "a JPEG image"),
    "a.pdf": (lambda: b"%PDF-1.7\n1 0 obj\n", "a PDF document"),
    "python3": (lambda: Path(sys.executable).read_bytes()[:100_000], "an ELF program"),
    "a.parquet": (lambda: table("parquet"), "a Parquet table"),
    "a.feather": (lambda: table("arrow"), "an Arrow (Feather) table"),
    "a.arrows": (lambda: table("stream"), "an Arrow stream"),
    "a.pkl": (lambda: pickle.dumps(Trap()), "a Python pickle, which m3probe never loads"),
    "old.pkl": (lambda: pickle.dumps({"a": 1}, protocol=2), "a Python pickle"),
    "a.pt": (lambda: zipped("archive/data.pkl", "archive/version"), "a PyTorch checkpoint"),
    "a.safetensors": (lambda: struct.pack("<Q", len(SAFETENSORS)) + SAFETENSORS + bytes(4), "a safetensors checkpoint"),
    "a.zip": (lambda: zipped("a.json"), "a zip archive"),
    "a.xlsx": (lambda: zipped("[Content_Types].xml", "xl/workbook.xml"), "an Office document"),
    "a.tar": (tarred, "a tar archive"),
    "a.tar.gz": (lambda: gzip.compress(tarred()), "a tar archive inside gzip"),
    "a.html": (lambda: b"<!DOCTYPE html>\n<html><body>hello</body></html>", "an HTML page"),
    "a.xml": (lambda: b"<?xml version='1.0'?>\n<testsuite/>", "XML"),
    "a.yaml": (lambda: b"# a\n\nservices:\n  vllm:\n    image: x\n", "YAML"),
    "a.py": (lambda: b'"""Doc."""\n\nimport os\n\nprint(os)\n', "Python source"),
    "a.sh": (lambda: b"#!/bin/sh\necho\n", "a script"),
    "a.wav": (sound, "a WAV sound"),
    "a.txt.gz": (lambda: gzip.compress(b"dear diary,\n"), "text inside gzip"),
    "a.report": (lambda: b"NVR\0" + bytes(60), "Nsight Compute"),
    "a.npy": (array, "a NumPy array"),
    "a.json": (lambda: b"\x7fELF" + bytes(60), "an ELF program"),
    "a.pb": (lambda: b"\x0a\x04\x12\x02ab" * 40, "bytes of no kind that is known"),
}


def run(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["m3probe", *words])
    status = cli.main()
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("name", KINDS)
def test_inspect_says_what_it_is_and_that_it_is_no_trace(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words = KINDS[name]
    path = tmp_path / name
    path.write_bytes(make())
    status, out, err = run(["inspect", "--no-progress", str(path)], monkeypatch, capsys)
    assert (status, out) == (3, "")
    assert words in err
    assert "not a trace" in err and "no profiler data" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "move"), [("a.nsys-rep", "nsys export --type sqlite"), ("a.ncu-rep", "Record the run with nsys")]
)
def test_reports_of_nsight_are_told_by_their_name_with_the_way_on(
    name: str, move: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)))
    status, out, err = run(["inspect", "--no-progress", str(tmp_path / name)], monkeypatch, capsys)
    assert (status, out) == (3, "")
    assert "a report of Nsight" in err and move in err


def test_a_mixed_folder_holds_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.png", "a.pkl", "a.json", "a.html", "a.txt.gz", "a.tar.gz"):
        (tmp_path / name).write_bytes(KINDS[name][0]())
    (tmp_path / "empty").mkdir()
    for path in (tmp_path, tmp_path / "empty"):
        status, _, err = run(["inspect", "--no-progress", str(path)], monkeypatch, capsys)
        assert status == 3
        assert "the folder holds no trace" in err


def test_what_is_named_like_a_trace_and_is_none_is_a_loss(tmp_path: Path) -> None:
    from builders import kernel, write_trace

    from m3probe.sources import open_recording

    write_trace(tmp_path / "rank0.json", [kernel(1.0, 2.0, 0, "k")])
    (tmp_path / "rank1.pftrace").write_bytes(png())
    (note,) = [n for n in open_recording([tmp_path]).notes if n.lossy]
    assert "a PNG image" in note.text


@pytest.mark.parametrize(
    "head", [b"\n" * 60_000 + b"a", b"#\n" + b"\n" * 60_000, b"#" * 60_000, b"a:\n" * 20_000, b"<a " * 20_000, b"import a" * 8_000]
)  # fmt: skip
def test_no_text_keeps_it_busy(head: bytes) -> None:
    kind_of(head)  # a way back through every line would take hours


def test_nothing_is_nothing() -> None:
    assert (kind_of(b""), kind_of(b"\0\1\2\3")) == ("", "")
