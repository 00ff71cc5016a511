"""Inputs that are made to take all memory, all time or a terminal: bounded, one sentence, exit status 3 or a loss told."""

from __future__ import annotations

import json
import os
import re
import socket
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import limits_kit
import pytest
from builders import kernel, launch, step, write_trace
from limits_kit import Ran, bomb

from m3probe.errors import M3ProbeError, UnreadableInput
from m3probe.model.recording import MOST_TEXT, Strings
from m3probe.readers import chunks, kineto
from m3probe.readers.chunks import Chunks
from m3probe.readers.eval_results import read_cosines, read_scores
from m3probe.rules import load_rules
from m3probe.sources import open_recording

EVENT = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0,"stream":7,"correlation":1}},'
EVENTS = b'{"traceEvents":['
BENCH = b'{"mean_ttft_ms": 1, "request_throughput": 1, "completed": 1, "x": '
RECORD = b"INFO 11-20 10:00:00 [core.py:5] "
DEEP = b"[" * 10**6 + b"]" * 10**6
LONG = b"n" * 10**8
BOMBS = {
    "zeros.json.gz": (b"", b"\0"),
    "spaces.json.gz": (b"", b" "),
    "brackets.json.gz": (b"", b"["),
    "events.json.gz": (EVENTS, EVENT),
    "header.json.gz": (b'{"schemaVersion":1,"a":"', b"x"),
    "text.json.gz": (EVENTS + b'{"ph":"X","cat":"kernel","name":"', b"x"),
    "behind.json.gz": (EVENTS + EVENT[:-1] + b'], "a":"', b"x"),
    "page.prom.gz": (b"# TYPE vllm:x gauge\n", b'vllm:x{a="' + b"b" * 600 + b'"} 1\n'),
    "line.prom.gz": (b"# TYPE vllm:x gauge\n", b"x"),
    "a.log.gz": (b"", RECORD + b"b" * 600 + b"\n"),
    "line.log.gz": (RECORD + b"\n", b"x"),
    "bench.json.gz": (BENCH + b'"', b"x"),
    "smi.json.gz": (b'[{"gpu": 0, "usage": {"gfx_activity": 1}}', b" "),
    "a.pftrace.gz": (b"\x0a\x04\x50\x07\x40\x01" * 3, b"\x0a\xe8\x07\x50\x07\xba\x01\xe2\x07" + b"x" * 994),
    "packet.pftrace.gz": (b"\x0a\x04\x50\x07\x40\x01" * 3 + b"\x0a\xff\xff\xff\x0f", b"x"),
}
PLAIN = {
    "deep.json": b"[" * 10**6,
    "deep_object.json": EVENTS[:-1] * 10**6,
    "deep_event.json": EVENTS + EVENT + b'{"ph":"X","cat":"cpu_op","name":"d","ts":1,"dur":1,"args":{"Input Dims":' + DEEP + b"}}]}",
    "deep_header.json": b'{"deep":' + DEEP + b',"traceEvents":[' + EVENT[:-1] + b"]}",
    "deep_bench.json": BENCH + DEEP + b"}",
    "deep_smi.json": b'[{"gpu": 0, "usage": {"gfx_activity": ' + DEEP + b"}}]",
    "deep.log": b'{"levelname":"INFO","asctime":"x","message":' + DEEP + b"}\n" + RECORD + b"Hello\n",
    "long_name.json": EVENTS + EVENT + EVENT.replace(b'"k"', b'"' + LONG + b'"')[:-1] + b"]}",
    "long_value.json": BENCH + b'"' + LONG + b'"}',
    "long.log": RECORD + LONG + b"\n" + RECORD + b"Hello\n",
    "long.prom": b'# TYPE vllm:x gauge\nvllm:x{a="' + LONG + b'"} 1\nvllm:x 1\n',
    "many.prom": b"# TYPE vllm:x gauge\n" + b"".join(b'vllm:x{a="%d"} 1\n' % i for i in range(10**5)),
}  # fmt: skip


