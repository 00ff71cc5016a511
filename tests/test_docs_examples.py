"""Output that the documents show is what the program prints; sentences that they explain are in the code."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from tree import ROOT, modules

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
CUT = "..."
COLUMNS = "100"


def examples() -> list[tuple[str, str, str]]:
    """(page, command, shown output) of every ``console`` block of docs/."""
    found = []
    for path in sorted((ROOT / "docs").glob("*.md")):
        for block in CONSOLE.findall(path.read_text()):
            command, _, shown = block.partition("\n")
            assert command.startswith("$ m3probe "), f"{path.name}: a block begins with its command"
            found.append((path.name, command.removeprefix("$ "), shown))
    return found


@cache
def printed(command: str) -> str:
    """stdout and stderr of a command, run in process from the root, 100 columns wide."""
    import contextlib
    import io

    from m3probe.cli import main

    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        patch.setenv("COLUMNS", COLUMNS)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("PYTHONIOENCODING", "utf-8")
        patch.chdir(ROOT)
        patch.setattr("sys.argv", shlex.split(command))
        with contextlib.suppress(SystemExit):
            main()
    return out.getvalue()


@pytest.mark.parametrize(("page", "command", "shown"), examples(), ids=lambda text: str(text)[:60].strip())
def test_output_in_the_documents_is_what_is_printed(page: str, command: str, shown: str) -> None:
    """Pieces between ``...`` stand in the output as they are, in that order."""
    text, at = printed(command), 0
    pieces = [piece.strip("\n") for piece in re.split(r"^\.\.\.$\n?", shown, flags=re.MULTILINE)]
    assert any(pieces)
    for piece in filter(None, pieces):
        found = text.find(piece + "\n", at)
        assert found >= 0, f"{page}: `{command}` prints no such lines (any more, or not there):\n{piece}"
        at = found + len(piece)


def test_each_question_has_an_example() -> None:
    pages = {page for page, _, _ in examples()}
    assert {f"{name}.md" for name in ("shapes", "repeats", "bytes", "paths", "queues")} <= pages


def test_sentences_of_troubleshooting_are_the_codes_own() -> None:
    """First cells that are one code span and nothing else: somebody searches for these words."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    said = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(said) > 40
    joined = re.compile(r"\"\s*\n\s*f?\"")  # a sentence that the formatter cut in two
    code = "\n".join(joined.sub("", path.read_text()) for path in modules().values())
    assert [words for words in said if words not in code] == []


def test_exit_codes_are_those_of_help() -> None:
    from m3probe._arguments import parser_of

    told = re.findall(r"^ {0,2}(\d+)  ?", parser_of({}).epilog or "", re.MULTILINE)
    page = re.findall(r"^\| (\d+) \|", (Path(ROOT) / "docs" / "exit-codes.md").read_text(), re.MULTILINE)
    assert page == told == ["0", "1", "2", "3", "4", "70", "130"]
