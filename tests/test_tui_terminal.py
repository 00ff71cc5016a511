"""``m3probe tui`` in real terminals: what is drawn, what is not, and that the terminal is its owner's again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from terminal_kit import HUE, SAMPLE, Asked, command, in_terminal
from tree import shared_or_skip

SHOWN, HIDDEN = b"\x1b[?1049h", b"\x1b[?1049l"
"""Into the alternate screen and out of it."""


def rows() -> list[dict[str, str]]:
    return json.loads(shared_or_skip("cases/t01_tui_env.json").read_text())["rows"]


NAMES = ("stdin-pipe", "stdout-pipe", "nothing", "dumb", "latin1", "lang-c", "40x10", "0x0", "no-color")


@pytest.mark.parametrize("at", range(9), ids=NAMES)
def test_each_row_of_the_environments(at: int, tmp_path: Path) -> None:
    row = rows()[at]
    env = {key: row[key] for key in ("TERM", "LANG", "NO_COLOR") if key in row}
    columns, lines = (int(n) for n in row.get("size", "80x24").split("x"))
    stdout = "tty" if row["stdout"] == "tty" else "file"
    ran = in_terminal(Asked(size=(columns, lines), stdin=row["stdin"], stdout=stdout), tmp_path, **env)
    assert ran.code == 0
    assert b"Traceback" not in ran.screen + ran.err
    assert ran.restored
    drawn = SHOWN in ran.screen
    assert drawn == (stdout == "tty" and row["TERM"] != "dumb")
    assert ran.screen.count(SHOWN) == ran.screen.count(HIDDEN)
    if not drawn:
        text = ran.out or ran.screen
        assert b"\x1b" not in text + ran.err
        assert b"Trust" in text
        assert b"the report as text instead of screens" in ran.err + ran.screen
    if row.get("LANG"):
        assert max(ran.screen) < 0x80
    if row.get("NO_COLOR"):
        assert not HUE.search(ran.screen)
        assert b"\x1b[7m" in ran.screen or b";7m" in ran.screen  # the cursor is reversed instead
    if (columns, lines) == (40, 10):
        assert b"too small" in ran.screen


def test_colour_codes_are_seen_where_they_are(tmp_path: Path) -> None:
    assert HUE.search(in_terminal(Asked(), tmp_path).screen)


def test_without_any_terminal_one_line_says_why_and_nothing_is_drawn(tmp_path: Path) -> None:
    ran = in_terminal(Asked(stdin="pipe", owned=False), tmp_path)
    assert ran.code == 2
    assert SHOWN not in ran.screen
    assert b"stdin is no terminal and /dev/tty cannot be opened" in ran.screen
    assert len(ran.screen.splitlines()) == 1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Asked(send=signal.SIGTERM), 143),
        (Asked(send=signal.SIGINT), 130),
        (Asked(send=signal.SIGHUP), 129),
        (Asked(keys=b"\x03"), 130),
        (Asked(("no-such-file.json",), when=b"Nothing can be shown"), 3),
    ],
    ids=["sigterm", "sigint", "sighup", "ctrl-c", "missing"],
)
def test_however_it_ends_the_terminal_is_given_back(asked: Asked, code: int, tmp_path: Path) -> None:
    ran = in_terminal(asked, tmp_path)
    assert (ran.code, ran.restored) == (code, True)
    assert ran.screen.count(SHOWN) == ran.screen.count(HIDDEN) == 1
    assert ran.screen.rindex(b"\x1b[?25h") > ran.screen.index(SHOWN)
    assert b"Traceback" not in ran.screen


@pytest.mark.parametrize(
    "before",
    [
        (signal.SIGTSTP, signal.SIGCONT),
        (signal.SIGTSTP, signal.SIGCONT, signal.SIGTSTP, signal.SIGCONT),
        (signal.SIGSTOP, signal.SIGCONT),
        (signal.SIGCONT,),
    ],
    ids=["stop", "stop-twice", "stop-unasked", "go-on-alone"],
)
def test_after_a_stop_keys_work_and_the_terminal_is_given_back(before: tuple[int, ...], tmp_path: Path) -> None:
    ran = in_terminal(Asked(before=before), tmp_path)
    assert (ran.code, ran.restored) == (0, True)
    assert ran.screen.count(SHOWN) == ran.screen.count(HIDDEN) == 1 + before.count(signal.SIGCONT)
    assert ran.screen.rsplit(SHOWN, 1)[1].count(b"READ")  # drawn again


def test_an_empty_term_is_told_as_text_without_one_escape(tmp_path: Path) -> None:
    ran = in_terminal(Asked(), tmp_path, TERM="")
    assert ran.code == 0
    assert b"Trust" in ran.screen
    assert b"\x1b" not in ran.screen


def test_leaving_does_not_wait_for_a_scrape_that_hangs(tmp_path: Path) -> None:
    """A server that accepts and never answers; measured 0.12 s from key to end, a scrape's own limit is 1.5 s."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        ran = in_terminal(Asked((url,), when=b"CONNECTING"), tmp_path)
    assert (ran.code, ran.restored) == (0, True)
    assert ran.ended_s < 1.0