def bounded(ran: Ran, name: str) -> None:
    assert ran.status in (0, 3), (name, ran.err[-500:])
    assert ran.cpu_s < 30, name  # 5 s at most on a shared core; without bounds these take minutes
    assert ran.peak_mib < 800, (name, ran.peak_mib)
    assert "Traceback" not in ran.err and "internal fault" not in ran.err
    if ran.status == 3:
        assert ran.err.startswith("m3probe: ") and ran.err.count("\n") == 1, name
    clean(ran.out + ran.err)


def clean(text: str) -> None:
    """No byte that a terminal obeys, no mark that turns text around."""
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text) is None


def test_bombs_are_refused_early(tmp_path: Path) -> None:
    paths = [bomb(tmp_path / name, *made) for name, made in BOMBS.items()]
    for path, ran in zip(paths, limits_kit.runs([["inspect", "--no-progress", str(p)] for p in paths]), strict=True):
        bounded(ran, path.name)
        assert ran.status == 3, path.name


def test_depth_and_length_are_bounded(tmp_path: Path) -> None:
    paths = []
    for name, content in PLAIN.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    ran = dict(zip(PLAIN, limits_kit.runs([["inspect", "--no-progress", str(p)] for p in paths]), strict=True))
    for name, one in ran.items():
        bounded(one, name)
    assert {name for name, one in ran.items() if one.status == 3} == {"deep.json", "deep_object.json", "deep_bench.json", "deep_smi.json"}  # fmt: skip
    assert "1 event(s) could not be repaired" in " ".join(ran["deep_event.json"].out.split())
    assert "only their beginning was kept" in " ".join(ran["long_name.json"].out.split())


# --- gzip and growth -----------------------------------------------------------------------------------------


def test_what_inflates_as_traces_do_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path / "a.gz", b"", b"abc", 80 * 2**20)
    with pytest.raises(UnreadableInput, match="inflates more than 250-fold"):
        list(Chunks(path))
    monkeypatch.setattr(chunks, "MOST_RATIO", 1100)  # deflate's own limit lies below
    assert sum(map(len, Chunks(path))) == 10 * (8 * 2**20 // 3 * 3)


@pytest.mark.parametrize("change", ["grows", "is cut", "is replaced", "is deleted"])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4096)
    path = write_trace(tmp_path / "a.json", [kernel(10.0 * i, 2.0, 0, f"k{i}") for i in range(1, 400)])
    size = path.stat().st_size
    told = 0

    def between(*_: object) -> None:
        nonlocal told
        told += 1
        if change == "grows":
            with path.open("ab") as file:
                file.write(b" " * 8192)  # twice as fast as it is read
        elif told == 2:
            {"is cut": lambda: os.truncate(path, 9000), "is deleted": path.unlink}.get(
                change, lambda: (path.unlink(), path.write_text("{"))
            )()

    rec = open_recording([path], between)
    assert told < size // 4096 + 3
    assert rec.files[0].counts.truncated is (change == "is cut")
    assert len(rec.kernels) == 399 if change != "is cut" else 0 < len(rec.kernels) < 399


# --- names ---------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_and_stay_apart() -> None:
    strings = Strings()
    ids = {strings.intern("n" * 200_000 + end) for end in "ab"} | {strings.intern("n" * MOST_TEXT)}
    assert len(ids) == 3
    assert strings.shortened == 2
    assert max(map(len, strings.texts)) == MOST_TEXT
    assert strings.texts[0].endswith(" characters, crc32 " + strings.texts[0][-9:])


