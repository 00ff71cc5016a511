"""``m3probe assert`` in GitHub Actions: annotations beside the rules file, and a table for the step's summary.

The rules of escaping are the runner's own (``ActionCommand.cs``): in a message ``%``, CR and LF, in a property also ``:``
and ``,``. A summary is Markdown that a stranger's kernel name stands in: all that means something there is an entity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.present.escape import safe
from m3probe.present.verdict_text import WORDS, details, proofs, summary_line, title
from m3probe.schema.verdicts import RuleOutcome

MOST_SHOWN = 10
"""Annotations of one kind that GitHub shows of a step; the rest would be dropped in silence."""
MOST_BYTES = 2**20
"""Of a step's summary: GitHub refuses a larger one as a whole."""
_MESSAGE = 4000
_CELL = 2000
_KINDS = {RuleOutcome.FAILED: "error", RuleOutcome.INCONCLUSIVE: "warning"}
_WORST = (RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE, RuleOutcome.HOLDS)
# Punctuation that Markdown, its tables, or HTML read; `:` and `@` too, for bare links, emoji and mentions.
_MEANS = re.compile(r"[!\"#$&'()*+<=>@\[\\\]^_`{|}~:]")
_HEAD = "| outcome | rule | expected | observed | why | next move |\n|---|---|---|---|---|---|\n"
_LEGACY = "##["
"""The runner's old command form, which it finds anywhere in a line: a kernel name could hold one."""


def commands(judgement: Judgement, file: str) -> list[str]:
    """One workflow command per failed (error) or inconclusive (warning) rule; the tenth of a kind speaks for the rest.

    Args:
        judgement: what was judged.
        file: the rules file as the repository knows it; empty where it is no file of it.
    """
    return [line for outcome in _KINDS for line in _of_kind(judgement, outcome, file)]


def command_unread(file: str, sentence: str) -> str:
    """The error that stands for everything when nothing could be judged."""
    return _command("error", file, None, "m3probe assert: nothing was judged", safe(sentence))


def inert(text: str, *, json: bool = False) -> str:
    r"""A result whose foreign names are no workflow commands; as JSON it is still the same document.

    A line that begins with ``::`` cannot come from a name: every line of a result begins with m3probe's own words.
    """
    spelt = r"\u0023#[" if json else r"\x23#["
    return text.replace(_LEGACY, spelt)


def summary(judgement: Judgement, room: int = MOST_BYTES) -> str:
    """The Markdown of a judgement, the worst first, in at most ``room`` bytes; what is left out is said."""
    head = f"### m3probe assert: {_cell(judgement.rules_path)}\n\n{_cell(summary_line(judgement))}\n\n"
    rows = [_row(result) for word in _WORST for result in judgement.results if result.outcome is word]
    whole = head + _HEAD + "".join(rows) + "\n"
    if _size(whole) <= room:
        return whole
    kept = _fitting(rows, room - _size(head + _HEAD) - len(_cut(len(rows))))
    left = len(rows) - len(kept)
    text = head + _HEAD + "".join(kept) + _cut(left) if kept else head + _cut(left)
    return text if _size(text) <= room else ""


def summary_unread(rules_path: str, sentence: str) -> str:
    """The Markdown when nothing could be judged."""
    return f"### m3probe assert: {_cell(rules_path)}\n\nNothing was judged: {_cell(sentence)}\n\n"


# --- annotations -------------------------------------------------------------------------------------------


def _of_kind(judgement: Judgement, outcome: RuleOutcome, file: str) -> Iterator[str]:
    results = [result for result in judgement.results if result.outcome is outcome]
    shown = results if len(results) <= MOST_SHOWN else results[: MOST_SHOWN - 1]
    for result in shown:
        name = f"{WORDS[outcome]}: {safe(title(result))}"
        yield _command(_KINDS[outcome], file, result.line, name, details(result))
    rest = results[len(shown) :]
    if rest:
        named = ", ".join(str(result.number) if result.number else safe(result.rule) for result in rest)
        name = f"{len(rest):,} more rules: {WORDS[outcome]}"
        yield _command(
            _KINDS[outcome], file, None, name, f"rules {named}: the log and the step's summary have them all"
        )


def _command(kind: str, file: str, line: int | None, name: str, message: str) -> str:
    said = [("file", file), ("line", str(line) if file and line else ""), ("title", _short(name, 250))]
    properties = ",".join(f"{key}={_property(safe(value))}" for key, value in said if value)
    return f"::{kind} {properties}::{_data(_short(message, _MESSAGE))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


# --- the summary -------------------------------------------------------------------------------------------


def _row(result: RuleResult) -> str:
    seen = [f"{result.observed} [{result.basis}]", f"at {result.where}" if result.where else "", *proofs(result)[:3]]
    observed = "; ".join(filter(None, seen))
    word = f"**{WORDS[result.outcome]}**" if result.outcome is not RuleOutcome.HOLDS else WORDS[result.outcome]
    cells = [word, *map(_cell, (title(result), result.expected, observed, result.why, result.next_move))]
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    return _MEANS.sub(lambda found: f"&#{ord(found[0])};", _short(safe(text), _CELL))


def _fitting(rows: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for row in rows:
        room -= _size(row)
        if room < 0:
            break
        kept.append(row)
    return kept


def _cut(left: int) -> str:
    return f"\n{left:,} more rules do not fit into the 1 MiB of a step's summary: the log has them all.\n\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8"))
