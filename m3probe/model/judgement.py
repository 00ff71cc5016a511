"""What ``assert`` found: one result per rule, and the exit status that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.model.findings import Evidence
from m3probe.model.report import TrustRow
from m3probe.schema.verdicts import RuleOutcome


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule, judged.

    ``number`` counts the ``[[rule]]`` tables from 1 (0: the ``[require]`` table), ``line`` is where it
    begins in the rules file (None: not known). ``basis`` is what the observation rests on: ``kernels``,
    ``census``, ``paths``, ``trust`` or ``none``. ``where`` names the first places that decided; ``why``
    says what is missing when the outcome is ``inconclusive``, ``next_move`` what changed the state and what to do about it.
    """

    number: int
    line: int | None
    rule: str
    outcome: RuleOutcome
    expected: str
    observed: str
    basis: str
    where: str = ""
    why: str = ""
    evidence: tuple[Evidence, ...] = ()
    next_move: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All results of one rules file; ``trust`` is None where nothing judged it."""

    rules_path: str
    trust: TrustRow | None
    results: tuple[RuleResult, ...]

    def count(self, outcome: RuleOutcome) -> int:
        """Results that ended so."""
        return sum(result.outcome is outcome for result in self.results)

    @property
    def exit_code(self) -> int:
        """1 when a rule failed, else 4 when one is inconclusive, else 0 (input errors, 3, are the caller's)."""
        if self.count(RuleOutcome.FAILED):
            return 1
        return 4 if self.count(RuleOutcome.INCONCLUSIVE) else 0
