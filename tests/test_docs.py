"""What the documents promise, held against the command line, the CI and the tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT, kept_files

# Written so that this file does not hold what it looks for.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home/\w+|Users/\w+)/")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)
# Recordings made elsewhere keep the paths of the machine they were made on.
FOREIGN = ("samples/", "tests/data/")
CLAIMS = {"W": 5, "S": 7, "R": 5, "B": 6, "P": 6, "E": 4, "Q": 5, "A": 3, "C": 6}
CLAIM_IDS = [f"{letter}{number}" for letter, count in CLAIMS.items() for number in range(1, count + 1)]


def documents() -> list[Path]:
    """README, CHANGELOG and everything under docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def one_line_commands() -> list[str]:
    """README's commands that make their own environment."""
    lines = (ROOT / "README.md").read_text().splitlines()
    return [line.strip() for line in lines if line.strip().startswith("python3 -m venv ")]


def verbs() -> list[str]:
    """The verbs that ``m3probe --help`` lists, from argparse's ``{a,b,c}``."""
    command = [sys.executable, "-c", "from m3probe.cli import main; main()", "--help"]
    done = subprocess.run(command, cwd=ROOT.anchor, capture_output=True, text=True, check=False)
    listed = re.search(r"\{([a-z][a-z,\s-]*)\}", done.stdout)
    assert listed, f"--help lists no verbs:\n{done.stdout}{done.stderr}"
    return [verb.strip() for verb in listed[1].split(",")]


def test_every_verb_of_the_command_line_is_described() -> None:
    text = "\n".join(path.read_text() for path in documents())
    assert [verb for verb in verbs() if f"m3probe {verb}" not in text] == []


def test_readme_has_one_command_that_reports_and_one_that_tests() -> None:
    commands = one_line_commands()
    assert [command for command in commands if "m3probe analyze samples/" in command]
    assert [command for command in commands if command.endswith("/pytest")]
    assert len(commands) == 2


def test_ci_runs_the_commands_of_the_readme_word_for_word() -> None:
    ci = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert [command for command in one_line_commands() if command not in ci] == []


def test_no_kept_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    found = []
    for name in kept_files():
        if not name.startswith(FOREIGN):
            text = (ROOT / name).read_bytes().decode("utf-8", "replace")
            found += [f"{name}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(FENCE.sub("", document.read_text()))
    relative = [
        target.partition("#")[0] for target in targets if "://" not in target and not target.startswith("mailto:")
    ]
    assert [target for target in relative if target and not (document.parent / target).exists()] == []


def test_every_claim_of_the_method_has_a_line() -> None:
    words = set(re.findall(r"\b[A-Z]\d\b", (ROOT / "docs" / "method-coverage.md").read_text()))
    assert [claim for claim in CLAIM_IDS if claim not in words] == []


def test_every_fast_path_and_gate_is_in_the_documents() -> None:
    shelves = {"fastpaths": "paths.md", "gates": "gates.md"}
    for room, page in shelves.items():
        text = (ROOT / "docs" / page).read_text()
        names = [path.stem for path in (ROOT / "m3probe" / room).glob("*.py") if not path.stem.startswith("_")]
        assert [name for name in sorted(names) if f"`{name}`" not in text] == []
