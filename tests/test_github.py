"""GitHub Actions: what the runner reads of an annotation, what the page shows of a summary, and no foreign command."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import pytest
from command_kit import ran
from markdown_it import MarkdownIt
from tree import ROOT

from m3probe.model.findings import Evidence
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.present.escape import safe
from m3probe.present.github import MOST_BYTES, command_unread, commands, inert, summary, summary_unread
from m3probe.schema.verdicts import RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE
NASTY = (
    "k|`<script>alert(1)</script>`*_[x](http://e.vil)\\|\r\n| a | b |\x1b[2J::error::x##[add-mask]y,100%0A:&lt;\u202e"
)
GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"


def rule(number: int, outcome: RuleOutcome, text: str = "kernel a: forbidden", move: str = "do this") -> RuleResult:
    rows = (Evidence("kernels", (4, 5), 7, f"seen {text}"),)
    return RuleResult(
        number, number * 10, text, outcome, "none", f"3 of {text}", "kernels", "", f"why {text}", rows, move
    )


def judgement(*outcomes: RuleOutcome, text: str = "kernel a: forbidden") -> Judgement:
    return Judgement("ci/rules.toml", None, tuple(rule(i, o, text) for i, o in enumerate(outcomes, 1)))


def read_as_the_runner_does(line: str) -> tuple[str, dict[str, str], str]:
    """``ActionCommand.TryParseV2``: the command, its properties, the message, unescaped in the runner's order."""

    def unescaped(text: str, *more: tuple[str, str]) -> str:
        for written, meant in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(written, meant)
        return text

    assert line.startswith("::")
    end = line.index("::", 2)
    command, _, said = line[2:end].partition(" ")
    pairs = [pair.split("=", 1) for pair in said.strip().split(",") if pair]
    return command, {k: unescaped(v, ("%3A", ":"), ("%2C", ",")) for k, v in pairs}, unescaped(line[end + 2 :])


# --- annotations -------------------------------------------------------------------------------------------


def test_a_failed_rule_is_an_error_and_an_inconclusive_one_a_warning() -> None:
    lines = commands(judgement(HOLDS, FAILED, INCONCLUSIVE), "ci/rules.toml")
    read = [read_as_the_runner_does(line) for line in lines]
    assert [command for command, _, _ in read] == ["error", "warning"]
    _, properties, message = read[0]
    assert properties == {"file": "ci/rules.toml", "line": "20", "title": "FAILED: rule 2: kernel a: forbidden"}
    assert message.split("\n") == [
        "expected: none",
        "observed: 3 of kernel a: forbidden [kernels]",
        "why: why kernel a: forbidden",
        "evidence: kernels rows 4, 5 of 7",
        "next move: do this",
    ]


def test_rules_that_are_no_file_of_the_repository_have_no_place() -> None:
    (line,) = commands(judgement(FAILED), "")
    assert set(read_as_the_runner_does(line)[1]) == {"title"}


def test_foreign_names_stay_inside_of_their_property_and_message() -> None:
    (line,) = commands(judgement(FAILED, text=NASTY), "ci/a,b:c%.toml")
    assert not set(line) & set("\r\n\x1b")
    command, properties, message = read_as_the_runner_does(line)
    assert command == "error"
    assert set(properties) == {"file", "line", "title"}
    assert properties["file"] == "ci/a,b:c%.toml"
    assert properties["title"] == f"FAILED: rule 1: {safe(NASTY)}"
    assert message.split("\n")[1] == f"observed: 3 of {safe(NASTY)} [kernels]"


def test_the_tenth_of_a_kind_speaks_for_those_that_github_would_drop() -> None:
    lines = commands(judgement(*[FAILED] * 12, *[INCONCLUSIVE] * 10), "r.toml")
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 10
    _, properties, message = read_as_the_runner_does(lines[9])
    assert properties["title"] == "3 more rules: FAILED"
    assert message.startswith("rules 10, 11, 12: ")
    assert read_as_the_runner_does(lines[19])[1]["title"].startswith("inconclusive: rule 22")  # ten need no such line


def test_a_message_of_any_length_is_cut() -> None:
    (line,) = commands(judgement(FAILED, text="x" * 100_000), "r.toml")
    assert len(line) < 5000


def test_nothing_judged_is_one_error() -> None:
    command, properties, message = read_as_the_runner_does(command_unread("r.toml", f"a.json: {NASTY}"))
    assert (command, properties["file"], message) == ("error", "r.toml", f"a.json: {safe(NASTY)}")


def test_the_runners_old_command_form_is_broken_and_json_stays_the_same_document() -> None:
    assert "##[" not in inert(f"ok rule 1: {NASTY}")
    document = json.dumps({"rule": "##[add-mask]y"})
    assert "##[" not in inert(document, json=True)
    assert json.loads(inert(document, json=True)) == {"rule": "##[add-mask]y"}


