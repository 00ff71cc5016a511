"""The pytest plugin as its user meets it: fixtures, assertions, rules as items, and nothing for those who do not use it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace
from live_kit import _metadata
from test_imports import HEAVY
from tree import ROOT

import m3probe

pytest_plugins = ["pytester"]

GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"
# by its module: the tests may run beside an m3probe whose metadata name the plugin, and beside one whose do not
PLUGIN = ("-p", "no:m3probe", "-p", "m3probe.pytest_plugin", "-p", "no:cacheprovider")


def ran(pytester: pytest.Pytester, body: str, *options: object) -> pytest.RunResult:
    """One test module with ``body`` in it, run with the plugin."""
    pytester.makepyfile("from m3probe.pytest_plugin import assert_executed, assert_rules\n" + body)
    return pytester.runpytest_inprocess(*PLUGIN, *map(str, options))


def asserting(call: str) -> str:
    return f"def test_it(m3probe_recording):\n    {call}\n"


def errors(result: pytest.RunResult) -> str:
    """The lines that pytest marks as the error, joined."""
    return "\n".join(line[4:] for line in result.outlines if line.startswith("E   "))


def no_inside(result: pytest.RunResult) -> bool:
    """No line of m3probe's own code in the output."""
    return not re.search(r"m3probe/\w+\.py:\d+", str(result.stdout))


# --- assert_executed ----------------------------------------------------------------------------------------


def test_a_path_that_ran_once_in_each_of_9_decode_steps_passes(pytester: pytest.Pytester) -> None:
    body = asserting('assert_executed(m3probe_recording, "graph_replay", phase="decode", per_step=1, variant="FULL")')
    ran(pytester, body, f"--m3probe-recording={GRAPH}").assert_outcomes(passed=1)


def test_six_sparse_layers_are_not_57(pytester: pytest.Pytester) -> None:
    """The sample is cut to 6 sparse layers: 6 calls in each of its 9 decode steps."""
    body = asserting('assert_executed(m3probe_recording, "sparse_attention", phase="decode", per_step=57)')
    result = ran(pytester, body, f"--m3probe-recording={GRAPH}")
    result.assert_outcomes(failed=1)
    said = errors(result)
    assert "FAILED: path sparse_attention in decode: executed; exactly 57 per step" in said
    assert "expected: executed; exactly 57 per step" in said
    assert "observed: 54 calls in 9 steps (6 each)" in said
    assert "where: decode on rank 0" in said
    assert "evidence: paths: decode: 54 calls of Triton (_gqa_sparse_decode_kernel) in 9 of 9 steps" in said
    assert "next move: " in said
    assert no_inside(result)
    result.stdout.fnmatch_lines([">*assert_executed(m3probe_recording*"])  # the user's own line


def test_calls_in_each_step_may_be_a_range(pytester: pytest.Pytester) -> None:
    fits, not_fits = ("6", '{"min": 6}', '{"max": 6}', '{"min": 1, "max": 6}'), ('{"min": 7}', '{"max": 5}')
    call = 'assert_executed(m3probe_recording, "sparse_attention", phase="decode", per_step={})'
    body = "".join(
        f"def test_{i}(m3probe_recording):\n    {call.format(asked)}\n" for i, asked in enumerate((*fits, *not_fits))
    )
    result = ran(pytester, body, f"--m3probe-recording={GRAPH}")
    result.assert_outcomes(passed=4, failed=2)
    assert "expected: executed; at least 7 per step" in errors(result)
    assert "expected: executed; at most 5 per step" in errors(result)


def test_uneven_calls_with_the_right_sum_fail(pytester: pytest.Pytester) -> None:
    """Two decode steps of 1 and 3 calls: 4 in all, and 2 in neither."""
    name = "_gqa_sparse_decode_kernel"
    events = [step(100.0, 90.0, "execute_context_0(0)_generation_8(8)"), launch(101, 1), kernel(110, 1.0, 1, name)]
    events += [step(200.0, 90.0, "execute_context_0(0)_generation_8(8)")]
    for i in (2, 3, 4):
        events += [launch(200 + 4 * i, i), kernel(240 + 4 * i, 1.0, i, name)]
    trace = write_trace(pytester.path / "uneven.pt.trace.json", events)
    body = asserting('assert_executed(m3probe_recording, "sparse_attention", phase="decode", per_step=2)')
    result = ran(pytester, body, f"--m3probe-recording={trace}")
    said = errors(result)
    assert "observed: 1 in 1, 3 in 1 of 2 steps" in said
    assert "expected: exactly 2 in every step" in said
    assert "why: 2 of 2 steps made another number of calls, though their mean fits" in said


