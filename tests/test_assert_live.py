"""``assert --live`` on the command line: what it refuses, what it gives back, what it keeps, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attach_kit import FakeVllm, Heard, guest, serving
from guest_kit import ask

from m3probe import live_assert
from m3probe.attach.asked import Asked
from m3probe.live_assert import Recorder, recorder
from m3probe.schema.control import Hello, Status
from m3probe.schema.roles import Level

RULES = '[[rule]]\npath = "moe_backend"\nverdict = "executed"\n'
SLEEPS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rules, of short sockets, and of what is temporary."""
    for name in ("run", "tmp"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("M3PROBE_RUN", str(tmp_path / "run"))
    return tmp_path


def begun(home: Path, *words: str) -> subprocess.Popen[str]:
    env = dict(os.environ) | {"TMPDIR": str(home / "tmp"), "COLUMNS": "200"}
    command = [sys.executable, "-P", "-m", "m3probe", "assert", "rules.toml", *words]
    return subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asserted(home: Path, *words: str) -> tuple[int, str, str]:
    """(exit status, stdout, stderr)."""
    process = begun(home, *words)
    out, err = process.communicate(timeout=90)
    return process.returncode, out, err


def status_of(home: Path, process: subprocess.Popen[str]) -> Status:
    said = ask(home / "run" / f"{process.pid}.sock", Hello())
    assert isinstance(said, Status)
    return said


def left_in(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "tmp").iterdir())


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: PATH"),
        (("--live", "nonsense"), "no pid, no http"),
        (("t.json", "--steps", "3"), "--steps says how a running server is recorded. Name it with --live"),
        (("t.json", "--out", "d"), "--out says how a running server is recorded"),
        (("--live", "auto", "--steps", "0"), "no whole number"),
    ],
)
def test_words_that_do_not_go_together_are_a_usage_error(home: Path, words: tuple[str, ...], said: str) -> None:
    status, out, err = asserted(home, *words)
    assert (status, out) == (2, "")
    assert said in err


def test_a_fault_in_the_rules_is_told_before_a_server_is_touched(home: Path) -> None:
    (home / "rules.toml").write_text('[[rule]]\npath = "graph_repaly"\nverdict = "executed"\n')
    with guest(home / "run", "worker") as process:
        before = status_of(home, process).step
        status, _, err = asserted(home, "--live", str(process.pid))
        asked = status_of(home, process).step - before
    assert status == 2
    assert "graph_replay" in err
    assert asked == 5  # our own question alone: each one counts 5


def test_a_pid_that_is_gone_is_3_with_the_sentence_and_nothing_is_left(home: Path) -> None:
    status, out, err = asserted(home, "--live", "4194305", "--junit", "j.xml")
    assert (status, out) == (3, "")
    assert err == "m3probe: pid 4194305: no such process. It has ended, or is not visible here\n"
    assert "no such process" in (home / "j.xml").read_text()
    assert left_in(home) == []


def test_an_address_whose_processes_are_not_reached_is_3(home: Path) -> None:
    with serving(FakeVllm()) as url:
        status, _, err = asserted(home, "--live", url, "--seconds", "1")
    assert status == 3
    assert "only its address is reached, and what ran is told by its processes" in err
    assert left_in(home) == []