# --- the summary -------------------------------------------------------------------------------------------


class Table(HTMLParser):
    """Rows of cells as a reader sees them, and every tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.rstrip("\n")


def table(text: str) -> Table:
    return Table(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))


def test_summary_is_a_table_with_the_worst_first() -> None:
    found = table(summary(judgement(HOLDS, INCONCLUSIVE, FAILED))).rows
    assert found[0] == ["outcome", "rule", "expected", "observed", "why", "next move"]
    assert [row[0] for row in found[1:]] == ["FAILED", "inconclusive", "ok"]
    assert found[1][1:] == [
        "rule 3: kernel a: forbidden",
        "none",
        "3 of kernel a: forbidden [kernels]; kernels rows 4, 5 of 7",
        "why kernel a: forbidden",
        "do this",
    ]


def test_foreign_names_cannot_break_the_table() -> None:
    text = summary(judgement(FAILED, HOLDS, text=NASTY))
    found = table(text)
    assert found.tags <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "strong"}
    assert [len(row) for row in found.rows] == [6, 6, 6]
    assert found.rows[1][1] == f"rule 1: {safe(NASTY)}"
    assert found.rows[1][4] == f"why {safe(NASTY)}"
    assert "<script" not in text


def test_summary_fits_into_what_github_takes_and_says_what_it_leaves_out() -> None:
    many = judgement(*[HOLDS] * 999, FAILED, text="|" * 1900)  # 6 bytes for each bar
    for room in (MOST_BYTES, 200_000):
        text = summary(many, room)
        assert len(text.encode()) <= room
        shown = len(table(text).rows) - 1
        assert table(text).rows[1][0] == "FAILED"
        assert f"{1000 - shown:,} more rules do not fit into the 1 MiB" in text
    assert summary(many, 250).count("\n|") == 0
    assert "1,000 more rules" in summary(many, 250)
    assert summary(many, 10) == ""


def test_summary_says_when_nothing_was_judged() -> None:
    page = MarkdownIt("commonmark", {"html": True}).render(summary_unread("r.toml", f"a.json: {NASTY}"))
    assert "<script" not in page
    assert "Nothing was judged: a.json" in page


# --- the command line --------------------------------------------------------------------------------------


def check(*args: object, **env: str) -> CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    with mock.patch.dict(os.environ, clean, clear=True):
        return ran("assert", *args, **env)


def test_in_github_actions_annotations_are_on_stderr_and_the_summary_grows(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page), "GITHUB_WORKSPACE": str(ROOT)}
    done = check(RULES, EAGER, "--json", **env)
    assert done.returncode == 1
    assert json.loads(done.stdout)["exit_code"] == 1  # stdout is the result alone
    (line,) = done.stderr.splitlines()
    command, properties, _ = read_as_the_runner_does(line)
    assert (command, properties["file"], properties["line"]) == ("error", "samples/rules/h200-m3.toml", "9")
    assert page.read_text().startswith("before\n\n### m3probe assert")
    assert [row[0] for row in table(page.read_text()).rows] == ["outcome", "FAILED", *["ok"] * 5]


def test_elsewhere_nothing_is_told_to_github_unless_asked(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    assert check(RULES, EAGER, GITHUB_STEP_SUMMARY=str(page)).stderr == ""
    assert check(RULES, EAGER, "--no-github", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page)).stderr == ""
    assert not page.exists()
    assert check(RULES, EAGER, "--github").stderr.startswith("::error file=")
    assert check(RULES, GRAPH, "--github").stderr == ""


def test_a_summary_that_cannot_be_written_is_a_warning_and_the_status_stands(tmp_path: Path) -> None:
    full = tmp_path / "full.md"
    full.write_text("x" * MOST_BYTES)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for page, why in ((tmp_path, "not a regular file"), (full, "1 MiB is full"), (fifo, "not a regular file")):
        for trace, status in ((GRAPH, 0), (EAGER, 1)):
            done = check(RULES, trace, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
            assert done.returncode == status
            assert f"m3probe: warning: GITHUB_STEP_SUMMARY: {why}" in done.stderr
    done = check(RULES, GRAPH, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "no" / "folder.md"))
    assert done.returncode == 0
    assert "cannot be written (No such file or directory)" in done.stderr


@pytest.mark.parametrize(("rules", "code"), [("missing.toml", 3), ("wrong.toml", 2)])
def test_what_could_not_be_judged_is_told_too(tmp_path: Path, rules: str, code: int) -> None:
    (tmp_path / "wrong.toml").write_text("[[rul]]\n")
    page = tmp_path / "summary.md"
    done = check(tmp_path / rules, GRAPH, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
    assert done.returncode == code
    assert done.stderr.startswith("::error ")
    assert "Nothing was judged" in page.read_text()
