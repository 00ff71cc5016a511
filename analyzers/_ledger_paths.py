"""Fast paths of a live recording: the verdict of each, from calls that guests saw.

A selection at load proves nothing by itself. A kind of step in which nothing of a path was seen is ``unproven``: it may be
compiled code, a graph that was captured before the probe came, or a seam that this build lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from m3probe.analyzers._configured import WORST, state_of_step
from m3probe.analyzers._ledger import Kind, texts, worker_steps
from m3probe.analyzers._ledger_calls import Group, Seen, Size, Tally, run, seen_of, verdicts
from m3probe.analyzers._ledger_sums import once
from m3probe.analyzers._path_row import NO_CONFIGURATION
from m3probe.fastpaths._state import PathState
from m3probe.model.path_report import PathCell, PathRow
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.paths import FastPath
from m3probe.schema.setup import Held, State
from m3probe.schema.verdicts import Family, PathVerdict, Phase

STEPS = "steps counted, and their replays"
NOT_SAID = "configured and eligible are unknown: no predicate was seen, and no configuration was given"
COMPILED, COMPILED_COMM = "compiled_paths", "compiled_collectives"
"""Notes of a guest: hooks inside of compiled code are silent."""
_AS_ASKED = {State.OFF: PathVerdict.OFF, State.REFUSED_AT_START: PathVerdict.REFUSED_AT_START}


@dataclass(frozen=True, slots=True)
class Judged:
    """One path in one group: calls by verdict, and the sentences behind them."""

    group: Group
    steps: int
    counts: Counter[PathVerdict]
    ran: Counter[str]
    fast: int
    state: State | None
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> PathVerdict:
        """The worst of its calls'; ``unproven`` where nothing was seen."""
        return min(self.counts, key=WORST.index, default=PathVerdict.UNPROVEN)


def with_ledger(rec: Recording, name: str, path: FastPath, row: PathRow) -> PathRow:
    """A path's row with what guests saw of it; what kernels of a trace proved stands beside it."""
    seen = seen_of(rec, name, path)
    if name == "graph_replay":
        _replayed(rec, path, seen)
    found = list(_judged(rec, path, seen))
    if not any(j.ran for j in found) and not _settled(found):
        row = _unseen(rec, path, row, seen)
        on_paper = bool(found) and rec.meta.setup is not None and row.verdict == PathVerdict.UNPROVEN
        if not on_paper:
            return row
        return replace(row, configured=_configured(found) or row.configured, eligible=_eligible(seen, found))
    by_phase: dict[str, PathVerdict] = {}
    for j in found:
        by_phase[j.group.phase] = min(by_phase.get(j.group.phase, j.verdict), j.verdict, key=WORST.index)
    verdict = min((by_phase[p] for p in _decisive(path, by_phase)), key=WORST.index)
    if row.verdict != PathVerdict.UNPROVEN:
        worst = min(verdict, PathVerdict(row.verdict), key=WORST.index)
        return replace(row, verdict=str(worst), evidence=(*row.evidence, *_evidence(rec, seen)))
    ran = sum((j.ran for j in found), Counter[str]())
    return replace(
        row,
        verdict=str(verdict),
        variant=" + ".join(ran) or row.variant,
        counts=_counts(found),
        configured=_configured(found) or row.configured,
        eligible=_eligible(seen, found),
        reasons=tuple(dict.fromkeys(_reasons(rec, path, found))),
        evidence=(*_evidence(rec, seen), *_selected(seen)),
        names_from_source=False,
        by_phase={phase: str(v) for phase, v in by_phase.items()},
        cells=tuple(_cells(rec, found, _decisive(path, by_phase))),
    )


def _decisive(path: FastPath, by_phase: Iterable[str]) -> list[str]:
    phases = list(by_phase)
    return [p for p in phases if p in {str(d) for d in path.decided_by}] or phases


def _replayed(rec: Recording, path: FastPath, seen: Seen) -> None:
    """Graph replay's own calls: steps, by the dispatcher's mode and by counted replays together."""
    for kind in worker_steps(rec):
        group, size = Group(kind.file, kind.phase, kind.descriptor), Size("rows", kind.padded_rows)
        if kind.mode == "NONE":
            run(seen, path, group, size, "eager", kind.steps, STEPS)
        elif kind.replays:
            run(seen, path, group, size, kind.mode, kind.steps, STEPS)


