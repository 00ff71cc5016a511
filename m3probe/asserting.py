"""Recordings opened for a test, and what an assertion on one says: the judgement of ``assert``, without a command line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from m3probe.api import analyze, judge, open_recording
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.present.escape import safe
from m3probe.present.verdict_text import WORDS, details, summary_line, title
from m3probe.rules import RulesFile, load_rules
from m3probe.rules._entry import Place, read_rule
from m3probe.rules.file import fast_paths
from m3probe.schema.verdicts import RuleOutcome


@dataclass(frozen=True, repr=False)
class Opened:
    """A recording with its report, which is made when it is first asked for.

    ``recording`` has the typed tables (``opened.recording.kernels.df()``), ``report`` the five questions' answers.
    """

    recording: Recording
    paths: tuple[Path, ...]

    def __repr__(self) -> str:
        return f"Opened({', '.join(map(str, self.paths))})"

    @cached_property
    def report(self) -> Report:
        """Every analyzer's answer."""
        return analyze(self.recording)

    def judge(self, rules: RulesFile) -> Judgement:
        """One result per rule."""
        return judge(self.recording, rules, self.report)


def opened(
    *paths: str | Path,
    model_config: str | Path | None = None,
    tp: int | None = None,
    ep: int | None = None,
    recipe: str | Path | None = None,
) -> Opened:
    """Read inputs as one recording, with what is known of the run beside them (as options of ``m3probe assert``).

    Args:
        paths: traces, profile folders, recordings, logs.
        model_config: the served model's config.json.
        tp: tensor parallel size.
        ep: expert parallel size.
        recipe: script, compose or Kubernetes file that started the server.

    Raises:
        UnreadableInput: an input is missing or not what it should be.
        UsageError: what was said contradicts itself.
    """
    rec = open_recording(*paths, model_config=model_config, tp=tp, ep=ep, recipe=recipe)
    return Opened(rec, tuple(map(Path, paths)))


def executed(
    recording: Opened | Recording | str | Path,
    path: str,
    *,
    phase: str | None = None,
    per_step: Any = None,
    rank: int | None = None,
    variant: str | None = None,
) -> str:
    """Why the path is not known to have run as asked; empty where it did.

    Raises:
        UsageError: a word is not known (the nearest is named).
        UnreadableInput: the recording cannot be read.
    """
    said = {"path": path, "verdict": "executed", "phase": phase, "rank": rank, "variant": variant, "per_step": per_step}
    table = {key: value for key, value in said.items() if value is not None}
    rule = read_rule(Place("assert_executed"), table, fast_paths())
    (found,) = _open(recording).judge(RulesFile("assert_executed", None, (rule,))).results
    return "" if found.outcome is RuleOutcome.HOLDS else result_text(found)


def broken_rules(recording: Opened | Recording | str | Path, rules: str | Path) -> str:
    """Every rule that failed or could not be judged, and the summary; empty where all hold.

    Raises:
        UsageError: the rules file is wrong.
        UnreadableInput: a file cannot be read.
    """
    wanted = load_rules(Path(rules))
    judgement = _open(recording).judge(wanted)
    told = [result_text(r) for r in judgement.results if r.outcome is not RuleOutcome.HOLDS]
    return "\n".join([*told, safe(f"{rules}: {summary_line(judgement)}")]) if told else ""


def result_text(result: RuleResult) -> str:
    """The outcome's word and the rule, then one fact a line."""
    lines = details(result).replace("\n", "\n  ")
    return f"{WORDS[result.outcome]}: {safe(title(result))}\n  {lines}"


def _open(recording: Opened | Recording | str | Path) -> Opened:
    if isinstance(recording, Recording):
        return Opened(recording, tuple(Path(file.path) for file in recording.files))
    return recording if isinstance(recording, Opened) else opened(recording)