def test_a_fault_of_the_viewer_is_one_line_and_a_file(tmp_path: Path) -> None:
    """The module that draws a page is made to fail where nothing catches it."""
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        "import m3probe.tui.widgets.page as page\n"
        "def broken(self):\n    raise RuntimeError('planted')\n"
        "page.Page.page = lambda self, by: broken(self)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = in_terminal(Asked(keys=b"\x04"), tmp_path, PYTHONPATH=paths)
    assert (ran.code, ran.restored) == (70, True)
    after = ran.screen[ran.screen.rindex(HIDDEN) :]
    assert b"internal fault (RuntimeError); the traceback is in " in after
    assert b"planted" not in after
    where = after.split(b"the traceback is in ")[1].split(b",")[0].decode()
    assert "planted" in Path(where).read_text()
    Path(where).unlink()


def test_an_option_of_a_server_without_one_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run(command("tui", "--cacert", "x", SAMPLE), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cacert says how a running server is reached" in done.stderr
    done = subprocess.run(
        command("tui", "--compare", "http://127.0.0.1:9", SAMPLE), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_screens_and_json_at_once_are_refused_before_any_server_is_touched() -> None:
    done = subprocess.run(command("attach", "1", "--tui", "--json"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--tui draws screens and --json prints for machines" in done.stderr


def test_runs_that_are_compared_are_told_as_text_in_a_pipe() -> None:
    done = subprocess.run(command("tui", "--compare", SAMPLE, SAMPLE), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "#2" in done.stdout


def test_options_of_drawing_reach_the_screen(tmp_path: Path) -> None:
    ran = in_terminal(Asked(("--ascii", "--light", SAMPLE)), tmp_path)
    assert (ran.code, max(ran.screen) < 0x80) == (0, True)


# --- tmux, with real keys --------------------------------------------------------------------------------------


class Tmux:
    """A session of a server of its own."""

    def __init__(self, tmp: Path) -> None:
        self.socket = tmp / "tmux"

    def __call__(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", str(self.socket), *words], capture_output=True, text=True, check=False)
        return done.stdout

    def wait(self, text: str, *, gone: bool = False) -> str:
        for _ in range(400):
            shown = self("capture-pane", "-p", "-t", "m")
            if (text in shown) is not gone:
                return shown
            time.sleep(0.05)
        raise AssertionError(f"{text!r} never came:\n{shown}")


@pytest.fixture
def tmux(tmp_path: Path) -> Tmux:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not here")
    return Tmux(tmp_path)


def test_keys_work_in_tmux_and_the_shell_comes_back(tmux: Tmux) -> None:
    kept = {key: os.environ[key] for key in ("PYTHONPATH", "PATH") if key in os.environ}
    words = " ".join(command("tui", SAMPLE))
    env = " ".join(f"{key}={value}" for key, value in kept.items())
    tmux(
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-s",
        "m",
        "-x",
        "100",
        "-y",
        "30",
        "env",
        "-i",
        "TERM=screen-256color",
        "LANG=C.UTF-8",
        *env.split(),
        "sh",
    )
    try:
        tmux("send-keys", "-t", "m", f"{words}; echo ended $?", "Enter")
        tmux.wait("READ")
        tmux("send-keys", "-t", "m", "?")
        assert "Keys" in tmux.wait("Esc closes this")
        tmux("send-keys", "-t", "m", "Escape")
        tmux.wait("Esc closes this", gone=True)
        tmux("send-keys", "-t", "m", "o")
        tmux.wait("› sources")
        tmux("resize-window", "-t", "m", "-x", "60", "-y", "20")
        tmux.wait("q quit")
        tmux("send-keys", "-t", "m", "q")
        shown = tmux.wait("ended 0")
        assert "› sources" not in shown
    finally:
        tmux("kill-server")
