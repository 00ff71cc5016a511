"""Rules on kernels and families: executions counted, per step or in all, and shares of kernel time.

What is seen can break a rule whatever else was lost (a forbidden kernel, one too many); what is not
seen breaks or satisfies it only where nothing can be hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.model.findings import Evidence, evidence
from m3probe.model.tables import NONE, Array
from m3probe.rules._view import Scope, View
from m3probe.rules.formula import STEP_NAMES, FormulaError
from m3probe.rules.rule import Rule, Span
from m3probe.schema.verdicts import RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE

UNTIMED_SHARE = 0.01
"""Above this share of executions without a time, a share of time is not known (docs/words.md)."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one rule on one rank."""

    outcome: RuleOutcome
    label: str
    observed: str
    basis: str = "none"
    where: str = ""
    why: str = ""
    evidence: tuple[Evidence, ...] = ()


def checks(rule: Rule, view: View, scope: Scope) -> Iterator[Check]:
    """Every check that the rule asks for, on one rank."""
    label = scope.unit.label
    if rule.per_step and not len(scope.steps):
        yield Check(INCONCLUSIVE, label, "no step", why="no step was recorded")
        return
    if not scope.rows.any():
        yield Check(INCONCLUSIVE, label, "no kernel at all", why="no kernel is known here, of any name")
        return
    hit = view.hits(rule) & scope.rows
    hidden = view.hidden(rule, scope)
    if rule.forbid:
        yield _in_all(view, scope, hit, Span(0, 0), hidden)
    try:
        if rule.count:
            yield _in_all(view, scope, hit, rule.count.known({"steps": len(scope.steps)}), hidden)
        if rule.per_step:
            yield _per_step(view, scope, hit, rule.per_step, hidden)
    except FormulaError as error:
        yield Check(INCONCLUSIVE, label, "no number to compare with", why=str(error))
    if rule.share:
        yield _share(view, scope, hit, rule.share, hidden)


def _in_all(view: View, scope: Scope, hit: Array, wanted: Span, hidden: list[str]) -> Check:
    count = int(hit.sum())
    low, high = wanted.low, wanted.high
    why = ""
    if high is not None and count > high:
        outcome = FAILED
    elif low is not None and count < low:
        outcome = INCONCLUSIVE if hidden else FAILED
    else:
        # enough is enough, but an upper limit holds only where nothing is hidden
        outcome = INCONCLUSIVE if hidden and high is not None else HOLDS
    if outcome is INCONCLUSIVE:
        why = "; ".join(hidden)
    observed = f"{count:,} of {int(scope.rows.sum()):,} kernel executions"
    where = _names(view, hit) if outcome is FAILED and count else ""
    return Check(outcome, scope.unit.label, observed, _basis(view, scope, hit), where, why, _rows(view, hit, observed))


def _per_step(view: View, scope: Scope, hit: Array, wanted: Span, hidden: list[str]) -> Check:
    import numpy as np

    steps, ran = scope.steps, view.ran
    total = len(view.rec.steps)
    counts = np.bincount(ran.step[hit & (ran.step >= 0)], minlength=total)[steps]
    blank = np.bincount(ran.step[scope.rows & (ran.step >= 0)], minlength=total)[steps] == 0
    low, high = _limits(view, scope, wanted)
    over = counts > high
    under = (counts < low) & ~blank
    why = ""
    outcome, bad = HOLDS, over
    if over.any() or (under.any() and not hidden):
        outcome, bad = FAILED, over if hidden else over | under
    elif hidden:
        outcome, bad, why = INCONCLUSIVE, under, "; ".join(hidden)
    elif blank.any():
        outcome, bad = INCONCLUSIVE, blank
        why = f"{int(blank.sum()):,} of {len(steps):,} steps show no kernel at all"
    observed = _distribution(counts)
    shown = steps[bad] if bad.any() else steps
    seen = (evidence("steps", shown, observed, wanted.words()),)
    where = _steps(view, steps[bad])
    return Check(outcome, scope.unit.label, observed, _basis(view, scope, hit), where, why, seen)


