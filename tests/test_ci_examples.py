"""The CI examples of the documents run as they stand, on a bundled sample, with the installed m3probe and no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs_kit import rate
from tree import ROOT

pytest_plugins = ["pytester"]

EXAMPLES = ROOT / "docs" / "examples"
GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
BLIND = ROOT / "tests" / "data" / "cases" / "k03_graph_kernels_dropped.json"
STATUS = [(GRAPH, 0), (EAGER, 1), (BLIND, 4)]
INSTALL = "Install m3probe"
"""The one step that asks a network for packages; here m3probe is on PATH already."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A team's repository: its rules, and a recorder that puts the chosen sample into a folder."""
    (tmp_path / "ci").mkdir()
    shutil.copy(ROOT / "samples" / "rules" / "h200-m3.toml", tmp_path / "ci" / "fast-paths.toml")
    recorder = tmp_path / "ci" / "record-trace.sh"
    recorder.write_text('#!/bin/sh\nmkdir -p "$1" && rm -f "$1"/* && cp "$SAMPLE" "$1"\n')
    recorder.chmod(0o755)
    return tmp_path


def bash(line: str, folder: Path, sample: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """One step as a runner starts it (``bash -e``), with the m3probe under test first on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, "SAMPLE": str(sample), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def junit_totals(folder: Path) -> tuple[str | None, str | None]:
    root = ET.parse(folder / "m3probe.xml").getroot()
    return root.get("failures"), root.get("errors")


def test_the_page_shows_the_example_files_word_for_word() -> None:
    shown = [*blocks("ci.md", "yaml"), *blocks("ci.md", "bash")]
    for file in sorted(f for f in EXAMPLES.iterdir() if f.suffix not in {".py", ""}):  # Python: test_api_examples.py
        assert file.read_text() in shown, f"{file.name} differs from its block in docs/ci.md"


@pytest.mark.parametrize(("sample", "status"), STATUS)
def test_the_github_workflow_ends_as_the_rules_do(checkout: Path, sample: Path, status: int) -> None:
    workflow: dict[Any, Any] = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    assert "pull_request" in workflow[True]  # YAML 1.1 reads the key `on` as true, and GitHub knows
    steps = workflow["jobs"]["fast-paths"]["steps"]
    assert [step["uses"] for step in steps if "uses" in step] == ["actions/checkout@v4", "actions/upload-artifact@v4"]
    summary = checkout / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(checkout)}
    done = [bash(step["run"], checkout, sample, **env) for step in steps if "run" in step and step["name"] != INSTALL]
    assert [d.returncode for d in done] == [0, status], done[-1].stderr
    kinds = {0: "", 1: "::error file=ci/fast-paths.toml,line=", 4: "::warning "}
    assert kinds[status] in done[-1].stderr
    assert ("::" in done[-1].stderr) is bool(status)
    assert summary.read_text().startswith("### m3probe assert: ci/fast-paths.toml")
    kept = steps[-1]["with"]["path"].split()
    assert [name for name in kept if not (checkout / name).exists()] == []


def test_the_install_step_of_the_workflow_is_a_shell_script_that_names_what_it_makes() -> None:
    (step,) = [
        s
        for s in yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())["jobs"]["fast-paths"]["steps"]
        if s.get("name") == INSTALL
    ]
    assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0
    assert re.findall(r"\.m3probe/bin", step["run"]) == [".m3probe/bin"] * 2


@pytest.mark.parametrize(("sample", "status"), STATUS)
def test_the_gitlab_job_ends_as_the_rules_do(checkout: Path, sample: Path, status: int) -> None:
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["fast-paths"]
    assert bash("\n".join(job["script"]), checkout, sample).returncode == status
    report = job["artifacts"]["reports"]["junit"]
    assert report in job["artifacts"]["paths"]
    failures, errors = junit_totals(checkout)
    assert (failures != "0", errors != "0") == (status == 1, status == 4)


@pytest.mark.parametrize(
    ("sample", "again", "status", "said"),
    [
        (GRAPH, BLIND, 0, "every rule holds"),
        (EAGER, BLIND, 1, "a fast path was lost"),
        (BLIND, GRAPH, 0, "every rule holds"),  # the second recording could tell
        (BLIND, BLIND, 4, "the recording cannot tell"),
        ("missing.json", GRAPH, 3, "nothing was judged"),
    ],
)
def test_the_shell_script_records_again_only_where_evidence_is_missing(
    checkout: Path, sample: Path | str, again: Path, status: int, said: str
) -> None:
    done = bash(f"{EXAMPLES / 'check-fast-paths.sh'} ci/fast-paths.toml {sample}", checkout, again)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, said)
    assert ("recording again" in done.stdout) is (sample == BLIND)


def test_the_triple_of_the_page_holds_with_a_better_metric_and_fails_with_a_worse_one(checkout: Path) -> None:
    (line,) = [block for block in blocks("ci.md", "bash") if "--triple" in block]
    bash("./ci/record-trace.sh traces/", checkout, GRAPH)
    (checkout / "results.json").write_text('{"accuracy": 0.95, "num_questions": 1319}')
    for names, status in ((("main.json", "bench.json"), 0), (("bench.json", "main.json"), 1)):
        for name, per_gpu in zip(names, (700.0, 800.0), strict=True):
            made = [rate(per_gpu * f) for f in (0.999, 1.0, 1.001)]
            (checkout / name).write_text("\n".join(json.dumps(one) for one in made))
        done = bash(line, checkout, GRAPH)
        assert done.returncode == status, done.stdout + done.stderr


def test_the_tests_of_the_pytest_page_pass_on_the_sample(checkout: Path, pytester: pytest.Pytester) -> None:
    """Six sparse layers in the sample; the eager one has 64 kernels fewer."""
    (text,) = blocks("pytest.md", "python")
    shutil.copytree(checkout / "ci", pytester.path / "ci")
    (pytester.path / "traces").mkdir()
    shutil.copy(EAGER, pytester.path / "traces" / "other.pt.trace.json.gz")
    pytester.makepyfile(text)
    plugin = ("-p", "no:m3probe", "-p", "m3probe.pytest_plugin", "-p", "no:cacheprovider")
    rules = "--m3probe-rules=ci/fast-paths.toml"
    done = pytester.runpytest_inprocess(*plugin, f"--m3probe-recording={GRAPH}", rules)
    done.assert_outcomes(passed=4 + 6)