def test_a_fallback_that_ran_is_inconclusive_without_a_configuration_and_never_skipped(
    pytester: pytest.Pytester,
) -> None:
    body = asserting('assert_executed(m3probe_recording, "aiter_sparse_pa", phase="decode")')
    result = ran(pytester, body, f"--m3probe-recording={GRAPH}")
    result.assert_outcomes(failed=1)
    said = errors(result)
    assert "inconclusive: path aiter_sparse_pa in decode: executed" in said
    assert "the fallback ran (Triton)" in said


def test_graphs_that_did_not_replay_fail_on_the_eager_sample(pytester: pytest.Pytester) -> None:
    body = asserting('assert_executed(m3probe_recording, "graph_replay", phase="decode")')
    result = ran(pytester, body, f"--m3probe-recording={EAGER}")
    assert "9 step(s) made no call of it, and nothing can have hidden one" in errors(result)


WRONG = [
    ('assert_executed(m3probe_recording, "aiter_sparse")', "unknown path 'aiter_sparse'. Did you mean"),
    ('assert_executed(m3probe_recording, "graph_replay", phase="decoding")', "Did you mean 'decode'?"),
    ('assert_executed(m3probe_recording, "graph_replay", variant="Full")', "Did you mean 'FULL'?"),
    (
        'assert_executed(m3probe_recording, "graph_replay", phase="decode", per_step="x")',
        "per_step 'x': unknown name 'x'",
    ),
    (
        'assert_executed(m3probe_recording, "graph_replay", phase="decode", per_step=-1)',
        "per_step must be a whole number from 0 on, not -1",
    ),
    (
        'assert_executed(m3probe_recording, "graph_replay", phase="decode", per_step=True)',
        "per_step must be a whole number from 0 on, not True",
    ),
    ('assert_executed(m3probe_recording, "graph_replay", rank=7)', "rank 7 is not in the recording"),
    ('assert_executed("nowhere.json", "graph_replay")', "nowhere.json: no such file or folder"),
    ('assert_rules(m3probe_recording, "nowhere.toml")', "nowhere.toml: no such rules file"),
]


def test_a_wrong_word_is_one_sentence_without_a_traceback(pytester: pytest.Pytester) -> None:
    body = "".join(f"def test_{i}(m3probe_recording):\n    {call}\n" for i, (call, _) in enumerate(WRONG))
    result = ran(pytester, body, f"--m3probe-recording={GRAPH}")
    result.assert_outcomes(failed=len(WRONG))
    told = errors(result)
    assert [said for _, said in WRONG if said not in told] == []
    assert no_inside(result)


# --- assert_rules, the fixtures ------------------------------------------------------------------------------


def test_rules_of_a_file_hold_or_are_told(pytester: pytest.Pytester) -> None:
    body = asserting(f"assert_rules(m3probe_recording, {str(RULES)!r})")
    ran(pytester, body, f"--m3probe-recording={GRAPH}").assert_outcomes(passed=1)
    result = ran(pytester, body, f"--m3probe-recording={EAGER}")
    result.assert_outcomes(failed=1)
    said = errors(result)
    assert "FAILED: rule 1: path graph_replay in decode: executed" in said
    assert "rule 2" not in said  # what holds is not told
    assert "5 hold, 1 failed, 0 inconclusive" in said


def test_without_a_recording_the_test_fails_in_its_own_word(pytester: pytest.Pytester) -> None:
    result = ran(pytester, asserting("pass"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["inconclusive: no recording was given -> give --m3probe-recording PATH"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_factory_opens_a_recording_with_its_tables_and_report(pytester: pytest.Pytester) -> None:
    """1,995 kernels in the eager sample, one of its 10 steps prefill."""
    body = f"""
def test_it(open_recording):
    opened = open_recording({str(EAGER)!r}, tp=4)
    assert len(opened.recording.kernels) == 1995
    assert opened.recording.meta.tp == 4
    assert opened.report.answer.findings
    assert opened.report is opened.report
"""
    ran(pytester, body).assert_outcomes(passed=1)


# --- rules as items ------------------------------------------------------------------------------------------


def test_each_rule_is_an_item_with_its_text_as_name(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "-v", f"--m3probe-recording={GRAPH}", f"--m3probe-rules={RULES}")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "*h200-m3.toml::require trust complete PASSED*",
            "*::rule 2: kernel _gqa_sparse_decode_kernel in decode: exactly 6 per step PASSED*",
            "*::rule 4: family moe_gemm in decode: share of kernel time 0.3 to 0.6 PASSED*",
        ]
    )


def test_rule_items_fail_by_themselves_and_read_well(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, f"--m3probe-recording={EAGER}", f"--m3probe-rules={RULES}")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*h200-m3.toml: rule 1: path graph_replay in decode: executed*",
            "FAILED: rule 1: path graph_replay in decode: executed",
            "  expected: executed",
            "  why: 9 step(s) made no call of it, and nothing can have hidden one",
        ]
    )
    assert no_inside(result)


