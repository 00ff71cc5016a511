"""The command line as a user meets it: exit status, streams, colour, interruption."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
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


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A bash line in which ``m3probe`` is the installed one."""
    text = f'm3probe() {{ {shlex.quote(str(PROGRAM))} "$@"; }}; {line}'
    return subprocess.run(["/bin/bash", "-c", text], capture_output=True, text=True, check=False)


def run_without_rights(tmp_path: Path, *args: object) -> subprocess.CompletedProcess[str]:
    """Run as somebody whom mode bits stop; root is stopped by none until it gives two capabilities back."""
    drop: list[str] = []
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv") or pytest.skip("runs as root, and setpriv is not here to drop its rights")
        drop = [setpriv, "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    probe = tmp_path / "probe"
    probe.touch(mode=0o000)
    if subprocess.run([*drop, "cat", probe], capture_output=True, check=False).returncode == 0:
        pytest.skip("this user's rights cannot be dropped here")
    return subprocess.run([*drop, PROGRAM, *map(str, args)], capture_output=True, text=True, check=False)


def failing_rules(tmp_path: Path) -> Path:
    rules = tmp_path / "fail.toml"
    rules.write_text('[[rule]]\nkernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\nper_step = 57\n')
    return rules


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
        (("analyse", SAMPLE), 2, ". Did you mean analyze?"),
        (("analyze", SAMPLE, "--htlm=x"), 2, "--htlm=x. Did you mean --html?"),
        (("analyze", SAMPLE, "--gate", "4"), 2, "--gate 4. --gate is an option of compare"),
        (("analyze", SAMPLE, "--zzz"), 2, "unrecognized arguments: --zzz\n"),
        (("analyze", "--tp", "0", SAMPLE), 2, "whole number"),
        (("analyze", "--tp", "\u0663", SAMPLE), 2, "whole number from 1 to 4,096"),
        (("analyze", "--tp", "4097", SAMPLE), 2, "whole number from 1 to 4,096"),
        (("analyze", "--ep", "9" * 5000, SAMPLE), 2, "whole number from 1 to 4,096"),
        (("analyze", ""), 2, "an empty path"),
        (("assert", "", SAMPLE), 2, "an empty path"),
        (("analyze", "--model-config", "", SAMPLE), 2, "an empty path"),
        (("assert", RULES, SAMPLE, "--junit", ""), 2, "an empty path"),
        (("analyze", "a" * 300), 3, "File name too long"),
        (("inspect", "a" * 300), 3, "File name too long"),
        (("analyze", "--model-config", "a" * 300, SAMPLE), 3, "File name too long"),
        (("assert", "a" * 300, SAMPLE), 3, "File name too long"),
        (("analyze",), 2, "PATH"),
        (("analyze", "--tp", "4", "--ep", "6", SAMPLE), 2, "Give a multiple of 4"),
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
    found = run("assert", failing_rules(tmp_path), SAMPLE)
    assert found.returncode == 1
    assert "57" in found.stdout


# --- streams that are closed or full -------------------------------------------------------------------------


def test_a_failed_rule_is_exit_1_whoever_reads_the_verdict(tmp_path: Path) -> None:
    rules = failing_rules(tmp_path)
    for extra in ("", "--json"):
        line = f"m3probe assert {extra} {rules} {SAMPLE} | true; echo ${{PIPESTATUS[0]}} >&2"
        assert shell(line).stderr == "1\n"
    assert shell(f"m3probe assert {rules} {SAMPLE} >/dev/full").returncode == 1
    assert shell(f"m3probe assert {RULES} {SAMPLE} | true; echo ${{PIPESTATUS[0]}} >&2").stderr == "0\n"


@pytest.mark.parametrize(
    "words", [f"analyze {SAMPLE}", f"inspect --json {SAMPLE}", f"assert {RULES} {SAMPLE}", "--help"]
)
def test_a_result_that_cannot_be_written_is_exit_3(words: str) -> None:
    full = shell(f"m3probe {words} >/dev/full")
    assert (full.returncode, full.stderr) == (3, "m3probe: stdout: No space left on device.\n")
    closed = shell(f"m3probe {words} >&-")
    assert closed.returncode == 3
    assert closed.stderr.endswith("m3probe: stdout: it is closed.\n")
    assert "Traceback" not in closed.stderr


def test_a_help_whose_reader_went_away_ends_quietly() -> None:
    found = shell("m3probe --help | true; echo ${PIPESTATUS[0]}")
    assert (found.stdout, found.stderr) == ("0\n", "")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_without_stderr_the_status_and_the_result_stay(stderr: str, tmp_path: Path) -> None:
    for verb in ("analyze", "inspect"):
        found = shell(f"m3probe {verb} --json {SAMPLE} {stderr}")
        assert found.returncode == 0
        assert found.stdout == run(verb, "--json", SAMPLE).stdout
    assert shell(f"m3probe analyze missing.json {stderr}").returncode == 3
    assert shell(f"m3probe analyze --tp x {SAMPLE} {stderr}").returncode == 2
    assert shell(f"m3probe assert {failing_rules(tmp_path)} {SAMPLE} {stderr}").returncode == 1


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


def test_junit_that_fails_late_comes_after_the_verdict() -> None:
    found = run("assert", RULES, SAMPLE, "--junit", "/dev/full")
    assert found.returncode == 2
    assert "exit 0: every rule holds" in found.stdout
    assert found.stderr == "m3probe: /dev/full: cannot be written (No space left on device).\n"


def test_junit_never_overwrites_an_input(tmp_path: Path) -> None:
    trace = tmp_path / "t.json.gz"
    shutil.copy(SAMPLE, trace)
    found = run("assert", RULES, trace, "--junit", trace)
    assert found.returncode == 2
    assert "would overwrite an input" in found.stderr
    assert trace.read_bytes() == SAMPLE.read_bytes()


def errors_in(report: Path) -> list[str]:
    return [error.attrib["message"] for error in ET.parse(report).iter("error")]


def main_with(patch: str, *args: object) -> list[str]:
    """A child that runs ``main`` with a line of Python before it."""
    words = ["m3probe", *map(str, args)]
    script = f"import sys, m3probe.pipeline as p, m3probe.cli as c\n{patch}\nsys.argv = {words!r}\nsys.exit(c.main())"
    return [sys.executable, "-c", script]


def test_junit_of_our_own_fault_replaces_an_older_one(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text("<old/>")
    command = main_with("p.report = lambda rec: 1 // 0", "assert", RULES, SAMPLE, "--junit", report)
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=False
    )
    assert done.returncode == 70
    assert errors_in(report) == ["internal fault of m3probe (ZeroDivisionError)"]


def test_junit_of_a_killed_run_is_an_error(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text("<old/>")
    patch = "import os, signal; p.report = lambda rec: os.kill(os.getpid(), signal.SIGKILL)"
    command = main_with(patch, "assert", RULES, SAMPLE, "--junit", report)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert "before it had judged" in errors_in(report)[0]


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


def test_words_of_the_command_line_are_escaped_in_its_errors() -> None:
    for words in (("analyze", "--bad\x1b[31m", "x"), ("an\x1b[31m",), ("analyze", "--tp", "\x1b[31m", "x")):
        found = run(*words)
        assert found.returncode == 2
        assert "\x1b" not in found.stderr
        assert "\\x1b[31m" in found.stderr


def test_our_own_fault_is_one_sentence_and_a_file(tmp_path: Path) -> None:
    command = main_with("def boom(*a): raise RuntimeError('boom \\udcff')\np.report = boom", "analyze", SAMPLE)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert found.returncode == 70
    assert "Traceback" not in found.stderr
    (written,) = tmp_path.glob("m3probe-*.txt")
    assert str(written) in found.stderr
    assert "boom" in written.read_text()


def test_our_own_fault_without_a_place_for_its_traceback(tmp_path: Path) -> None:
    patch = (
        "import tempfile\n"
        "def full(*a, **k): raise OSError(28, 'No space left on device')\n"
        "tempfile.NamedTemporaryFile = full\n"
        "p.report = lambda rec: 1 // 0"
    )
    command = main_with(patch, "analyze", SAMPLE)
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.returncode == 70
    assert found.stderr == (
        "m3probe: internal fault (ZeroDivisionError); its traceback could not be written (No space left on device)\n"
    )


def test_a_source_folder_says_that_it_is_not_installed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "m3probe", tmp_path / "m3probe", ignore=shutil.ignore_patterns("__pycache__"))
    for words in (("analyze", SAMPLE), ("inspect", SAMPLE), ("assert", RULES, SAMPLE)):
        command = [sys.executable, "-m", "m3probe", *map(str, words)]
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
        assert found.returncode == 2, found.stderr
        assert "not an installed copy" in found.stderr
        assert found.stderr.count("\n") == 1


def test_a_terminal_that_went_away_does_not_stop_reading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from m3probe.present import progress

    class Gone:
        def start(self) -> None:
            raise OSError(5, "Input/output error")

        stop = start

    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    monkeypatch.setattr(progress, "_bar", Gone)
    with progress.progress(enabled=True) as told:
        told(tmp_path, 1, 2)
        told(tmp_path, 2, 2)


def test_ctrl_c_while_the_command_line_is_imported_is_exit_130(tmp_path: Path) -> None:
    """An interrupt inside an import, at the place where it lands when the key is hit at once."""
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'm3probe.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from m3probe.__main__ import main\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (found.returncode, found.stderr) == (130, "m3probe: interrupted\n")


def test_ctrl_c_is_exit_130(tmp_path: Path) -> None:
    path = tmp_path / "long.json"  # some seconds of reading
    one = json.dumps(kernel(1.0, 1.0, 1, "k")).encode()
    path.write_bytes(b'{"traceEvents": [' + b",\n".join([one] * 700_000) + b"]}")
    # a runner started in the background ignores the signal, and its children with it
    deaf = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [str(PROGRAM), "analyze", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        signal.signal(signal.SIGINT, deaf)
        time.sleep(0.7)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert said == "m3probe: interrupted\n"


def test_a_pipe_is_refused_with_the_next_move(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for line in (f"inspect {tmp_path}/pipe", f"inspect /dev/stdin < <(zcat {SAMPLE})", f"inspect <(zcat {SAMPLE})"):
        found = shell(f"m3probe {line}")
        assert found.returncode == 3, line
        assert "no regular file" in found.stderr
        assert "Save it to a file" in found.stderr
    assert shell(f"m3probe inspect /dev/stdin < {SAMPLE}").returncode == 0


# --- what may not be read -----------------------------------------------------------------------------------


def test_a_folder_without_rights_says_so(tmp_path: Path) -> None:
    shut, listed = tmp_path / "shut", tmp_path / "listed"
    for folder, mode in ((shut, 0o000), (listed, 0o444)):
        folder.mkdir()
        shutil.copy(SAMPLE, folder / "t.json.gz")
        folder.chmod(mode)
    try:
        for path in (shut, shut / "t.json.gz", listed, listed / "t.json.gz"):
            found = run_without_rights(tmp_path, "inspect", path)
            assert (found.returncode, found.stdout) == (3, "")
            assert "Permission denied" in found.stderr
        config = run_without_rights(tmp_path, "analyze", "--model-config", shut / "config.json", SAMPLE)
        assert config.returncode == 3
        assert f"{shut}/config.json: cannot be opened (Permission denied)" in config.stderr
    finally:
        shut.chmod(0o755)
        listed.chmod(0o755)


def test_an_unreadable_subfolder_is_told_as_a_loss(tmp_path: Path) -> None:
    inner = tmp_path / "profile" / "rank1"
    inner.mkdir(parents=True)
    for path in (inner.parent / "rank0.json.gz", inner / "rank1.json.gz"):
        shutil.copy(SAMPLE, path)
    inner.chmod(0o000)
    try:
        found = run_without_rights(tmp_path, "inspect", "--json", inner.parent)
        judged = run_without_rights(tmp_path, "assert", RULES, inner.parent)
    finally:
        inner.chmod(0o755)
    said = json.loads(found.stdout)
    assert (found.returncode, said["outcome"]) == (0, "partial")
    (warning,) = [text for text in said["warnings"] if "Permission denied" in text]
    assert str(inner) in warning
    assert judged.returncode == 4, judged.stdout


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
    assert "data packed by gzip once more inside gzip" in found.stderr
    assert "Unpack it once" in found.stderr


@pytest.mark.parametrize(
    ("tp", "words"), [("4", ""), ("8", "TP8 was given"), ("3", "64 query heads cannot be split over 3 ranks")]
)
def test_a_layout_other_than_the_given_one_stands_beside_the_match(tp: str, words: str) -> None:
    text = " ".join(run("analyze", "--tp", tp, SAMPLE, COLUMNS="120").stdout.split())
    section = text[text.index("model match") : text.index("2 repeats")]
    assert "MiniMax M3 at TP4" in section
    assert words in section
    assert ("was given" in section) is bool(words)


def test_a_given_expert_parallel_size_is_no_proof() -> None:
    found = json.loads(run("analyze", "--json", "--tp", "4", "--ep", "8", SAMPLE).stdout)
    assert found["model_match"]["ep"] is None
    assert "expert parallel size as given: 8" in " ".join(found["model_match"]["notes"])
