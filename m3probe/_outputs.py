"""Where ``assert`` tells its result beside stdout: a JUnit file, and annotations and a summary in GitHub Actions.

What every file that a command line names to be written needs: never over an input, once into a pipe.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from m3probe import _streams
from m3probe.errors import UsageError
from m3probe.model.judgement import Judgement

SUMMARY = "GITHUB_STEP_SUMMARY"
WORKSPACE = "GITHUB_WORKSPACE"
Summary = Callable[[int], str]
"""Room in bytes -> what fits."""
NOT_ENDED = "m3probe did not end: it was interrupted or killed before it had judged"


def in_github() -> bool:
    """Whether this process is a step of a GitHub workflow."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the command line asks for.

    Args:
        rules: as given: a file, or the name of a ready one.
        junit: the report to write; None: none.
        github: annotations on stderr, which the runner reads like stdout, and the summary file that the runner names.
        inputs: files that are read, which no report may overwrite.
    """

    rules: Path
    junit: Path | None = None
    github: bool = False
    inputs: tuple[Path, ...] = ()

    def begin(self) -> None:
        """Say "not judged" in the JUnit file first: a path that cannot be written is told before the work, and no older
        file speaks for a run that is killed.

        Raises:
            UsageError: the file cannot be written, or is an input.
        """
        if self.junit is None:
            return
        apart("--junit", self.junit)
        if is_stream(self.junit):
            return  # a pipe or device takes one report, not two
        spare("--junit", self.junit, self.inputs)
        self._junit(NOT_ENDED)

    def judged(self, judgement: Judgement) -> None:
        """Write the result; a summary that cannot be written is a warning, as nobody named that file.

        Raises:
            UsageError: the JUnit file cannot be written.
        """
        if self.github:
            from m3probe.present.github import commands, summary

            self._tell(commands(judgement, self._file()), lambda room: summary(judgement, room))
        self._junit(judgement)

    def unread(self, sentence: str) -> None:
        """The same when nothing could be judged: one error says why."""
        if self.github:
            from m3probe.present.github import command_unread, summary_unread

            said = summary_unread(str(self.rules), sentence)
            fits = len(said.encode("utf-8", "replace"))
            self._tell([command_unread(self._file(), sentence)], lambda room: said if fits <= room else "")
        self._junit(sentence)

    def stdout(self, text: str, *, json: bool) -> str:
        """The result as stdout may show it: in GitHub Actions without a workflow command in a foreign name."""
        if not self.github:
            return text
        from m3probe.present.github import inert

        return inert(text, json=json)

    def _junit(self, result: Judgement | str) -> None:
        if self.junit is None:
            return
        from m3probe.present.junit import junit_unread, junit_xml

        text = junit_unread(str(self.rules), result) if isinstance(result, str) else junit_xml(result)
        try:
            self.junit.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot be written ({error.strerror})", where=str(self.junit)) from error

    def _file(self) -> str:
        """The rules file as GitHub knows it, from the root of the checkout; empty for a ready one, which is none there."""
        there = stat_of(self.rules)
        if there is None or not stat.S_ISREG(there.st_mode):
            return ""
        root = os.environ.get(WORKSPACE)
        whole = self.rules.resolve()
        inside = root and whole.is_relative_to(Path(root).resolve())
        return whole.relative_to(Path(str(root)).resolve()).as_posix() if inside else str(self.rules)

    def _tell(self, lines: list[str], text: Summary) -> None:
        _streams.put(sys.stderr, "".join(f"{line}\n" for line in lines))
        named = os.environ.get(SUMMARY)
        if named and (why := _appended(Path(named), text)):
            _streams.complain(f"warning: {SUMMARY}: {why}; the result above and the exit status stand")


def _appended(path: Path, text: Summary) -> str:
    """Append to the summary what still fits; why it could not be, or nothing."""
    from m3probe.present.github import MOST_BYTES

    try:
        there = stat_of(path)
        if there is not None and not stat.S_ISREG(there.st_mode):
            return "not a regular file"
        said = text(MOST_BYTES - (there.st_size if there else 0))
        if not said:
            return "1 MiB is full"
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(said)
    except (OSError, ValueError) as error:
        return f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return ""


def spare(word: str, out: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over what is read, under whatever name.

    Raises:
        UsageError: ``out`` is one of ``inputs``, or lies in a folder that is one; ``word`` is the option that names it.
    """
    there = stat_of(out)
    for path in inputs:
        if there and (said := stat_of(path)) is not None and os.path.samestat(said, there):
            raise UsageError(f"{word} would overwrite an input", where=str(path), next_move="Give another name")


def apart(word: str, out: Path) -> None:
    """Refuse the file or pipe that stdout goes to: it would replace the result, or stand in the middle of it.

    Raises:
        UsageError: it is where stdout goes.
    """
    there = stat_of(out)
    if there is None or not (stat.S_ISREG(there.st_mode) or stat.S_ISFIFO(there.st_mode)):
        return
    try:
        result = os.fstat(1)
    except OSError:
        return  # stdout is closed
    if os.path.samestat(there, result):
        raise UsageError(f"{word} names what stdout goes to", where=str(out), next_move="Give it a file of its own")


def is_stream(path: Path) -> bool:
    """Whether it is a pipe or device, which takes what is written once and cannot be replaced."""
    there = stat_of(path)
    return there is not None and (stat.S_ISFIFO(there.st_mode) or stat.S_ISCHR(there.st_mode))


def stat_of(path: Path) -> os.stat_result | None:
    """What lies there, links followed; None for nothing: whoever opens it says why."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None
