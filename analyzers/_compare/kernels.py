"""Two groups of steps held against each other: which kernels make up the change of their step time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from m3probe.model.compare_report import BETTER, NO_CHANGE, UNPROVEN, WORSE, Part, PhaseChange
from m3probe.model.compare_run import KernelCost, RunKept, StepGroup

ERRORS = 2.0
"""Standard errors of the difference beyond which it is one."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Kernels of one side under one match: executions and time per step; ``ns`` None without times."""

    name: str
    count: float
    ns: float | None


def phase_changes(a: RunKept, b: RunKept) -> tuple[PhaseChange, ...]:
    """Groups that both runs have."""
    other = {(g.phase, g.rows): g for g in b.groups}
    both = [(g, other[g.phase, g.rows]) for g in a.groups if (g.phase, g.rows) in other]
    return tuple(_change(before, after) for before, after in both)


def mix(a: RunKept, b: RunKept) -> tuple[str, ...]:
    """What is to be known of rows: steps that one run alone had, and groups whose mean rows differ."""
    found = []
    for phase in dict.fromkeys(g.phase for g in (*a.groups, *b.groups)):
        rows = [{g.rows: g for g in run.groups if g.phase == phase} for run in (a, b)]
        for mine, theirs, run in ((rows[0], rows[1], a), (rows[1], rows[0], b)):
            alone = [g for key, g in mine.items() if key not in theirs]
            if alone:
                what = ", ".join(f"{g.steps:,} of {_rows(g)}" for g in alone[:4])
                found.append(f"{phase} steps that {run.name} alone had: {what}; they are in no comparison")
        for key, g in rows[0].items():
            h = rows[1].get(key)
            if h and g.mean_rows and h.mean_rows and abs(g.mean_rows - h.mean_rows) > 0.02 * g.mean_rows:
                found.append(
                    f"{phase} steps of {_rows(g)}: {g.mean_rows:,.1f} rows on average before, {h.mean_rows:,.1f} after"
                )
    return tuple(found)


def _rows(group: StepGroup) -> str:
    if group.rows is None:
        return "unknown rows"
    least = group.rows // 2 + 1
    return (
        "1 row"
        if group.rows == 1
        else f"{group.rows:,} rows"
        if least == group.rows
        else f"{least:,} to {group.rows:,} rows"
    )


def _change(a: StepGroup, b: StepGroup) -> PhaseChange:
    before, after = a.step_ns, b.step_ns
    delta = None if before is None or after is None else after - before
    kernels = tuple(sorted(_kernels(a, b, delta), key=_weight))
    families = tuple(sorted(_families(a, b, delta), key=_weight))
    parts = tuple(_rest(a, b, delta))
    explained, arithmetic = _explained(delta, (*families, *(p for p in parts if p.what != "overlap")))
    error = None if a.error_ns is None or b.error_ns is None else (a.error_ns**2 + b.error_ns**2) ** 0.5
    return PhaseChange(
        phase=a.phase,
        rows=a.rows,
        steps_before=a.steps,
        steps_after=b.steps,
        before_ns=before,
        after_ns=after,
        ratio=None if not before or after is None else after / before,
        delta_ns=delta,
        error_ns=error,
        verdict=_verdict(delta, error),
        launches_before=a.launched / a.steps,
        launches_after=b.launched / b.steps,
        idle_before=_idle(a),
        idle_after=_idle(b),
        ns_per_token_before=_per(a.window_ns, a.tokens),
        ns_per_token_after=_per(b.window_ns, b.tokens),
        explained=explained,
        arithmetic=arithmetic,
        parts=parts,
        families=families,
        kernels=kernels,
    )


def _verdict(delta: float | None, error: float | None) -> str:
    if delta is None or error is None:
        return UNPROVEN
    if abs(delta) <= ERRORS * error:
        return NO_CHANGE
    return BETTER if delta < 0 else WORSE


def _idle(group: StepGroup) -> float | None:
    return None if group.idle_ns is None or not group.window_ns else group.idle_ns / group.window_ns


def _per(total: int | None, count: int | None) -> float | None:
    return total / count if total is not None and count else None


def _weight(part: Part) -> tuple[float, float, str]:
    counted = abs((part.count_after or 0.0) - (part.count_before or 0.0))
    return -abs(part.delta_ns or 0.0), -counted, part.name


def _explained(delta: float | None, parts: Iterable[Part]) -> tuple[float | None, tuple[str, ...]]:
    """Families, copies and idle time against the step's change; None where it has none to explain."""
    told = list(parts)
    if not delta or any(p.delta_ns is None for p in told):
        return None, ()
    sums = {
        "kernels": sum(p.delta_ns or 0.0 for p in told if p.what == "family"),
        "copies": sum(p.delta_ns or 0.0 for p in told if p.what == "copies"),
        "idle": sum(p.delta_ns or 0.0 for p in told if p.what == "idle"),
    }
    words = " + ".join(f"({ns:,.0f} ns)" for ns in sums.values())
    return sum(sums.values()) / delta, (f"({words}) / ({delta:,.0f} ns)",)


