"""One rule as it is meant, and when two rules cannot both hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from m3probe.schema.verdicts import PathVerdict, Phase, Trust


@dataclass(frozen=True, slots=True)
class Span:
    """A closed range; a side that is None is open."""

    low: float | None = None
    high: float | None = None

    def words(self) -> str:
        """``exactly 6``, ``6 to 8``, ``at least 6``, ``at most 8``."""
        if self.low is None:
            return f"at most {self.high:,}"
        if self.high is None:
            return f"at least {self.low:,}"
        return f"exactly {self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``[[rule]]``, checked.

    ``kind`` is ``path``, ``family`` or ``kernel`` and ``name`` its value. ``per_step`` and ``count`` are
    kernel executions, ``share`` is a part of kernel time (0 to 1); None where the rule does not ask. ``variant`` is one
    implementation of a path (empty: any).
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

    @property
    def scope(self) -> str:
        """`` in decode on rank 3``; empty for everything."""
        phase = f" in {self.phase}" if self.phase else ""
        return phase + (f" on rank {self.rank}" if self.rank is not None else "")

    @property
    def expected(self) -> str:
        """What must be seen, in words."""
        return "; ".join(self._expectations())

    @property
    def text(self) -> str:
        """The whole rule in one line."""
        return f"{self.kind} {self.name}{self.scope}: {self.expected}"

    def _expectations(self) -> Iterator[str]:
        if self.verdict:
            yield f"{self.verdict} as {self.variant}" if self.variant else str(self.verdict)
        if self.forbid:
            yield "forbidden"
        if self.per_step:
            yield f"{self.per_step.words()} per step"
        if self.count:
            yield f"{self.count.words()} in all"
        if self.share:
            yield f"share of kernel time {self.share.words()}"

    @property
    def possible(self) -> bool:
        """No check of the rule asks for executions that another of its checks rules out."""
        return not _apart(_least(self), _most(self))

    def covers(self, other: Rule) -> bool:
        """Whether everything that ``other`` looks at is looked at by this rule too."""
        same = (self.kind, self.name) == (other.kind, other.name)
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
    return low is not None and high is not None and low > high
