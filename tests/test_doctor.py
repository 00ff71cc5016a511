"""``m3probe doctor``: the host, its limits, and the command line; each figure beside the file it comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_kit import GIB, READY, Host, limits
from jsonschema import Draft202012Validator
from tree import ROOT

from m3probe.model.doctor_report import Check, DoctorReport, Word
from m3probe.model.limits import descriptors_for, requests_within
from m3probe.present.doctor_text import doctor_text
from m3probe.present.json import doctor_json

SCHEMA = json.loads((ROOT / "docs" / "doctor.schema.json").read_text())
AMD = dict(READY)
NEITHER = {name: text for name, text in READY.items() if name != "dev/kfd"}


def without(*parts: str) -> dict[str, str]:
    return {name: text for name, text in READY.items() if not any(part in name for part in parts)}


# --- the host -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "word", "said"),
    [
        (AMD, "ok", "off"),
        (AMD | {"proc/sys/kernel/numa_balancing": "1"}, "bad", "AMD GPUs may hang"),
        (NEITHER | {"proc/sys/kernel/numa_balancing": "1"}, "warn", "with AMD GPUs"),
        (without("node1") | {"proc/sys/kernel/numa_balancing": "1"}, "ok", "one NUMA node"),
        (without("numa_balancing"), "unknown", "not visible here"),
        (AMD | {"proc/sys/kernel/numa_balancing": "on\n"}, "unknown", "not visible here"),
    ],
)
def test_numa_balancing(tmp_path: Path, files: dict[str, str], word: str, said: str) -> None:
    found = Host(tmp_path, files).check("host.numa_balancing")
    assert found.word == word
    assert said in found.text
    assert bool(found.advice) is (word != "ok")


def test_the_governor_is_told_by_how_many_cpus_have_it(tmp_path: Path) -> None:
    assert Host(tmp_path).check("host.cpu_governor").text == "performance on 2 CPUs"
    mixed = AMD | {f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in range(2, 5)}
    found = Host(tmp_path / "mixed", mixed).check("host.cpu_governor")
    assert found.word is Word.WARN
    assert found.text.startswith("powersave on 3 CPUs, performance on 2 CPUs")


def test_a_container_without_sys_is_unknown_never_ok(tmp_path: Path) -> None:
    report = Host(tmp_path, without("sys/", "proc/sys"), own="", shm=None).examined(concurrency=8)
    words = {check.id: check.word for check in report.checks if check.group in ("host", "limits")}
    assert words == dict.fromkeys(
        [
            "host.numa_balancing", "host.cpu_governor", "host.hugepages", "host.shm", "limits.nofile", "limits.memlock",
            "limits.ephemeral_ports", "limits.somaxconn",
        ],
        Word.UNKNOWN,
    )  # fmt: skip


def test_huge_pages_that_are_set_aside_and_unused_are_told(tmp_path: Path) -> None:
    meminfo = (
        "HugePages_Total:    1024\nHugePages_Free:     1000\nHugePages_Rsvd:      488\nHugepagesize:       2048 kB\n"
    )
    found = Host(tmp_path, AMD | {"proc/meminfo": meminfo}).checks("host.hugepages")
    assert [check.word for check in found] == [Word.OK, Word.WARN]
    assert found[1].text.startswith("1.0 GiB are reserved")  # (1,000 - 488) x 2 MiB
    never = AMD | {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}
    assert Host(tmp_path / "never", never).check("host.hugepages").word is Word.WARN


@pytest.mark.parametrize(
    ("size", "word", "said"),
    [
        (64 * 2**20, "bad", "/dev/shm holds 64 MiB, one message queue between engine and workers takes 160 MiB"),
        (512 * 2**20, "warn", "3 of vLLM's message queues (160 MiB each)"),
        (16 * GIB, "ok", "16,384 MiB"),
    ],
)
def test_shared_memory_is_held_against_one_queue_of_vllm(tmp_path: Path, size: int, word: str, said: str) -> None:
    found = Host(tmp_path, shm=size).check("host.shm")
    assert found.word == word
    assert said in found.text


# --- limits -------------------------------------------------------------------------------------------------------


def test_what_a_limit_leaves_room_for() -> None:
    assert descriptors_for(1_024) == 2 * 1_024 + 128
    assert (requests_within(1_024), requests_within(100)) == (448, 0)


def test_1_024_open_files_at_concurrency_1_024_are_too_few(tmp_path: Path) -> None:
    found = Host(tmp_path, own=limits("1024", "524288")).check("limits.nofile", concurrency=1_024)
    assert found.word is Word.BAD
    assert found.text == (
        "this process: 1,024 open files (hard limit 524,288) < 2 x 1,024 + 128 = 2,176: connections fail with "
        "`Too many open files`; vLLM's API server raises its own soft limit, a client or proxy does not"
    )
    assert "ulimit -n 65535" in found.advice
    assert "InferenceX 2140" in found.source


@pytest.mark.parametrize(("soft", "word"), [("2175", "bad"), ("2176", "ok"), ("unlimited", "ok")])
def test_the_limit_itself_is_enough(tmp_path: Path, soft: str, word: str) -> None:
    assert Host(tmp_path, own=limits(soft, "unlimited")).check("limits.nofile", concurrency=1_024).word == word


@pytest.mark.parametrize(("soft", "word", "room"), [("1024", "warn", "448"), ("65535", "ok", "32,703")])
def test_without_a_concurrency_the_room_is_told(tmp_path: Path, soft: str, word: str, room: str) -> None:
    found = Host(tmp_path, own=limits(soft, soft)).check("limits.nofile")
    assert found.word == word
    assert found.text.endswith(f"room for {room} requests at once")


def test_processes_with_the_same_limits_share_a_row_and_others_have_their_own(tmp_path: Path) -> None:
    host = Host(tmp_path).server(4711).server(4800, own=limits("1024", "1024"), ppid=4711)
    rows = host.checks("limits.nofile", concurrency=1_024)
    assert [(row.word, row.text.partition(":")[0]) for row in rows] == [
        (Word.OK, "this process, pid 4711 (API server)"),
        (Word.BAD, "pid 4800 (API server)"),
    ]


@pytest.mark.parametrize(
    ("locked", "word", "said"),
    [("unlimited", "ok", "unlimited"), ("8388608", "warn", "8.0 MiB of locked memory"), ("65536", "warn", "0.1 MiB")],
)
def test_locked_memory_is_warned_of_where_it_is_limited(tmp_path: Path, locked: str, word: str, said: str) -> None:
    found = Host(tmp_path, own=limits(locked=locked)).check("limits.memlock")
    assert (found.word, said in found.text) == (word, True)


def test_ports_and_the_queue_of_connections_are_held_against_the_concurrency(tmp_path: Path) -> None:
    files = AMD | {"proc/sys/net/ipv4/ip_local_port_range": "60000 60999", "proc/sys/net/core/somaxconn": "128"}
    host = Host(tmp_path, files)
    # 1,000 ports: 2 x 436 + 128 = 1,000 just fits
    assert host.check("limits.ephemeral_ports", concurrency=436).word is Word.OK
    bad = host.check("limits.ephemeral_ports", concurrency=437)
    assert bad.word is Word.BAD
    assert "1,000 ports for outgoing connections to one address (60000 to 60999) < 2 x 437 + 128 = 1,002" in bad.text
    assert host.check("limits.somaxconn", concurrency=128).word is Word.OK
    low = host.check("limits.somaxconn", concurrency=129)
    assert (low.word, low.advice.startswith("sysctl -w net.core.somaxconn=129")) == (Word.WARN, True)
    assert host.check("limits.somaxconn").word is Word.WARN
    broken = Host(tmp_path / "b", AMD | {"proc/sys/net/ipv4/ip_local_port_range": "many"})
    assert broken.check("limits.ephemeral_ports", concurrency=1).word is Word.UNKNOWN


# --- report and command line ----------------------------------------------------------------------------------------


REPORT = DoctorReport(
    (
        Check("host.shm", Word.OK, "enough"),
        Check("limits.nofile", Word.BAD, "1,024 \x1b[31m< 2,176", "ulimit -n 65535", "InferenceX 2140"),
        Check("versions.vllm", Word.UNKNOWN, "not here"),
    ),
    concurrency=1_024,
    checked=("this process",),
)


def test_the_text_says_the_counts_first_and_escapes_what_is_foreign() -> None:
    text = doctor_text(REPORT, 100, color=False)
    assert text.splitlines()[0] == "3 checks: 1 ok, 1 bad, 1 unknown  at 1,024 requests at once"
    assert "✗ bad" in text
    assert "ulimit -n 65535" in text
    assert "[InferenceX 2140]" in text
    assert "\x1b" not in text
    assert max(map(len, doctor_text(REPORT, 60, color=False).splitlines())) <= 60
    assert doctor_text(REPORT, 80, color=False, ascii_only=True).isascii()


def test_the_json_fits_its_schema(tmp_path: Path) -> None:
    for report in (REPORT, Host(tmp_path).examined(4, {"HSA_OVERRIDE_GFX_VERSION": "9.4.2"})):
        document = json.loads(doctor_json(report))
        Draft202012Validator(SCHEMA).validate(document)
        assert sum(document["counts"].values()) == len(report.checks)


@pytest.mark.parametrize(
    ("words", "failed"),
    [((), False), (("bad",), True), (("unknown",), True), (("warn",), True), (("bad", "unknown"), True)],
)
def test_fail_on_takes_what_is_worse_with_warn(words: tuple[str, ...], failed: bool) -> None:
    assert REPORT.failed(words) is failed
    calm = DoctorReport((Check("host.shm", Word.UNKNOWN, "?"),))
    assert calm.failed(words) is ("unknown" in words)


def m3probe(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "m3probe", "doctor", *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "HSA_", "HIP_"))}
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=own | {"COLUMNS": "160"} | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_exit_status_is_0_unless_a_word_was_asked_for(tmp_path: Path) -> None:
    dangerous = {"HSA_OVERRIDE_GFX_VERSION": "9.4.2"}
    assert m3probe(tmp_path, **dangerous).returncode == 0
    done = m3probe(tmp_path, "--fail-on", "bad", "--json", **dangerous)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    (row,) = [row for row in document["checks"] if row["id"] == "environment.hsa_override_gfx_version"]
    assert (row["word"], row["source"]) == ("bad", "ROCm/TheRock issue 1719")


@pytest.mark.parametrize("words", [["--fail-on", "ok"], ["--fail-on"], ["--concurrency", "0"], ["somewhere"]])
def test_words_that_ask_for_nothing_possible_are_a_usage_error(tmp_path: Path, words: list[str]) -> None:
    done = m3probe(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error:" in done.stderr
