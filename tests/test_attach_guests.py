"""Guests in real processes: armed, watched, disarmed; one that dies, one that refuses, an attach that was killed."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from attach_kit import Heard, guest

from m3probe.attach import attaching, guests, servers, verifying
from m3probe.attach import proc as processes
from m3probe.attach.asked import Asked
from m3probe.attach.attaching import attach
from m3probe.attach.guests import Unreached
from m3probe.attach.proc import PROC
from m3probe.attach.servers import Member, Server
from m3probe.attach.verifying import AskedVerify, verify
from m3probe.errors import UnreadableInput, UsageError
from m3probe.schema import records
from m3probe.schema.control import Arm
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as records_in
from m3probe.schema.roles import Role

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sockets of one's own; a socket's path is at most 107 bytes, so it is short."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("M3PROBE_RUN", str(folder))
    return folder


@pytest.fixture
def server(run: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts guests; together they are the one server that is found."""
    members: list[Member] = []
    with ExitStack() as stack:

        def start(role: str, **how: object) -> subprocess.Popen[str]:
            process = stack.enter_context(guest(run, role, **how))  # type: ignore[arg-type]
            seen = processes.look(process.pid)
            assert seen is not None
            members.append(Member(seen, Role(role), f"VLLM::{role}"))
            return process

        monkeypatch.setattr(servers, "find", lambda *_: Server(tuple(members)))
        monkeypatch.setattr(attaching, "address_of", lambda *_: None)
        yield start


def kept(folder: Path, pid: int) -> list[records.AnyRecord]:
    """Records of one process's file."""
    (file,) = folder.glob(f"*-{pid}-*.m3p")
    return list(records_in(file.read_bytes(), Cut(), len(MAGIC)))


def test_a_recording_by_seconds_arms_and_disarms_every_guest(server: Start, tmp_path: Path) -> None:
    worker, engine = server("worker"), server("engine", word="2")
    report = attach(Asked("auto", seconds=2.0, out=tmp_path / "out"), Heard())
    assert (report.outcome, report.ended, report.first, report.losses) == ("recorded", "seconds", (), ())
    rows = {row.pid: row for row in report.processes}
    assert set(rows) == {worker.pid, engine.pid}
    for row in rows.values():
        assert (row.state, row.hooks_before, row.hooks_armed, row.hooks_after) == ("recorded", 2, 9, 2)
        assert isinstance(kept(tmp_path / "out", row.pid)[-1], records.End)
    assert report.steps >= 10  # each question adds five
    assert report.differences == (f"VLLM_X: 1 in worker 0 (pid {worker.pid}); 2 in engine 0 (pid {engine.pid})",)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["pid"] == os.getpid()


def test_the_number_of_steps_ends_it(server: Start, tmp_path: Path) -> None:
    server("worker")
    report = attach(Asked("auto", steps=11, out=tmp_path / "out"), Heard())
    assert (report.ended, report.steps) == ("steps", report.processes[0].steps)
    assert report.steps >= 11


def test_a_late_guest_is_the_first_thing_said(server: Start, tmp_path: Path) -> None:
    server("worker", late=True)
    heard = Heard()
    report = attach(Asked("auto", seconds=1.0, out=tmp_path / "out"), heard)
    assert "1 of 1 workers were not watched" in report.first[0]
    assert [word for word in ("unproven", "--profile-steps", "--eager-twin") if word not in report.first[0]] == []
    assert report.first[0] in heard.said


def test_a_version_that_was_never_checked_is_told(server: Start) -> None:
    server("worker")
    (note,) = attach(Asked("auto", once=True), Heard()).notes
    assert note.startswith("vLLM 0.99.0 is none of those whose seams were checked (0.24.0, ")


def test_a_process_that_dies_while_it_is_recorded_is_lost_and_its_records_are_kept(
    server: Start, tmp_path: Path
) -> None:
    worker, engine = server("worker"), server("engine")
    heard = Heard()
    heard._then = lambda: worker.send_signal(signal.SIGKILL) if heard.shown == 2 else None
    report = attach(Asked("auto", seconds=5.0, out=tmp_path / "out"), heard)
    rows = {row.pid: row for row in report.processes}
    assert (rows[worker.pid].state, rows[engine.pid].state) == ("lost", "recorded")
    assert report.outcome == "partial"
    assert "the process has ended; what it had written is kept" in report.losses[0]
    assert any(isinstance(record, records.Sample) for record in kept(tmp_path / "out", worker.pid))
    assert rows[engine.pid].hooks_after == 2


def test_when_all_die_the_recording_ends_by_itself_with_what_there_is(server: Start, tmp_path: Path) -> None:
    worker, heard = server("worker"), Heard()
    heard._then = lambda: worker.send_signal(signal.SIGKILL) if heard.shown >= 2 and heard.recorded else None
    report = attach(Asked("auto", out=tmp_path / "out"), heard)
    assert (report.outcome, report.ended) == ("partial", "the server has ended")


