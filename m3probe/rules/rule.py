"""One rule as it is meant, and when two rules cannot both hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from m3probe.rules.formula import Formula
from m3probe.schema.verdicts import PathVerdict, Phase, Trust

TARGET, DRAFT = "target", "draft"
ROLES = (TARGET, DRAFT)
"""Whose model runs it: the served one's, or the one that drafts tokens for it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A closed range; a side without number and formula is open.

    A side that is a formula has no number until its values are known, and keeps the formula to be shown beside it.
    """

    low: float | None = None
    high: float | None = None
    low_formula: Formula | None = None
    high_formula: Formula | None = None

    def words(self) -> str:
        """``exactly 6``, ``6 to 8``, ``at least 6 (sparse_layers)``, ``at most rows``."""
        low, high = _side(self.low, self.low_formula), _side(self.high, self.high_formula)
        if not low:
            return f"at most {high}"
        if not high:
            return f"at least {low}"
        return f"exactly {low}" if low == high else f"{low} to {high}"

    @property
    def names(self) -> frozenset[str]:
        """Names whose values are still to be put in."""
        sides = ((self.low, self.low_formula), (self.high, self.high_formula))
        return frozenset(name for number, formula in sides if number is None and formula for name in formula.names)

    def known(self, values: Mapping[str, int]) -> Span:
        """The range with each formula worked out whose names all have a value.

        Raises:
            FormulaError: a formula has no value.
        """
        low, high = _worked_out(self.low, self.low_formula, values), _worked_out(self.high, self.high_formula, values)
        return Span(low, high, self.low_formula, self.high_formula)


def _side(number: float | None, formula: Formula | None) -> str:
    if number is None:
        return formula.text if formula else ""
    return f"{number:,} ({formula.text})" if formula else f"{number:,}"


def _worked_out(number: float | None, formula: Formula | None, values: Mapping[str, int]) -> float | None:
    pending = number is None and formula is not None and formula.names <= values.keys()
    return formula.value(values) if pending and formula is not None else number


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``[[rule]]``, checked.

    ``kind`` is ``path``, ``family``, ``kernel``, ``gate`` or ``agree`` and ``name`` its value. ``per_step`` and ``count``
    are kernel executions (of a path: its calls), ``share`` is a part of kernel time (0 to 1); None where the rule does not
    ask. ``variant`` is one implementation of a path (empty: any), ``forbidden`` those that must not run. ``id`` is what
    ``drop`` and a rule that replaces this one name; ``origin`` the file that it was inherited from, empty for the file's own.
    """

    number: int
    line: int | None
    kind: str
    name: str
    phase: Phase | None = None
    rank: int | None = None
    trust: Trust | None = None
    verdict: PathVerdict | None = None
    variant: str = ""
    per_step: Span | None = None
    count: Span | None = None
    share: Span | None = None
    forbid: bool = False
    role: str = ""
    forbidden: tuple[str, ...] = ()
    id: str = ""
    origin: str = ""

    @property
    def scope(self) -> str:
        """`` in decode of the draft model on rank 3``; empty for everything."""
        phase = f" in {self.phase}" if self.phase else ""
        role = f" of the {self.role} model" if self.role else ""
        return phase + role + (f" on rank {self.rank}" if self.rank is not None else "")

    @property
    def expected(self) -> str:
        """What must be seen, in words."""
        return "; ".join(self._expectations())

    @property
    def text(self) -> str:
        """The whole rule in one line."""
        origin = f" [{self.id or 'no id'} of {self.origin}]" if self.origin else ""
        return f"{self.kind} {self.name}{self.scope}: {self.expected}{origin}"

    def _expectations(self) -> Iterator[str]:
        if self.kind == "gate":
            yield "holds"
        if self.kind == "agree":
            yield "equal on all ranks"
        if self.verdict:
            yield f"{self.verdict} as {self.variant}" if self.variant else str(self.verdict)
        if self.forbid:
            yield "forbidden"
        if self.forbidden:
            yield f"never as {' or '.join(self.forbidden)}"
        if self.per_step:
            yield f"{self.per_step.words()} per step"
        if self.count:
            yield f"{self.count.words()} in all"
        if self.share:
            yield f"share of kernel time {self.share.words()}"

    @property
    def possible(self) -> bool:
        """No check of the rule asks for executions that another of its checks rules out."""
        return not _apart(_least(self), _most(self)) and self.variant not in self.forbidden

    def covers(self, other: Rule) -> bool:
        """Whether everything that ``other`` looks at is looked at by this rule too."""
        same = (self.kind, self.name) == (other.kind, other.name) and self.role in ("", other.role)
        return same and self.phase in (None, other.phase) and self.rank in (None, other.rank)


def clashes(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Pairs that cannot both hold, each once, the later rule second."""
    about: dict[tuple[str, str], list[Rule]] = {}
    for rule in rules:
        about.setdefault((rule.kind, rule.name), []).append(rule)
    found = {
        (min(a.number, b.number), max(a.number, b.number))
        for same in about.values()
        for a, b in permutations(same, 2)
        if a.covers(b) and _clash(a, b)
    }
    by_number = {rule.number: rule for rule in rules}
    for first, second in sorted(found):
        yield by_number[first], by_number[second]


def _clash(wide: Rule, narrow: Rule) -> bool:
    if _disjoint(wide.per_step, narrow.per_step):
        return True
    if _apart(_least(narrow), _most(wide)):
        return True
    if narrow.variant and narrow.variant in wide.forbidden:
        return True
    if not narrow.covers(wide):
        # shares and verdicts of different scopes are different figures
        return False
    if _disjoint(wide.share, narrow.share):
        return True
    said = (wide.verdict, narrow.verdict), (wide.variant, narrow.variant)
    return any(one and other and one != other for one, other in said)


def _least(rule: Rule) -> float | None:
    """Executions that a rule implies at least: one step's, or one where only a share is asked."""
    count, per_step, share = rule.count, rule.per_step, rule.share
    wanted = [
        count.low if count else None,
        per_step.low if per_step else None,
        1 if share and share.low else None,
    ]
    return max((low for low in wanted if low), default=None)


def _most(rule: Rule) -> float | None:
    if rule.forbid:
        return 0
    return rule.count.high if rule.count else None


def _disjoint(one: Span | None, other: Span | None) -> bool:
    if one is None or other is None:
        return False
    return _apart(one.low, other.high) or _apart(other.low, one.high)


def _apart(low: float | None, high: float | None) -> bool:
    # what a formula comes to is not known before a recording is: it has no number here and contradicts nothing
    return low is not None and high is not None and low > high
