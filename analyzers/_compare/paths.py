"""Fast paths of which two runs say different things, phase by phase."""

from __future__ import annotations

from m3probe.model.compare_report import PathChange
from m3probe.model.compare_run import PathSeen, RunKept


def path_changes(a: RunKept, b: RunKept) -> tuple[PathChange, ...]:
    """Paths whose verdict, variant or execution differs in a phase that both runs recorded; what ran first."""
    theirs = {(p.id, p.phase): p for p in b.paths}
    both = [(p, theirs[p.id, p.phase]) for p in a.paths if (p.id, p.phase) in theirs]
    found = [_row(mine, other) for mine, other in both if _differ(mine, other)]
    return tuple(sorted(found, key=lambda row: (row.ran_before == row.ran_after, row.phase, row.id)))


def _differ(a: PathSeen, b: PathSeen) -> bool:
    return (a.ran, a.verdict, a.variant) != (b.ran, b.verdict, b.variant)


def _row(a: PathSeen, b: PathSeen) -> PathChange:
    return PathChange(
        id=a.id,
        title=a.title,
        phase=a.phase,
        before=a.verdict,
        after=b.verdict,
        variant_before=a.variant,
        variant_after=b.variant,
        ran_before=a.ran,
        ran_after=b.ran,
        calls_before=a.calls / a.steps if a.steps else None,
        calls_after=b.calls / b.steps if b.steps else None,
    )