def _judged(rec: Recording, path: FastPath, seen: Seen) -> Iterator[Judged]:
    """Every kind of step in which the path was seen or could have run."""
    kinds: dict[Group, list[Kind]] = {}
    for kind in worker_steps(rec):
        kinds.setdefault(Group(kind.file, kind.phase, kind.descriptor), []).append(kind)
    phases = {str(phase) for phase in path.phases}
    may_run = [g for g in kinds if g.phase in phases and g not in seen.calls]
    # an eager twin shows what its batch runs; its own steps have no descriptor
    twins = {g[:2] for g, _variant, how in seen.how if "twin" in how}
    for group in (*seen.calls, *(g for g in may_run if g[:2] not in twins)):
        yield _group(rec, path, seen, group, kinds.get(group, []))


def _group(rec: Recording, path: FastPath, seen: Seen, group: Group, kinds: list[Kind]) -> Judged:
    counts, reasons, ran, fast = Counter[PathVerdict](), dict[str, None](), Counter[str](), 0
    state = _on_paper(rec, path, group, kinds)
    sizes = {size: tally for size, tally in seen.calls.get(group, {}).items() if tally.ran}
    for size, tally in sizes.items():
        said = seen.said_of(group, size)
        # nothing asks for it: a predicate that refuses says no more than that
        off = state is not None and state.state is State.OFF and not said.allowed
        here = verdicts(tally, said) if state is None or (said.asked and not off) else _by_state(tally, state)
        counts.update(here)
        reasons |= dict.fromkeys((() if off else said.refused) or (_why(state, here) if state else ()))
        ran.update(tally.ran)
        fast += tally.fast.total()
    if not sizes and state is not None and state.state in _AS_ASKED:
        counts[_AS_ASKED[state.state]] += 1
        reasons |= dict.fromkeys(_why(state, counts))
    reasons |= dict.fromkeys(_unanswered(seen, group, sizes, counts))
    return Judged(group, sum(k.steps for k in kinds), counts, ran, fast, state.state if state else None, tuple(reasons))


def _unanswered(seen: Seen, group: Group, sizes: dict[Size, Tally], counts: Counter[PathVerdict]) -> Iterator[str]:
    """Sizes that a predicate was asked for and no branch was seen of, where branches of their unit are seen at all."""
    units = {size.unit for size in sizes if size.size != NONE}
    for size, tally in seen.calls.get(group, {}).items():
        if size not in sizes and size.size != NONE and size.unit in units:
            counts[PathVerdict.UNPROVEN] += tally.allowed + tally.refused.total()
            yield f"{size.size:,} {size.unit}: asked for, and no hook saw what ran"


