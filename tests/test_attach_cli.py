"""``m3probe attach`` and ``verify`` on the command line: words, exit status, text and JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attach_kit import FakeVllm, guest, serving
from jsonschema import Draft202012Validator
from tree import ROOT

from m3probe.model.attach_report import (
    AttachReport,
    Now,
    NowRow,
    Offer,
    ProcessReport,
    VerifiedRank,
    VerifyReport,
    Window,
)
from m3probe.present.attach_progress import narration
from m3probe.present.attach_text import attach_text, progress_line, progress_rows, verify_text
from m3probe.present.json import plain_json

SCHEMA = json.loads((ROOT / "docs" / "attach.schema.json").read_text())


def m3probe(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with a folder of sockets of its own."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-P", "-m", "m3probe", *words]
    env = dict(os.environ) | {"M3PROBE_RUN": str(run), "COLUMNS": "200"}
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attach"], "required"),
        (["attach", "nonsense"], "no pid, no http"),
        (["attach", "0"], "no pid"),
        (["attach", "auto", "--seconds", "-1"], "no number of seconds"),
        (["attach", "auto", "--seconds", "nan"], "no number of seconds"),
        (["attach", "http://h", "--header", "broken"], "no header"),
        (["attach", "http://user:pw@h"], "without user, password or query"),
        (["verify", "auto"], "--module"),
        (["verify", "http://h", "--module", "m"], "not its address"),
    ],
)
def test_words_that_ask_for_nothing_possible_are_a_usage_error(tmp_path: Path, words: list[str], said: str) -> None:
    done = m3probe(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_pid_that_is_gone_exits_with_3_and_one_sentence(tmp_path: Path) -> None:
    done = m3probe(tmp_path, "attach", "4194305")
    assert done.returncode == 3
    assert done.stderr == "m3probe: pid 4194305: no such process. It has ended, or is not visible here\n"


def test_one_look_at_an_address_prints_json_of_its_schema_and_makes_no_folder(tmp_path: Path) -> None:
    with serving(FakeVllm()) as url:
        done = m3probe(tmp_path, "attach", url, "--once", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(found)
    assert (found["outcome"], found["url"], found["version"]) == ("looked", url, "0.32.0")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_guest_is_recorded_into_a_new_folder_here_that_stdout_names(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    with guest(tmp_path / "run", "worker") as process:
        done = m3probe(tmp_path, "attach", str(process.pid), "--seconds", "1.5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(found)
    folder = Path(found["folder"])
    assert folder.parent == tmp_path
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["host", "manifest.json", "worker"]
    assert f"recording into {folder}" in done.stderr


def test_a_key_given_as_a_header_is_in_no_file_of_the_recording(tmp_path: Path) -> None:
    with serving(FakeVllm()) as url:
        done = m3probe(
            tmp_path, "attach", url, "--seconds", "1", "--out", "out", "--header", "Authorization: Bearer sesame"
        )
    assert done.returncode == 0, done.stderr
    files = [path.read_bytes() for path in (tmp_path / "out").iterdir()]
    assert len(files) == 2
    assert not any(b"sesame" in data for data in files)


@pytest.mark.parametrize(("state", "code"), [("holds", 0), ("broken", 1), ("cannot verify", 4)])
def test_verify_exits_by_its_verdict_and_prints_it_for_each_rank(tmp_path: Path, state: str, code: int) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    with guest(tmp_path / "run", "worker", word=state) as process:
        done = m3probe(tmp_path, "verify", str(process.pid), "--module", "model.layers.0.mlp")
    assert done.returncode == code, done.stderr
    assert state in done.stdout
    assert "0.500000" in done.stdout


REPORT = AttachReport(
    target="7",
    outcome="partial",
    first=("late first",),
    losses=("worker 1: \x1b[31mlost",),
    processes=(
        ProcessReport(7, "api", "API server", "recorded", hooks_before=1, hooks_armed=4, hooks_after=1),
        ProcessReport(8, "worker", "VLLM::Worker_TP0", "recorded", rank=0, late=True, steps=1200, records=3, bytes=2500,
                      hooks_before=3, hooks_armed=30, hooks_after=4, left_behind=("a.b",), fds=9, fd_soft=1024),
    ),
    offers=(Offer("/server_info", "absent", "not offered", "start with X"),),
    windows=(Window("profile", 8, "done", path="t.json.gz", steps=10, before_steps_per_s=50.0, after_steps_per_s=49.0),),
    folder="/r",
    seconds=2.0,
    steps=1200,
    bytes=1_500_000,
    ended="seconds",
)  # fmt: skip


def test_the_text_says_first_what_must_be_known_first_and_escapes_foreign_words() -> None:
    lines = attach_text(REPORT, 120, color=False).splitlines()
    assert lines[2] == "! late first"
    assert lines[3] == "! worker 1: \\x1b[31mlost"
    text = "\n".join(lines)
    assert "30 hooks were put on and 29 taken off; 1 of 2 processes have every attribute back" in text
    assert "would give more: start with X" in text
    assert "profile: pid 8: done, 10 steps; 50.0 steps/s before, 49.0 after; t.json.gz" in text
    assert "1.5 MB" in text


@pytest.mark.parametrize("width", [20, 60, 100])
def test_no_line_is_wider_than_the_terminal_and_ascii_is_ascii(width: int) -> None:
    text = attach_text(REPORT, width, color=False, ascii_only=True)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_both_reports_are_of_their_schema() -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(plain_json(REPORT)))
    verified = VerifyReport("m", (VerifiedRank(7, 0, "holds", 0.9999, 0.01, 32), VerifiedRank(8, 1, "cannot verify")))
    written = json.loads(plain_json(verified))
    assert written["ranks"][0]["cosine"] == 0.9999
    assert verified.exit_code == 4
    assert "cannot verify" in verify_text(verified, 80, color=False)


def test_progress_tells_rates_rows_bytes_and_drops_of_those_recorded() -> None:
    rows = (NowRow("worker 0", "recorded", 41.26, 1234, 9, 2000, 3), NowRow("api", "no guest", None, -1, -1, -1, -1))
    now = Now(12.4, 500, rows, 3.0, 1.0)
    assert progress_line(now) == "12 s, 500 steps, 3 running, 1 waiting"
    assert progress_rows(now) == [("worker 0", "41.3", "1,234", "9", "2.0 kB", "3")]


def test_into_a_pipe_only_narration_is_written() -> None:
    said: list[str] = []
    with narration(said.append, drawn=False) as told:
        told.show(Now(1.0, 1, ()))
        told.say("a\x07b")
    assert said == ["a\\x07b"]