RANKS = {
    "rank7.json": 7,
    "rank999999999999.json": None,
    "rank-1.json": 1,
    "rank١٢.json": None,
    "rank²3.json": None,
    "rank" + "9" * 200 + ".json": None,
    "rank\u202e3.json": None,
    "rank.json": None,
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_of_hostile_names(name: str, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "a.json", [kernel(1.0, 2.0, 0, "k")])
    document = json.loads(path.read_text())
    document.pop("distributedInfo", None)
    named = tmp_path / name
    named.write_text(json.dumps(document))
    assert open_recording([named]).files[0].rank == RANKS[name]
    assert kineto.READER.title


DECODE = "execute_context_0(0)_generation_2(2)"
EVIL = "a\n\x1b[31m\u202e<script>alert(1)</script>]]>&\"'\x9b\udcff"


def test_names_of_files_and_kernels_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    file = EVIL.replace("/", "_") + ".json"
    write_trace(tmp_path / file, [step(0.5, 90.0, DECODE), launch(1.0, 5), kernel(5.0, 2.0, 5, EVIL[:-1])])
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkernel = "*script*"\nmax_count = 0\n')
    folder, page, units = str(tmp_path), tmp_path / "page.html", tmp_path / "units.xml"
    commands = [
        ["inspect", folder],
        ["inspect", "--json", folder],
        ["analyze", folder, "--html", str(page)],
        ["assert", str(rules), folder, "--junit", str(units)],
        ["inspect", str(tmp_path / f"{file}.gone")],
    ]
    ran = limits_kit.runs([[words[0], "--no-progress", *words[1:]] for words in commands])
    assert [one.status for one in ran] == [0, 0, 0, 1, 3]
    for one in ran:
        clean(one.out + one.err)
    assert "<script>alert(1)" not in page.read_text()
    assert ET.fromstring(units.read_bytes()).iter("testcase")


# --- what is no file -----------------------------------------------------------------------------------------


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    os.chdir(path.parent)  # a socket's name has 108 bytes
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def circle(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (fifo, "no regular file"),
    "socket": (unix_socket, "no regular file"),
    "zero": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    "full": (lambda path: path.symlink_to("/dev/full"), "no regular file"),
    "circle": (circle, "symbolic links"),
    "folder": (Path.mkdir, "holds no trace"),
    "memory": (lambda path: path.symlink_to("/proc/self/mem"), "cannot be read|reading failed"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, said = PLACES[kind]
    make(tmp_path / "x.json")
    with pytest.raises(UnreadableInput, match=said):
        open_recording([tmp_path / "x.json"])


def test_folders_that_lead_in_circles_or_too_deep_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(tmp_path / "a.json", [kernel(1.0, 2.0, 0, "k")])
    (tmp_path / "again").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for _ in range(30):  # 4,530 bytes: no path leads to its end
        Path("d" * 150).mkdir()
        os.chdir("d" * 150)
    Path("b.json").write_text("{}")
    rec = open_recording([tmp_path])
    assert len(rec.kernels) == 1
    assert any("File name too long" in note.text for note in rec.notes if note.lossy)


def test_a_folder_of_many_files_is_walked_once(tmp_path: Path) -> None:
    for i in range(3_000):
        (tmp_path / f"{i}.json").write_bytes(b'{"a": 1}')
    write_trace(tmp_path / "rank0.json", [kernel(1.0, 2.0, 0, "k")])
    rec = open_recording([tmp_path])
    assert len(rec.kernels) == 1
    assert [note.count for note in rec.notes if note.word == "ignored"] == [3_000]


# --- files beside a recording ----------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_scores, read_cosines])
@pytest.mark.parametrize("content", [DEEP, b'{"a":' * 10**6, b"\xff\xfe", b'{"accuracy": ' + b"9" * 10**6 + b"}"])
def test_deep_answers_are_one_sentence(read: Callable[[bytes], object], content: bytes) -> None:
    with pytest.raises(UnreadableInput):
        read(content)


@pytest.mark.parametrize("text", ["a = " + "[" * 10**5, "a = " + "{b=" * 10**5, "[[rule]]\nkernel = '" + "*" * 10**6 + "'\nmax_count = " + "9" * 10**5])  # fmt: skip
def test_deep_rules_are_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(M3ProbeError):
        load_rules(path)
