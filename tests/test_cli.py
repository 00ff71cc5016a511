"""The command line as a user meets it: exit status, streams, colour, interruption."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import kernel, launch, write_trace
from tree import ROOT

PROGRAM = Path(sys.executable).with_name("m3probe")
SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"
CASES = Path(__file__).parent / "data" / "cases"


def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    words = [str(PROGRAM), *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **env})


def test_the_result_is_on_stdout_and_nothing_else_is() -> None:
    found = run("analyze", "--json", SAMPLE)
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["trust"]["verdict"] == "complete"


def test_no_colour_reaches_a_pipe() -> None:
    for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in run("analyze", SAMPLE, **env).stdout


def test_a_terminal_gets_colour_unless_told_otherwise() -> None:
    import pty

    def shown(**env: str) -> bytes:
        master, slave = pty.openpty()
        with subprocess.Popen(
            [str(PROGRAM), "analyze", "--no-progress", str(SAMPLE)],
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", **env},
        ) as child:
            os.close(slave)
            text = b""
            while True:
                try:
                    piece = os.read(master, 65536)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
        os.close(master)
        assert child.returncode == 0
        return text

    plain = {"NO_COLOR": ""}
    assert b"\x1b[" in shown(**plain)
    assert b"\x1b" not in shown(NO_COLOR="1")


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    found = run("analyze", SAMPLE, COLUMNS=str(columns))
    assert max(len(line) for line in found.stdout.splitlines()) <= columns


def test_a_terminal_without_utf8_gets_ascii() -> None:
    found = run("analyze", SAMPLE, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert found.returncode == 0
    assert found.stdout.isascii()


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ((), 2, "usage"),
        (("analyse", SAMPLE), 2, "invalid choice"),
        (("analyze", "--tp", "0", SAMPLE), 2, "whole number"),
        (("analyze",), 2, "PATH"),
        (("analyze", "missing.json"), 3, "missing.json: no such file or folder"),
        (("inspect", "missing.json"), 3, "missing.json"),
        (("analyze", "--model-config", "missing.json", SAMPLE), 3, "missing.json"),
        (("assert", "missing.toml", SAMPLE), 3, "missing.toml"),
        (("assert", RULES, "missing.json"), 3, "missing.json"),
        (("assert", RULES, CASES / "k03_graph_kernels_dropped.json"), 4, ""),
        (("assert", RULES, SAMPLE), 0, ""),
    ],
)
def test_exit_status_and_the_words_on_stderr(args: tuple[object, ...], code: int, word: str) -> None:
    found = run(*args)
    assert found.returncode == code, found.stderr
    assert word in found.stderr
    assert "Traceback" not in found.stderr


def test_a_failed_rule_is_exit_1(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\nper_step = 57\n')
    found = run("assert", rules, SAMPLE)
    assert found.returncode == 1
    assert "57" in found.stdout


def test_findings_never_change_the_status_of_analyze() -> None:
    for case in ("k03_graph_kernels_dropped.json", "k15_truncated.json", "k30_no_gpu_events.json"):
        assert run("analyze", CASES / case).returncode == 0


def test_junit_of_an_unreadable_input_replaces_an_older_one(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text("<old/>")
    assert run("assert", RULES, tmp_path / "gone.json", "--junit", report).returncode == 3
    assert "gone.json" in report.read_text()
    assert 'errors="1"' in report.read_text()


def test_junit_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    found = run("assert", RULES, SAMPLE, "--junit", tmp_path / "no" / "junit.xml")
    assert found.returncode == 2
    assert "cannot be written" in found.stderr


def test_foreign_names_reach_the_terminal_escaped(tmp_path: Path) -> None:
    name = "k\x1b[31m_\u202eevil\x07"
    path = write_trace(tmp_path / "t.json", [launch(0.0, 1), kernel(1.0, 1.0, 1, name)])
    for verb in ("analyze", "inspect"):
        for extra in ((), ("--json",)):
            out = run(verb, *extra, path).stdout
            assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_a_file_name_with_control_bytes_is_escaped_in_the_error() -> None:
    found = run("analyze", "no\x1b[2Jsuch\n.json")
    assert found.returncode == 3
    assert "\x1b" not in found.stderr


def test_our_own_fault_is_one_sentence_and_a_file(tmp_path: Path) -> None:
    script = (
        "import sys, m3probe.pipeline as p, m3probe.cli as c\n"
        "def boom(*a): raise RuntimeError('boom')\n"
        "p.report = boom\n"
        f"sys.argv = ['m3probe', 'analyze', {str(SAMPLE)!r}]\n"
        "sys.exit(c.main())"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert found.returncode == 70
    assert "Traceback" not in found.stderr
    (written,) = tmp_path.glob("m3probe-*.txt")
    assert str(written) in found.stderr
    assert "boom" in written.read_text()


def test_ctrl_c_is_exit_130(tmp_path: Path) -> None:
    path = tmp_path / "long.json"  # some seconds of reading
    one = json.dumps(kernel(1.0, 1.0, 1, "k")).encode()
    path.write_bytes(b'{"traceEvents": [' + b",\n".join([one] * 700_000) + b"]}")
    with subprocess.Popen([str(PROGRAM), "analyze", str(path)], stderr=subprocess.PIPE, text=True) as child:
        time.sleep(0.7)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert said == "m3probe: interrupted\n"


def test_a_pipe_is_refused_with_the_next_move(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = run("analyze", tmp_path / "pipe")
    assert found.returncode == 3
    assert "no regular file" in found.stderr
    assert "Save it to a file" in found.stderr


def test_output_into_a_closed_pipe_ends_quietly() -> None:
    found = subprocess.run(
        f"{PROGRAM} analyze --json {SAMPLE} | head -c 10 >/dev/null; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stderr == ""
    assert found.stdout.strip() in {"0", "141"}


def test_several_paths_are_ranks_of_one_run(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        info = {"rank": rank, "world_size": 2}
        events = [launch(0.0, 1), kernel(1.0, 2.0 + rank, 1, "k")]
        paths.append(write_trace(tmp_path / f"r{rank}.json", events, distributedInfo=info))
    facts = json.loads(run("inspect", "--json", *paths).stdout)["facts"]
    assert facts["kernel_time_ns_by_rank"] == {"0": 2000, "1": 3000}
    assert facts["trust"] == "complete"


def test_a_gzip_of_a_gzip_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"{}")))
    found = run("analyze", path)
    assert found.returncode == 3
    assert "not JSON" in found.stderr