def test_a_process_gone_between_list_and_attach_is_named_and_the_others_go_on(server: Start, tmp_path: Path) -> None:
    gone, worker = server("engine"), server("worker")
    gone.kill()
    gone.wait()
    report = attach(Asked("auto", seconds=1.0, out=tmp_path / "out"), Heard())
    rows = {row.pid: row for row in report.processes}
    assert (rows[gone.pid].state, rows[worker.pid].state) == ("gone", "recorded")
    assert "gone between list and attach" in rows[gone.pid].text


def test_an_interrupt_ends_it_in_order(server: Start, tmp_path: Path) -> None:
    worker, heard = server("worker"), Heard()
    heard._then = lambda: os.kill(os.getpid(), signal.SIGTERM) if heard.shown == 2 else None
    report = attach(Asked("auto", out=tmp_path / "out"), heard)
    assert (report.outcome, report.ended) == ("recorded", "interrupted")
    assert isinstance(kept(tmp_path / "out", worker.pid)[-1], records.End)


def test_a_second_attach_is_refused_with_the_first_ones_name_and_may_take_over(server: Start, tmp_path: Path) -> None:
    worker = server("worker")
    first = tmp_path / "first"
    first.mkdir()
    path = servers.socket_of(processes.look(worker.pid), processes.look(worker.pid))  # type: ignore[arg-type]
    guests.ask(worker.pid, path, Arm(folder=str(first), owner="m3probe attach, pid 999999999"))
    with pytest.raises(UnreadableInput) as refused:
        attach(Asked("auto", seconds=1.0, out=tmp_path / "second"), Heard())
    assert "for m3probe attach, pid 999999999" in refused.value.what
    assert refused.value.next_move.startswith("That one has ended without stopping it: --take-over")
    assert not (tmp_path / "second").exists()
    report = attach(Asked("auto", seconds=1.0, out=tmp_path / "second", take_over=True), Heard())
    assert report.outcome == "recorded"
    assert isinstance(kept(first, worker.pid)[-1], records.End)


def test_a_server_without_guests_is_refused_with_both_ways_in(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        seen = processes.look(process.pid)
        assert seen is not None
        monkeypatch.setattr(servers, "find", lambda *_: Server((Member(seen, Role.API, "API server"),)))
        with pytest.raises(UnreadableInput) as refused:
            attach(Asked("auto", seconds=1.0), Heard())
        process.kill()
    assert f"api (pid {process.pid}): no guest in it" in refused.value.what
    assert "vllm.general_plugins" in refused.value.next_move
    assert "--inject" in refused.value.next_move


def test_twin_steps_without_a_worker_are_refused(server: Start) -> None:
    server("engine")
    with pytest.raises(UsageError, match="--eager-twin needs a guest in every worker"):
        attach(Asked("auto", seconds=1.0, twin=3), Heard())


def test_a_socket_that_another_process_holds_is_not_spoken_to(run: Path) -> None:
    path = run / "1.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(Unreached, match=f"held by pid {os.getpid()}"):
            guests.status(1, path)


def test_a_folder_that_others_can_enter_is_not_used(run: Path) -> None:
    run.chmod(0o755)
    with pytest.raises(Unreached, match="not this user's alone"):
        guests.status(1, run / "1.sock")


def test_the_socket_of_a_killed_process_is_removed_and_one_that_answers_is_not(run: Path) -> None:
    dead, alive = run / "4194304.sock", run / "4194305.sock"  # above the largest pid that Linux gives
    with socket.socket(socket.AF_UNIX) as left, socket.socket(socket.AF_UNIX) as listening:
        left.bind(str(dead))
        left.close()
        listening.bind(str(alive))
        listening.listen()
        assert guests.sweep(PROC) == 1
    assert (dead.exists(), alive.exists()) == (False, True)


@pytest.mark.parametrize(("state", "code"), [("holds", 0), ("broken", 1), ("cannot verify", 4)])
def test_verify_tells_each_ranks_verdict_and_exits_by_the_worst(server: Start, state: str, code: int) -> None:
    worker = server("worker", word=state)
    report = verify(AskedVerify("model.layers.0.mlp", wait_s=10.0), Heard())
    (rank,) = report.ranks
    assert (rank.pid, rank.rank, rank.state, rank.cosine, rank.rows) == (worker.pid, 0, state, 0.5, 4)
    assert report.exit_code == code


def test_a_rank_that_never_answers_cannot_be_verified(server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server("worker")
    monkeypatch.setattr(verifying, "_verified", lambda *_: pytest.fail("no record of this module was written"))
    monkeypatch.setattr(verifying, "_refusal", lambda *_: "")
    report = verify(AskedVerify("m", wait_s=1.0), Heard())
    assert (report.ranks[0].text, report.exit_code) == ("no step without replay within 1 s", 4)