def _rest(a: StepGroup, b: StepGroup, delta: float | None) -> Iterator[Part]:
    """Idle time, copies, and the time that streams spend side by side: summed twice above, once in the step."""
    yield _part("idle", "idle", (None, _each(a.idle_ns, a)), (None, _each(b.idle_ns, b)), delta)
    yield _part(
        "copies", "copies and fills", (a.copies / a.steps, _each(a.copies_ns, a)),
        (b.copies / b.steps, _each(b.copies_ns, b)), delta,
    )  # fmt: skip
    yield _part("overlap", "side by side", (None, _beside(a)), (None, _beside(b)), delta)


def _beside(group: StepGroup) -> float | None:
    """Work that other work hides, as a time below 0: what the parts sum to above the step time."""
    if group.window_ns is None or group.idle_ns is None or group.copies_ns is None:
        return None
    busy = group.window_ns - group.idle_ns
    return (busy - group.copies_ns - sum(k.time_ns or 0 for k in group.kernels)) / group.steps


def _each(total: int | None, group: StepGroup) -> float | None:
    return None if total is None else total / group.steps


Numbers = tuple[float | None, float | None]


def _part(what: str, name: str, a: Numbers, b: Numbers, delta: float | None, family: str = "") -> Part:
    change = None if a[1] is None or b[1] is None else b[1] - a[1]
    share = change / delta + 0.0 if change is not None and delta else None
    return Part(what, name, name, family, "", a[0], b[0], a[1], b[1], change, share)


def _families(a: StepGroup, b: StepGroup, delta: float | None) -> Iterator[Part]:
    for family in dict.fromkeys(k.family for k in (*a.kernels, *b.kernels)):
        before, after = (_side([k for k in g.kernels if k.family == family], g) for g in (a, b))
        yield _part("family", family, (before.count, before.ns), (after.count, after.ns), delta, family)


def _side(kernels: Sequence[KernelCost], group: StepGroup) -> _Side:
    """Several kernels as one; none of them took no time, where the group has times."""
    known = group.window_ns is not None and all(k.time_ns is not None for k in kernels)
    total = sum(k.time_ns or 0 for k in kernels)
    names = sorted(kernels, key=lambda k: -(k.time_ns or k.count))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    name = f"{names[0].name}{more}" if names else ""
    return _Side(name, sum(k.count for k in kernels) / group.steps, total / group.steps if known else None)


def _kernels(a: StepGroup, b: StepGroup, delta: float | None) -> Iterator[Part]:
    """By name; what is left by function, by shape, and last by family: builds and tiles change a name, not the work."""
    left_a, left_b = list(a.kernels), list(b.kernels)
    for match, keys in (("same", _name), ("variant", _head), ("replaced", _shapes), ("replaced", _family)):
        taken: set[KernelCost] = set()
        for mine, theirs in _linked(left_a, left_b, keys):
            yield _matched(match, _side(mine, a), _side(theirs, b), mine[0].family, delta)
            taken.update(mine, theirs)
        left_a, left_b = ([k for k in left if k not in taken] for left in (left_a, left_b))
    for kernel in left_a:
        yield _matched("only before", _side([kernel], a), _side([], b), kernel.family, delta)
    for kernel in left_b:
        yield _matched("only after", _side([], a), _side([kernel], b), kernel.family, delta)


Kernels = list[KernelCost]


def _linked(
    before: Kernels, after: Kernels, keys: Callable[[KernelCost], Sequence[str]]
) -> list[tuple[Kernels, Kernels]]:
    """Kernels of both sides that share a key, with all that share one with those: a shape may have two kernels on a
    side, and each of them more shapes.
    """
    sides = (_index(before, keys), _index(after, keys))
    found, done = [], set[str]()
    for start in sides[0]:
        if start in done:
            continue
        open_, members = [start], (dict[KernelCost, None](), dict[KernelCost, None]())
        while open_:
            key = open_.pop()
            if key in done:
                continue
            done.add(key)
            for side, chosen in zip(sides, members, strict=True):
                for kernel in side.get(key, ()):
                    chosen[kernel] = None
                    open_ += keys(kernel)
        if members[0] and members[1]:
            found.append((list(members[0]), list(members[1])))
    return found


def _index(kernels: Kernels, keys: Callable[[KernelCost], Sequence[str]]) -> dict[str, Kernels]:
    found: dict[str, Kernels] = {}
    for kernel in kernels:
        for key in keys(kernel):
            found.setdefault(key, []).append(kernel)
    return found


def _name(kernel: KernelCost) -> tuple[str, ...]:
    return (f"{kernel.family} {kernel.name}",)


def _head(kernel: KernelCost) -> tuple[str, ...]:
    return (f"{kernel.family} {kernel.head}",)


def _shapes(kernel: KernelCost) -> tuple[str, ...]:
    return kernel.shapes


def _family(kernel: KernelCost) -> tuple[str, ...]:
    return (kernel.family,)


def _matched(match: str, a: _Side, b: _Side, family: str, delta: float | None) -> Part:
    part = _part("kernel", a.name or b.name, (a.count, a.ns), (b.count, b.ns), delta, family)
    return Part(
        "kernel", part.name, b.name or part.name, family, match, a.count, b.count, a.ns, b.ns, part.delta_ns, part.share
    )