def test_rules_stand_beside_tests_and_can_be_chosen(pytester: pytest.Pytester) -> None:
    options = (f"--m3probe-recording={GRAPH}", f"--m3probe-rules={RULES}")
    ran(pytester, "def test_mine(): pass\n", *options).assert_outcomes(passed=7)
    ran(pytester, "def test_mine(): pass\n", *options, "-k", "fused_moe_kernel").assert_outcomes(passed=1, deselected=6)


def test_missing_evidence_fails_an_item_as_inconclusive(pytester: pytest.Pytester) -> None:
    rules = pytester.path / "mixed.toml"
    rules.write_text('[[rule]]\nkernel = "nccl*"\nphase = "mixed"\nforbid = true\n')
    result = pytester.runpytest_inprocess(*PLUGIN, f"--m3probe-recording={GRAPH}", f"--m3probe-rules={rules}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: rule 1: kernel nccl[*] in mixed: forbidden", "*why: no mixed step was*"]
    )


def test_a_recording_that_cannot_be_read_fails_every_rule_with_the_sentence(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--m3probe-recording=nowhere.json", f"--m3probe-rules={RULES}")
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(["nowhere.json: no such file or folder*"])
    assert no_inside(result)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((f"--m3probe-rules={RULES}",), "without a recording to judge: give --m3probe-recording PATH"),
        (("--m3probe-rules=nowhere.toml", f"--m3probe-recording={GRAPH}"), "nowhere.toml: no such rules file"),
        (("--m3probe-rules=wrong.toml", f"--m3probe-recording={GRAPH}"), "Did you mean 'kernel'?"),
    ],
)
def test_wrong_options_are_pytests_usage_error(pytester: pytest.Pytester, options: tuple[str, ...], said: str) -> None:
    (pytester.path / "wrong.toml").write_text('[[rule]]\nkernl = "x"\nforbid = true\n')
    result = pytester.runpytest_inprocess(*PLUGIN, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in str(result.stderr)


def test_several_paths_are_one_recording(pytester: pytest.Pytester) -> None:
    """Ranks 0 and 1: a rule without a rank is about both, as in ``m3probe assert RULES PATH PATH``."""
    said = []
    for rank in (0, 1):
        events = [step(100.0, 90.0, "execute_context_0(0)_generation_8(8)"), launch(101, 1)]
        events.append(kernel(110, 1.0, 1, f"evil\x1b[2J{rank}"))
        info = {"rank": rank, "world_size": 2}
        path = write_trace(pytester.path / f"rank{rank}.pt.trace.json", events, distributedInfo=info)
        said.append(f"--m3probe-recording={path}")
    rules = pytester.path / "evil.toml"
    rules.write_text('[[rule]]\nkernel = "evil*"\nforbid = true\n')
    result = pytester.runpytest_inprocess(*PLUGIN, *said, f"--m3probe-rules={rules}", "--color=no")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*rank 0: 1 of 1 kernel executions (and 1 more ranks)*"])
    assert "\x1b" not in str(result.stdout)


# --- those who do not use it ---------------------------------------------------------------------------------

LOADED = """
import json, sys
def test_nothing(): pass
def pytest_sessionfinish(session):
    with open("loaded.json", "w") as file:
        json.dump(sorted(sys.modules), file)
"""


def test_a_run_that_does_not_use_it_loads_nothing_of_m3probe(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOADED)
    pytester.makepyfile("def test_nothing(): pass")
    done = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:hypothesispytest")
    done.assert_outcomes(passed=1)
    loaded = json.loads((pytester.path / "loaded.json").read_text())
    assert [name for name in loaded if name.startswith("m3probe")] == ["m3probe", "m3probe.pytest_plugin"]
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()


def test_the_plugin_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """A folder as an installation leaves it: the package, and metadata with the entry points of pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (tmp_path / "m3probe").symlink_to(Path(m3probe.__file__).parent)
    _metadata(tmp_path, "m3probe", {"pytest11": groups["pytest11"]})
    (tmp_path / "test_it.py").write_text("def test_it(m3probe_recording): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, f"--m3probe-recording={EAGER}", str(tmp_path / "test_it.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