def test_a_server_without_a_guest_is_3_and_told_how_to_get_one(home: Path) -> None:
    """A process that looks like vLLM's API server to whoever reads its command line."""
    command = [*SLEEPS, "vllm.entrypoints.openai.api_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        status, _, err = asserted(home, "--live", str(process.pid))
        process.kill()
    assert status == 3
    assert "no process of the server can be recorded" in err
    assert "--inject" in err
    assert left_in(home) == []


def test_a_folder_that_holds_something_is_no_place_for_a_recording(home: Path) -> None:
    with guest(home / "run", "worker") as process:
        status, _, err = asserted(home, "--live", str(process.pid), "--seconds", "1", "--out", "run")
        assert status_of(home, process).level is Level.LEDGER
    assert status == 2
    assert "the folder is not empty" in err


# --- what is given back and kept ----------------------------------------------------------------------------------------


def test_a_server_that_nothing_ran_on_leaves_its_rules_inconclusive_and_the_recording_kept(home: Path) -> None:
    with guest(home / "run", "worker") as process:
        status, out, err = asserted(home, "--live", str(process.pid), "--seconds", "1.5")
        after = status_of(home, process)
    assert status == 4, err
    assert out.startswith("inconclusive  rule 1: path moe_backend: executed")
    assert (after.level, after.hooks) == (Level.LEDGER, 2)
    (name,) = left_in(home)
    assert f"the recording is kept in {home / 'tmp' / name}" in err
    kinds = sorted(path.name.split("-")[0] for path in (home / "tmp" / name).iterdir())
    assert kinds == ["host", "manifest.json", "worker"]


def test_a_folder_that_is_named_is_kept_and_a_log_beside_it_is_read(home: Path) -> None:
    (home / "server.log").write_text(
        "(Worker_TP0 pid=1) INFO 11-20 10:00:00 [mxfp8.py:1] Using 'AITER' MxFp8 MoE backend.\n"
    )
    with guest(home / "run", "worker") as process:
        words = ("server.log", "--live", str(process.pid), "--seconds", "1.5", "--out", "kept", "--json")
        status, out, err = asserted(home, *words)
    assert status == 4, err
    assert "a log says what was chosen, not what ran" in out
    assert (home / "kept" / "manifest.json").exists()
    assert left_in(home) == []


@pytest.mark.parametrize(("status", "kept"), [(0, False), (1, True), (4, True)])
def test_only_what_some_rule_did_not_hold_on_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, kept: bool
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    told = Heard()
    with recorder(Asked("auto"), told) as made:
        assert made.folder.is_dir()
        made.judged(status)
    assert made.folder.exists() is kept
    assert told.said == ([f"the recording is kept in {made.folder}"] if kept else [])


@pytest.mark.parametrize(
    ("asked", "steps", "seconds"),
    [
        (Asked("auto"), 200, None),
        (Asked("auto", seconds=5.0), None, 5.0),
        (Asked("auto", steps=7), 7, None),
        (Asked("auto", steps=7, seconds=5.0), 7, 5.0),
    ],
)
def test_a_recording_always_has_an_end(asked: Asked, steps: int | None, seconds: float | None) -> None:
    with recorder(asked, Heard()) as made:
        bounds = made.asked
    assert (bounds.steps, bounds.seconds, bounds.guests) == (steps, seconds, True)
    assert bounds.idle_s == 60.0


# --- how it ends ----------------------------------------------------------------------------------------------------


def test_ctrl_c_gives_everything_back_and_is_130(home: Path) -> None:
    with guest(home / "run", "worker") as process:
        checking = begun(home, "--live", str(process.pid), "--steps", "1000000", "--junit", "j.xml")
        deadline = time.monotonic() + 60
        while status_of(home, process).level is not Level.ARMED and time.monotonic() < deadline:
            time.sleep(0.1)
        checking.send_signal(signal.SIGINT)
        out, err = checking.communicate(timeout=60)
        after = status_of(home, process)
    assert (checking.returncode, out) == (130, "")
    assert err.endswith("m3probe: interrupted\n")
    assert (after.level, after.hooks) == (Level.LEDGER, 2)
    assert left_in(home) == []
    assert "interrupted or killed before it had judged" in (home / "j.xml").read_text()


def test_a_server_that_makes_no_step_ends_the_recording(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine alone counts no step of a worker; without an end of its own it would be waited for without one."""
    monkeypatch.setattr(live_assert, "IDLE_S", 1.0)
    told = Heard()
    with guest(home / "run", "engine") as process:
        began = time.monotonic()
        with recorder(Asked(str(process.pid), steps=10**6, out=home / "rec"), told) as made:
            assert isinstance(made, Recorder)
            assert made.record() == home / "rec"
        assert 1.0 <= time.monotonic() - began < 30.0
        assert status_of(home, process).level is Level.LEDGER
    assert "then none ran for 1 s: send requests meanwhile" in told.said[-1]
