"""``attach --serve``: the page as text, the server as any client meets it, and the whole of it around a recording."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from attach_kit import Heard, guest

from m3probe.attach.serve import MOST_CLIENTS, Exporter, address
from m3probe.errors import UsageError
from m3probe.live_serve import Serving
from m3probe.model.attach_report import Now, NowRow
from m3probe.model.exported import Exported, ToldCell, ToldFinding, ToldNext, ToldPath, ToldReport, ToldTrust
from m3probe.model.findings import Bound
from m3probe.present.gauges import CONTENT_TYPE, LONGEST, exposition

# The grammar of text format 0.0.4, written down a second time: what a scraper accepts, and not what was meant.
SAMPLE = re.compile(r'(m3probe_[a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([-+.\deE]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """The page read back by its grammar: every line is a comment or a sample, every metric has HELP and TYPE before it."""
    found: Samples = {}
    known: dict[str, set[str]] = {}
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        comment = re.fullmatch(r"# (HELP|TYPE) (m3probe_[a-z_]+) (.+)", line)
        if comment:
            known.setdefault(comment[2], set()).add(comment[1])
            assert comment[1] == "HELP" or comment[3] == "gauge"
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert known[sample[1]] == {"HELP", "TYPE"}
        labels = (
            (name, re.sub(r"\\.", lambda m: ESCAPES[m[0]], text)) for name, text in LABEL.findall(sample[2] or "")
        )
        key = (sample[1], tuple(sorted(labels)))
        assert key not in found, f"twice: {line}"
        found[key] = float(sample[3])
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


ROW = NowRow("worker 0 (pid 7)", "recorded", 12.5, 100, 40, 2_000, 0)
REPORT = ToldReport(
    trust=ToldTrust("degraded"),
    paths=(
        ToldPath(
            "graph_replay",
            "executed",
            (ToldCell(0, "decode", "executed", 9, 9), ToldCell(None, "prefill", "off", 2, 0)),
        ),
    ),
    findings=(
        ToldFinding(
            "repeats.idle",
            "repeats",
            "observed",
            "high",
            trusted=True,
            bound=Bound(0.1, 0.25, "a / b", "decode step time"),
        ),
        ToldFinding("paths.x", "paths", "differs", "medium", trusted=False),
        ToldFinding("paths.y", "paths", "differs", "high", trusted=True),
    ),
    next_bottleneck=ToldNext("repeats.idle", Bound(0.1, 0.25, "a / b", "decode step time")),
)


def test_the_page_says_what_is_known_and_nothing_else() -> None:
    now = Now(12.5, 345, (ROW, NowRow("api (pid 8)", "no guest", None, -1, -1, -1, -1)))
    found = parsed(exposition(Exported("1.2.3", now, REPORT, 4.5, 1.25, 2, 1)))
    assert found == {
        ("m3probe_info", (("version", "1.2.3"),)): 1,
        ("m3probe_recording_seconds", ()): 12.5,
        ("m3probe_recording_steps", ()): 345,
        ("m3probe_processes", (("state", "recorded"),)): 1,
        ("m3probe_processes", (("state", "no guest"),)): 1,
        ("m3probe_process_steps_per_second", (("process", "worker 0 (pid 7)"),)): 12.5,
        ("m3probe_process_records", (("process", "worker 0 (pid 7)"),)): 40,
        ("m3probe_process_bytes", (("process", "worker 0 (pid 7)"),)): 2_000,
        ("m3probe_process_dropped", (("process", "worker 0 (pid 7)"),)): 0,
        ("m3probe_report_age_seconds", ()): 4.5,
        ("m3probe_report_duration_seconds", ()): 1.25,
        ("m3probe_reports_made", ()): 2,
        ("m3probe_reports_failed", ()): 1,
        ("m3probe_trust_info", (("verdict", "degraded"),)): 1,
        ("m3probe_findings", (("question", "repeats"), ("verdict", "observed"))): 1,
        ("m3probe_findings", (("question", "paths"), ("verdict", "differs"))): 2,
        **{
            ("m3probe_finding_info", (("confidence", c), ("id", i), ("question", q), ("trusted", t), ("verdict", v))): 1
            for i, q, v, c, t in (
                ("repeats.idle", "repeats", "observed", "high", "true"),
                ("paths.x", "paths", "differs", "medium", "false"),
                ("paths.y", "paths", "differs", "high", "true"),
            )
        },
        **{
            (f"m3probe_{of}_bound_ratio", (("end", end), ("id", "repeats.idle"), ("of", "decode step time"))): share
            for of in ("finding", "next_bottleneck")
            for end, share in (("low", 0.1), ("high", 0.25))
        },
        ("m3probe_next_bottleneck_info", (("id", "repeats.idle"),)): 1,
        ("m3probe_path_verdict_info", (("path", "graph_replay"), ("verdict", "executed"))): 1,
        **{
            (
                f"m3probe_path_{word}",
                (("path", "graph_replay"), ("phase", phase), ("rank", rank), ("verdict", verdict)),
            ): n
            for word, phase, rank, verdict, n in (
                ("steps", "decode", "0", "executed", 9),
                ("executed", "decode", "0", "executed", 9),
                ("steps", "prefill", "", "off", 2),
                ("executed", "prefill", "", "off", 0),
            )
        },
    }


def test_before_the_first_second_there_is_no_number_of_the_recording() -> None:
    names = {name for name, _ in parsed(exposition(Exported("1")))}
    assert names == {"m3probe_info", "m3probe_reports_made", "m3probe_reports_failed"}
    unknown = parsed(exposition(Exported("1", Now(1.0, -1, ()))))
    assert ("m3probe_recording_steps", ()) not in unknown


HOSTILE = 'a"b\\c\nd\x1b[31m\u202e\ud800{x="1"} 5\r'


def test_hostile_names_stay_one_label_on_one_line() -> None:
    finding = ToldFinding(
        HOSTILE, "paths", "differs", "high", trusted=True, bound=Bound(0.0, float("inf"), "", HOSTILE)
    )
    page = exposition(
        Exported(HOSTILE, Now(1.0, 1, (NowRow(HOSTILE, HOSTILE, 1.0, 1, 1, 1, 1),)), ToldReport(findings=(finding,)))
    )
    page.encode()
    found = parsed(page)
    said = 'a"b\\c\nd\\x1b[31m\\u202e\\ud800{x="1"} 5\\x0d'
    assert value(found, "m3probe_info", version=said) == 1
    assert value(found, "m3probe_process_records", process=said) == 1
    assert value(found, "m3probe_finding_bound_ratio", id=said, end="low", of=said) == 0
    assert not any(name == "m3probe_finding_bound_ratio" and ("end", "high") in labels for name, labels in found)


def test_names_that_are_cut_to_the_same_label_are_one_series() -> None:
    twins = tuple(ToldFinding("k" * LONGEST + tail, "paths", "differs", "high", trusted=True) for tail in "ab")
    found = parsed(exposition(Exported("1", report=ToldReport(findings=twins))))
    assert sum(name == "m3probe_finding_info" for name, _ in found) == 1
    assert value(found, "m3probe_findings", question="paths", verdict="differs") == 2


# --- the server -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":9400", ("127.0.0.1", 9400)),
        ("0.0.0.0:9400", ("0.0.0.0", 9400)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "9400", ":", ":x", ":65536", ":-1", "::1:9400", ":٣", "h:123456"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"no :PORT|brackets"):
        address(text)


@contextmanager
def exporter(text: str = "m3probe_info 1\n") -> Iterator[Exporter]:
    made = Exporter(("127.0.0.1", 0), lambda: (CONTENT_TYPE, text))
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_a_real_client_gets_the_page_and_its_type() -> None:
    with exporter("m3probe_info 1\n") as made, urllib.request.urlopen(made.url, timeout=5) as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert (reply.status, reply.read(), reply.headers["Server"]) == (200, b"m3probe_info 1\n", "m3probe")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics?name[]=x", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/", 200),
        ("GET", "/etc/passwd", 404),
        ("POST", "/metrics", 501),
    ],
)
def test_only_the_page_is_there(method: str, path: str, status: int) -> None:
    with exporter() as made:
        asked = urllib.request.Request(made.url.replace("/metrics", path), method=method)
        try:
            with urllib.request.urlopen(asked, timeout=5) as reply:
                assert (reply.status, bool(reply.read())) == (status, method != "HEAD")
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == status


def test_a_port_in_use_is_one_sentence_with_the_next_move() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as caught:
            Exporter(("127.0.0.1", port), lambda: ("", ""))
    assert caught.value.sentence() == (
        f"--serve 127.0.0.1:{port}: cannot listen (Address already in use). Name another port, or 0 for any"
    )
    assert caught.value.exit_code == 2


def test_an_address_of_another_host_cannot_be_listened_on() -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        Exporter(("192.0.2.1", 0), lambda: ("", ""))


def test_the_port_is_free_again_at_the_end() -> None:
    with exporter() as made:
        port = int(made.url.rpartition(":")[2].partition("/")[0])
    again = Exporter(("127.0.0.1", port), lambda: (CONTENT_TYPE, ""))
    again.close()


def test_clients_that_never_ask_hold_nothing_up() -> None:
    with exporter() as made:
        port = int(made.url.rpartition(":")[2].partition("/")[0])
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(MOST_CLIENTS)]
        until = time.monotonic() + 5
        while threading.active_count() < MOST_CLIENTS and time.monotonic() < until:
            time.sleep(0.02)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as one_more:
            assert one_more.recv(1) == b""  # closed at once: there are only so many threads
        for connection in idle:
            connection.close()
        until, answered = time.monotonic() + 5, b""
        while not answered and time.monotonic() < until:
            try:
                with urllib.request.urlopen(made.url, timeout=5) as reply:
                    answered = reply.read()
            except OSError:
                time.sleep(0.05)
        assert answered
        began = time.monotonic()
    assert time.monotonic() - began < 2


# --- around a recording -----------------------------------------------------------------------------------------------


def test_what_is_told_is_passed_on_and_the_page_never_waits(tmp_path: Path) -> None:
    heard = Heard()
    made = Serving(heard)
    made.say("hello")
    made.show(Now(3.0, 7, (ROW,)))  # no folder yet: nothing to report on
    assert (heard.said, heard.shown) == (["hello"], 1)
    kind, text = made.page()
    assert kind == CONTENT_TYPE
    assert value(parsed(text), "m3probe_recording_steps") == 7
    made.close()


def test_a_folder_that_cannot_be_read_counts_as_a_failed_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("m3probe.live_serve.FIRST_S", 0.0)
    made = Serving(Heard(), every_s=0.1)
    made.show(Now(3.0, 7, (), folder=str(tmp_path / "nowhere")))
    until = time.monotonic() + 20
    while ("m3probe_reports_failed", ()) not in (found := parsed(made.page()[1])) or not value(
        found, "m3probe_reports_failed"
    ):
        assert time.monotonic() < until
        time.sleep(0.05)
    made.close()
    assert value(found, "m3probe_reports_made") == 0
    assert not any(name == "m3probe_report_age_seconds" for name, _ in found)


def test_the_end_of_a_recording_ends_the_report_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("m3probe.live_serve.FIRST_S", 0.0)
    monkeypatch.setattr("m3probe.live_serve.sys.executable", str(_sleeper(tmp_path)))
    made = Serving(Heard())
    made.show(Now(3.0, 7, (), folder=str(tmp_path)))
    until = time.monotonic() + 10
    while made._child is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    child, began = made._child, time.monotonic()
    made.close()
    assert time.monotonic() - began < 3
    assert child.poll() is not None


def _sleeper(tmp_path: Path) -> Path:
    path = tmp_path / "sleeper"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    return path


def started(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    run = tmp_path / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-P", "-m", "m3probe", "attach", *words]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=dict(os.environ) | {"M3PROBE_RUN": str(run)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_taken_port_is_told_before_anything_is_armed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket() as taken, guest(tmp_path / "run", "worker") as process:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f":{taken.getsockname()[1]}"
        done = started(tmp_path, str(process.pid), "--seconds", "5", "--serve", where)
        out, said = done.communicate(timeout=60)
    assert (done.returncode, out) == (2, "")
    assert "cannot listen (Address already in use)" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--serve", "nowhere"], "no :PORT"), (["--serve", ":0", "--once"], "not allowed with argument")],
)
def test_words_that_ask_for_nothing_possible_are_a_usage_error(tmp_path: Path, words: list[str], said: str) -> None:
    done = started(tmp_path, "auto", *words)
    assert said in done.communicate(timeout=60)[1]
    assert done.returncode == 2


def test_findings_are_served_while_a_guest_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    with guest(tmp_path / "run", "worker") as process:
        done = started(tmp_path, str(process.pid), "--seconds", "12", "--serve", ":0", "--json")
        assert done.stderr is not None
        url = _url(done.stderr)
        assert url.startswith("http://127.0.0.1:")
        until, found = time.monotonic() + 40, {}
        while not found.get(("m3probe_reports_made", ())):
            assert time.monotonic() < until
            time.sleep(0.2)
            with urllib.request.urlopen(url, timeout=5) as reply:
                found = parsed(reply.read().decode())
        out, _ = done.communicate(timeout=60)
    assert done.returncode == 0
    assert json.loads(out)["outcome"] in {"recorded", "partial"}
    assert value(found, "m3probe_processes", state="recorded") == 1
    assert 0 < value(found, "m3probe_recording_seconds") < 60
    # the stand-in writes samples and no step: nothing could be seen of a kernel
    assert value(found, "m3probe_trust_info", verdict="unusable") == 1
    assert {dict(labels)["verdict"] for name, labels in found if name == "m3probe_path_verdict_info"} <= {
        "unproven",
        "off",
    }
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=5)


def _url(stderr: IO[str]) -> str:
    for line in stderr:
        said = re.search(r"findings as gauges: (\S+)", line)
        if said:
            return said[1]
    raise AssertionError("no address was told")