def _limits(view: View, scope: Scope, wanted: Span) -> tuple[Array, Array]:
    """Least and most executions of each step of the scope; FormulaError where a step's rows or requests are not known."""
    import numpy as np

    table, steps = view.rec.steps, scope.steps
    rows, requests = table["rows"][steps].tolist(), table["requests"][steps].tolist()
    needs = wanted.names.intersection(STEP_NAMES)
    blind = sum(
        (r < 0 and "rows" in needs) or (q < 0 and "requests" in needs) for r, q in zip(rows, requests, strict=True)
    )
    if blind:
        raise FormulaError(f"{' and '.join(sorted(needs))} of {blind:,} of {len(steps):,} steps are not known")
    known: dict[tuple[int, int], tuple[float, float]] = {}
    for at in dict.fromkeys(zip(rows, requests, strict=True)):
        span = wanted.known({"rows": at[0], "requests": at[1], "steps": len(steps)})
        known[at] = (0 if span.low is None else span.low, np.inf if span.high is None else span.high)
    both = np.array([known[at] for at in zip(rows, requests, strict=True)], dtype=np.float64)
    return both[:, 0], both[:, 1]


def _share(view: View, scope: Scope, hit: Array, wanted: Span, hidden: list[str]) -> Check:
    dur = view.ran.dur_ns
    timed = scope.rows & (dur >= 0)
    executions, untimed = int(scope.rows.sum()), int((scope.rows & (dur < 0)).sum())
    total, mine = int(dur[timed].sum()), int(dur[timed & hit].sum())
    label, basis = scope.unit.label, _basis(view, scope, hit)
    if not total or untimed > UNTIMED_SHARE * executions:
        why = f"{untimed:,} of {executions:,} kernel executions have no time: no share can be told"
        return Check(INCONCLUSIVE, label, "share not known", basis, "", why)
    share = mine / total
    least, most = wanted.low, wanted.high
    low, high = 0.0 if least is None else least, 1.0 if most is None else most
    observed = f"share {share:.4f} ({mine:,} of {total:,} ns)"
    # hidden kernels could add to either side of the fraction
    outcome = INCONCLUSIVE if hidden else HOLDS if low <= share <= high else FAILED
    seen = _rows(view, hit & timed, observed)
    return Check(outcome, label, observed, basis, "", "; ".join(hidden), seen)


# --- words ---------------------------------------------------------------------------------------------------


def _basis(view: View, scope: Scope, hit: Array) -> str:
    """What the count rests on; without a hit, what its absence rests on."""
    return str(view.ran.at(hit if hit.any() else scope.rows).evidence)


def _rows(view: View, hit: Array, observed: str) -> tuple[Evidence, ...]:
    ran = view.ran
    kernels = ran.kernel[hit & (ran.kernel != NONE)]
    census = ran.census[hit & (ran.kernel == NONE)]
    found = [evidence("kernels", kernels, observed)] if len(kernels) else []
    return tuple(found + ([evidence("graphs", census, observed)] if len(census) else []))


def _distribution(counts: Array) -> str:
    """``6 in each of 9 steps``, or the counts from the most common on."""
    found = Counter(counts.tolist()).most_common()
    if len(found) == 1:
        number, steps = found[0]
        return f"{number:,} in each of {steps:,} steps" if steps > 1 else f"{number:,} in the only step"
    shown = ", ".join(f"{number:,} in {steps:,}" for number, steps in found[:4])
    return f"{shown}{', ...' if len(found) > 4 else ''} of {len(counts):,} steps"


def _steps(view: View, rows: Array) -> str:
    names = view.rec.strings.of(view.rec.steps["name"][rows[:3]].tolist())
    shown = [f"step {row} {name}" for row, name in zip(rows[:3].tolist(), names, strict=True)]
    more = len(rows) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _names(view: View, hit: Array) -> str:
    found = Counter(view.ran.name[hit].tolist()).most_common()
    shown = [f"{count:,} x {_short(view.rec.strings[name]) or '(no name)'}" for name, count in found[:3]]
    return ", ".join(shown) + (f" and {len(found) - 3:,} more names" if len(found) > 3 else "")


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}..."
