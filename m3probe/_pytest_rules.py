"""The rules of a file as test items: each is judged on the recording that the command line names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from m3probe.asserting import opened, result_text
from m3probe.errors import M3ProbeError
from m3probe.model.judgement import RuleResult
from m3probe.present.escape import safe
from m3probe.rules import RulesFile, load_rules
from m3probe.schema.verdicts import RuleOutcome


class NotHeld(Exception):
    """A rule that failed, or whose evidence is missing."""

    def __init__(self, result: RuleResult) -> None:
        super().__init__(result.rule)
        self.result = result


class RulesNode(pytest.File):
    """A rules file in the tree of tests; the recording is read when the first of its items runs."""

    def __init__(self, *, rules: RulesFile, recording: Sequence[str], **named: Any) -> None:
        super().__init__(**named)
        self.rules = rules
        self.recording = recording

    def collect(self) -> list[pytest.Item]:
        """One item for what the file requires of trust, one per rule."""
        said: list[tuple[str, int | None]] = []
        said += [(f"require trust {self.rules.trust}", None)] if self.rules.trust else []
        said += [(f"rule {rule.number}: {rule.text}", rule.line) for rule in self.rules.rules]
        return [
            RuleItem.from_parent(self, name=safe(text), index=index, line=line)
            for index, (text, line) in enumerate(said)
        ]

    @cached_property
    def results(self) -> tuple[RuleResult, ...] | M3ProbeError:
        """One result per item; or why there are none, which is told by each of them."""
        try:
            return opened(*self.recording).judge(self.rules).results
        except M3ProbeError as error:
            return error


class RuleItem(pytest.Item):
    """One rule."""

    def __init__(self, *, index: int, line: int | None, **named: Any) -> None:
        super().__init__(**named)
        self.index = index
        self.line = line

    def runtest(self) -> None:
        """Judge it; missing evidence fails like a broken rule, in its own word."""
        assert isinstance(self.parent, RulesNode)
        results = self.parent.results
        if isinstance(results, M3ProbeError):
            raise results
        if results[self.index].outcome is not RuleOutcome.HOLDS:
            raise NotHeld(results[self.index])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Expected, observed, where, why, next move; a traceback only for a fault of m3probe."""
        if isinstance(excinfo.value, NotHeld):
            return result_text(excinfo.value.result)
        if isinstance(excinfo.value, M3ProbeError):
            return safe(excinfo.value.sentence())
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The rules file, the line of the rule (from 0), and its text behind the file's name.

        Without the file's name pytest would take the text for a Python name, and write ``0.3`` as ``0::3``.
        """
        return self.path, None if self.line is None else self.line - 1, f"{self.path.name}: {self.name}"


def loaded_rules(rules: str, recording: Sequence[str], option: str) -> RulesFile:
    """The rules file of the command line.

    Raises:
        UsageError: pytest's own: the file is wrong or missing, or no recording was named.
    """
    if not recording:
        raise pytest.UsageError(f"--m3probe-rules without a recording to judge: give {option} PATH")
    try:
        return load_rules(Path(rules))
    except M3ProbeError as error:
        raise pytest.UsageError(safe(error.sentence())) from error


def rule_items(session: pytest.Session, rules: RulesFile, path: Path, recording: Sequence[str]) -> list[pytest.Item]:
    """One item per rule of the file at ``path``."""
    node = RulesNode.from_parent(session, path=path.absolute(), rules=rules, recording=recording)
    return list(node.collect())