def _on_paper(rec: Recording, path: FastPath, group: Group, kinds: list[Kind]) -> PathState | None:
    """By the configuration, where one was given."""
    if rec.meta.setup is None:
        return None
    one = kinds[0] if len(kinds) == 1 and kinds[0].exact else None
    rows, requests = (one.rows // one.steps, one.requests // one.steps) if one else (NONE, NONE)
    return state_of_step(path, rec.meta.setup, Phase(group.phase), rows, requests)


def _by_state(ran: Tally, state: PathState) -> Counter[PathVerdict]:
    if state.state in _AS_ASKED:
        idle = _AS_ASKED[state.state]
        return +Counter({PathVerdict.UNEXPECTED: ran.fast.total(), idle: ran.fallback.total() + ran.unsure.total()})
    said = Tally(allowed=int(state.state is State.ELIGIBLE))
    said.refused.update(state.of(Held.NO) if state.state is State.REFUSED else ())
    return verdicts(ran, said)


def _why(state: PathState, counts: Counter[PathVerdict]) -> tuple[str, ...]:
    if PathVerdict.OFF in counts:
        return (f"off: {state.asked}",)
    if PathVerdict.MISSED in counts:
        return (f"eligible ({state.asked or 'always asked for'}), yet the fallback ran",)
    return state.of(Held.NO) or state.of(Held.UNKNOWN)


def _settled(found: list[Judged]) -> bool:
    """The configuration alone says that there is nothing to see."""
    return bool(found) and all(j.verdict in _AS_ASKED.values() for j in found)


def _unseen(rec: Recording, path: FastPath, row: PathRow, seen: Seen) -> PathRow:
    """No call of it: a guest's note on this path, a late probe, or nothing that would tell."""
    if row.verdict != PathVerdict.UNPROVEN:
        return row
    asked = [t for held in seen.calls.values() for t in held.values()]
    refused = dict.fromkeys(reason for t in (*seen.loaded.values(), *asked) for reason in t.refused)
    # what a trace lacks is said only where there is one; that it knows no configuration goes without saying
    kept = [reason for reason in row.reasons if reason != NO_CONFIGURATION] if len(rec.kernels) else []
    why = (*(f"refused: {reason}" for reason in refused), "; ".join((*_why_not(rec, path), *kept)))
    return replace(row, reasons=why, evidence=(*_selected(seen), *row.evidence))


def _why_not(rec: Recording, path: FastPath) -> tuple[str, ...]:
    words = {COMPILED, COMPILED_COMM} if path.family is Family.COMM else {COMPILED}
    notes = [note.text for note in rec.notes if note.word in words]
    return (*dict.fromkeys(notes), *_late(rec), "no hook saw a call of it")


def _late(rec: Recording) -> tuple[str, ...]:
    late = bool((rec.tables["processes"]["late"] == 1).any()) and any(k.replays for k in worker_steps(rec))
    return ("attached late: what graphs hold was not seen at capture",) if late else ()


def _reasons(rec: Recording, path: FastPath, found: list[Judged]) -> Iterator[str]:
    for j in found:
        yield from j.reasons
    bare = sorted({_where(rec, j.group) for j in found if not j.ran and not j.counts})
    if bare:
        yield f"nothing of it was seen in {', '.join(bare)}"
        yield from _why_not(rec, path)[:-1]
    if any(PathVerdict.UNPROVEN in j.counts and not j.reasons for j in found):
        yield NOT_SAID


def _where(rec: Recording, group: Group) -> str:
    if group.descriptor == NONE:
        return f"{group.phase} eager"
    return f"{group.phase} {_batches(rec).get((group.file, group.descriptor), f'graph {group.descriptor}')}"


@once
def _batches(rec: Recording) -> dict[tuple[int, int], str]:
    """(file, descriptor) -> mode and padded rows."""
    table = rec.tables["descriptors"]
    columns = [table[name].tolist() for name in ("file", "id", "padded_rows")]
    told = zip(*columns, texts(rec, table, "mode"), strict=True)
    return {(file, number): f"{mode} {rows:,} rows" for file, number, rows, mode in told}


def _evidence(rec: Recording, seen: Seen) -> tuple[str, ...]:
    """Calls over all ranks by kind of step, most calls first."""
    calls = Counter[tuple[str, str, str]]()
    for (group, variant, how), number in seen.how.items():
        calls[_where(rec, group), variant, how] += number
    return tuple(f"{where}: {number:,} of {variant} ({how})" for (where, variant, how), number in calls.most_common())


def _selected(seen: Seen) -> tuple[str, ...]:
    return tuple(f"selected at load: {variant} (no call by itself)" for variant in seen.selected)


def _counts(found: list[Judged]) -> dict[str, int]:
    """Calls of the fast variants and of fallbacks, by verdict, and by phase."""
    total = sum((j.counts for j in found), Counter[PathVerdict]())
    counts = {"calls": sum(j.fast for j in found)}
    fallback = sum(j.ran.total() for j in found) - counts["calls"]
    counts |= {"fallback_calls": fallback} if fallback else {}
    named = (PathVerdict.MISSED, PathVerdict.UNEXPECTED, PathVerdict.DECLINED, PathVerdict.UNPROVEN)
    counts |= {f"{word}_calls": total[word] for word in named if total[word]}
    for j in found:
        counts[f"{j.group.phase}.calls"] = counts.get(f"{j.group.phase}.calls", 0) + j.fast
    return counts


def _configured(found: list[Judged]) -> str:
    states = {j.state for j in found}
    return "" if None in states else "no" if states == {State.OFF} else "yes"


def _eligible(seen: Seen, found: list[Judged]) -> str:
    said = [*seen.loaded.values(), *(t for held in seen.calls.values() for t in held.values())]
    yes, no = any(t.allowed for t in said), any(t.refused for t in said)
    if not yes and not no:
        states = {j.state for j in found} - {None, State.OFF}
        yes, no = State.ELIGIBLE in states, bool(states & {State.REFUSED, State.REFUSED_AT_START})
        if State.UNPROVEN in states:
            return "unknown"
    return "partly" if yes and no else "yes" if yes else "no" if no else "unknown"


def _cells(rec: Recording, found: list[Judged], decisive: list[str]) -> Iterator[PathCell]:
    places = dict.fromkeys((j.group.file, j.group.phase) for j in found)
    for file, phase in places:
        here = [j for j in found if j.group[:2] == (file, phase)]
        ran = sum((j.ran for j in here), Counter[str]())
        yield PathCell(
            rank=rec.files[file].rank,
            phase=phase,
            verdict=str(min((j.verdict for j in here), key=WORST.index)),
            variant=" + ".join(ran),
            steps=sum(j.steps for j in here),
            executed=sum(j.steps for j in here if j.verdict is PathVerdict.EXECUTED),
            calls=ran.total(),
            absent=0,
            decides=phase in decisive,
        )
