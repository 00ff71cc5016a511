"""The control socket: whatever a client does, the guest serves the next one, and only its own user."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest_kit import ask, files, only, read, run, start

from m3probe.schema import control, frames, records

WAITING = """
worker(); print("up", flush=True)
time.sleep(120)
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a guest that waits."""
    folder = tmp_path_factory.mktemp("guest")
    process = start(folder, WAITING)
    yield folder / "run" / f"{process.pid}.sock"
    process.kill()
    process.wait()


def connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(10)
    made.connect(str(path))
    return made


def test_it_says_who_it_is(guest: Path) -> None:
    status = ask(guest, control.Hello())
    assert isinstance(status, control.Status)
    assert (status.pid, status.role, status.level) == (int(guest.stem), "worker", 1)
    assert (status.protocol, status.late, status.left_behind, status.folder) == (control.PROTOCOL, False, (), "")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<II", 5, 0) + b"wrong",
        struct.pack("<II", 2**32 - 1, 0),
        struct.pack("<II", 0, 0),
        frames.frame({"m": "hello", "protocol": "x"}),
        frames.frame({"m": "__import__"}),
        frames.frame([1, 2, 3]),
        frames.frame(control.Arm(folder="x", owner="y"))[:-1],
        os.urandom(4096),
    ],
)
def test_garbage_is_refused_or_dropped_and_the_next_client_is_served(guest: Path, sent: bytes) -> None:
    with connected(guest) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        try:
            got = b"".join(iter(lambda: connection.recv(65536), b""))
        except ConnectionResetError:
            got = b""
    if got:
        assert b"refused" in got
    assert isinstance(ask(guest, control.Hello()), control.Status)


def test_a_client_that_sends_a_byte_now_and_then_holds_it_up_for_two_seconds_at_most(guest: Path) -> None:
    with connected(guest) as slow:
        slow.sendall(struct.pack("<I", 1000))
        started = time.monotonic()
        with connected(guest) as other:
            other.sendall(frames.frame(control.Hello()))
            other.settimeout(0.3)
            got = b""
            while not got and time.monotonic() - started < 8:
                try:
                    got = other.recv(65536)
                except TimeoutError:
                    try:
                        slow.send(b"x")
                    except OSError:
                        continue
        assert got
        assert 1.5 < time.monotonic() - started < 4


def test_the_socket_and_its_folder_are_its_user_s_alone(guest: Path) -> None:
    assert guest.stat().st_mode & 0o777 == 0o600
    assert guest.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_gets_nothing_even_where_the_folder_lets_it_in(guest: Path) -> None:
    """The check of the peer stands by itself: here the file's own protection is taken away."""
    script = (
        "import os, socket, sys; from m3probe.schema import control, frames\n"
        "c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); os.setuid(65534)\n"
        "c2 = socket.socket(socket.AF_UNIX); c2.connect(sys.argv[1]); c2.sendall(frames.frame(control.Hello()))\n"
        "c2.settimeout(5)\n"
        "try: print(len(c2.recv(100)))\n"
        "except ConnectionResetError: print(0)\n"
    )
    opened = [path for path in guest.parents if not path.stat().st_mode & 0o001]
    before = [(path, path.stat().st_mode) for path in [guest, *opened]]
    try:
        for path, mode in before:
            path.chmod(mode | 0o777)
        path = os.pathsep.join([str(Path(control.__file__).parents[2]), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", script, str(guest)],
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    finally:
        for path_, mode in before:
            path_.chmod(mode)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_one_records_at_a_time_and_the_second_is_told_who(tmp_path: Path) -> None:
    process = start(tmp_path, WAITING)
    path = tmp_path / "run" / f"{process.pid}.sock"
    try:
        first = ask(path, control.Arm(folder=str(tmp_path / "one"), owner="probe A"))
        second = ask(path, control.Arm(folder=str(tmp_path / "two"), owner="probe B"))
        assert isinstance(first, control.Status)
        assert (first.level, first.owner, first.folder) == (2, "probe A", str(tmp_path / "one"))
        assert isinstance(second, control.Refused)
        assert "for probe A" in second.text
        assert str(tmp_path / "one") in second.text
        assert not (tmp_path / "two").exists()
        ended = ask(path, control.Disarm())
        assert isinstance(ended, control.Status)
        assert (ended.level, ended.owner, ended.left_behind, ended.stopped) == (1, "", (), "")
        assert isinstance(ask(path, control.Arm(folder=str(tmp_path / "two"), owner="probe B")), control.Status)
    finally:
        process.kill()
        process.wait()
    found, _ = read(files(tmp_path / "one")[0])
    assert isinstance(found[-1], records.End)
    assert found[-1].reason == "detached"
    assert not only(records.End, read(files(tmp_path / "two")[0])[0])  # it was killed


@pytest.mark.parametrize("folder", ["", "relative/x", "/proc/1/nowhere", "/dev/null/x", "/tmp/\0x"])
def test_a_folder_that_cannot_be_is_refused_and_nobody_records(guest: Path, folder: str) -> None:
    answer = ask(guest, control.Arm(folder=folder, owner="probe"))
    assert isinstance(answer, control.Refused)
    status = ask(guest, control.Hello())
    assert isinstance(status, control.Status)
    assert (status.level, status.owner, status.folder) == (1, "", "")


def test_what_no_part_can_do_is_refused_with_the_process_s_roles(guest: Path) -> None:
    answer = ask(guest, control.Twin(at=-5, steps=-1))
    assert isinstance(answer, control.Refused)
    assert answer.text


@pytest.mark.parametrize("named", ["/proc/1/nowhere", "x" * 120])
def test_without_a_socket_serving_goes_on_and_the_recording_says_why(tmp_path: Path, named: str) -> None:
    done = run(tmp_path, "print(worker().load_model())", M3PROBE="1", M3PROBE_DIR="rec", M3PROBE_RUN=named)
    assert (done.stdout.strip(), done.stderr) == ("loaded", "")
    notes = [n.text for n in only(records.Note, read(files(tmp_path / "rec")[0])[0]) if n.word == "no_socket"]
    assert len(notes) == 1
    assert "m3probe attach cannot reach this process" in notes[0]


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_folder_of_sockets_that_others_can_enter_is_not_used(tmp_path: Path, mode: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    done = run(tmp_path, "worker(); print(probe._control.why_not)")
    assert done.stdout.strip() == f"{tmp_path}/run is not this user's alone"
    assert list((tmp_path / "run").iterdir()) == []


def test_a_server_without_file_descriptors_is_heard_again_when_it_has_some(tmp_path: Path) -> None:
    script = """
import resource
worker()
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
print("up", flush=True)
time.sleep(1.0)
for fd in held: os.close(fd)
time.sleep(60)
"""
    process = start(tmp_path, script)
    try:
        started = time.monotonic()
        assert isinstance(ask(tmp_path / "run" / f"{process.pid}.sock", control.Hello()), control.Status)
        assert time.monotonic() - started < 8
    finally:
        process.kill()
        process.wait()
