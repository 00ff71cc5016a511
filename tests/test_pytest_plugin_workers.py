"""The pytest plugin under pytest-xdist: the same items, outcomes and JUnit as in one process."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "no:m3probe", "-p", "m3probe.pytest_plugin", "-p", "no:cacheprovider")
RULES = '[[rule]]\nkernel = "wanted*"\nper_step = 1\n[[rule]]\nkernel = "other*"\nforbid = true\n'
BODY = """
from m3probe.pytest_plugin import assert_rules
def test_rules_by_call(m3probe_recording):
    assert_rules(m3probe_recording, "two.toml")
"""


@pytest.fixture
def options(pytester: pytest.Pytester) -> tuple[str, str]:
    """A recording of one step, with one kernel of each name; two rules of which the second is broken."""
    (pytester.path / "two.toml").write_text(RULES)
    pytester.makepyfile(BODY)
    events = [step(100.0, 90.0, "execute_context_0(0)_generation_8(8)")]
    for number, name in enumerate(("wanted", "other"), start=1):
        events += [launch(100 + number, number), kernel(110 + number, 0.5, number, name)]
    path = write_trace(pytester.path / "one.pt.trace.json", events)
    return f"--m3probe-recording={path}", "--m3probe-rules=two.toml"


def told(path: Path) -> set[tuple[str, str, tuple[str, ...]]]:
    """Each test case of a JUnit file: class, name, and what stands inside it."""
    cases = ET.parse(path).iter("testcase")
    return {
        (case.get("classname", ""), case.get("name", ""), tuple(f"{e.tag} {e.get('message')}" for e in case))
        for case in cases
    }


def test_two_workers_tell_what_one_process_tells(pytester: pytest.Pytester, options: tuple[str, str]) -> None:
    found = []
    for workers in ("0", "2"):
        result = pytester.runpytest_inprocess(*PLUGIN, *options, "-n", workers, f"--junitxml={workers}.xml")
        result.assert_outcomes(passed=1, failed=2)
        found.append(told(pytester.path / f"{workers}.xml"))
    assert found[0] == found[1]
    assert {(classname, name) for classname, name, _ in found[1]} == {
        ("two.toml", "rule 1: kernel wanted*: exactly 1 per step"),
        ("two.toml", "rule 2: kernel other*: forbidden"),
        ("test_two_workers_tell_what_one_process_tells", "test_rules_by_call"),
    }


def test_a_wrong_rules_file_is_a_usage_error_and_no_crash_of_workers(
    pytester: pytest.Pytester, options: tuple[str, str]
) -> None:
    (pytester.path / "two.toml").write_text('[[rule]]\nkernl = "x"\nforbid = true\n')
    result = pytester.runpytest_inprocess(*PLUGIN, *options, "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Did you mean 'kernel'?" in str(result.stderr)
    assert "INTERNALERROR" not in str(result.stdout)
