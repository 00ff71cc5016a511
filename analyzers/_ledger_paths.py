"""Fast paths of a live recording: what hooks saw called, and facts of capture times counted replays.

A selection at load proves nothing by itself; an eligibility call says why another implementation ran. The table of verdicts
is docs/paths.md's: eligible, refused or unknown against fast, fallback or nothing seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from m3probe.analyzers._configured import WORST
from m3probe.analyzers._ledger import replays_of, texts, worker_steps
from m3probe.model.path_report import PathCell, PathRow
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.paths import FastPath, Role
from m3probe.schema.verdicts import PathVerdict

SEEN = frozenset({"eager", "twin"})
LEDGER, CALLS = "facts of capture x counted replays", "calls seen by a hook"


@dataclass(slots=True)
class Tally:
    """One path on one rank in one phase."""

    fast: Counter[str] = field(default_factory=Counter)
    fallback: Counter[str] = field(default_factory=Counter)
    allowed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    """Of the calls above, those inside replayed graphs."""

    @property
    def verdict(self) -> PathVerdict:
        """By docs/paths.md's table; calls on both sides of a threshold are each judged by their own size."""
        refused = self.refused.total()
        if self.fast and self.fallback:
            return PathVerdict.MISSED if self.fallback.total() > refused and self.allowed else PathVerdict.EXECUTED
        if self.fast:
            return PathVerdict.UNEXPECTED if refused and not self.allowed else PathVerdict.EXECUTED
        if self.fallback and self.allowed > 0 and not refused:
            return PathVerdict.MISSED
        return PathVerdict.DECLINED if self.fallback and refused else PathVerdict.UNPROVEN


Tallies = dict[tuple[int, str], Tally]


def tallies(rec: Recording, name: str, path: FastPath) -> Tallies:
    """(file, phase) -> what was seen of one path."""
    table, replays = rec.tables["dispatches"], replays_of(rec)
    columns = [texts(rec, table, c) for c in ("path", "variant", "reason", "phase", "stage")]
    found: Tallies = {}
    for row, (of, variant, reason, phase, stage) in enumerate(zip(*columns, strict=True)):
        if of != name:
            continue
        file, descriptor, count = (int(table[c][row]) for c in ("file", "descriptor", "count"))
        for where, number in _times(stage, file, descriptor, phase, replays).items():
            tally = found.setdefault((file, where), Tally())
            _add(tally, path, variant, int(table["eligible"][row]), reason, count * number, replayed=stage == "capture")
    return found


def with_ledger(rec: Recording, name: str, path: FastPath, row: PathRow) -> PathRow:
    """A path's row with what guests saw of it; kernels that a trace proved stand."""
    found = _graph_steps(rec) if name == "graph_replay" else tallies(rec, name, path)
    if not found:
        return (
            row if row.verdict != PathVerdict.UNPROVEN else replace(row, reasons=(*_why_not(rec, name), *row.reasons))
        )
    by_phase: dict[str, PathVerdict] = {}
    for (_file, phase), tally in found.items():
        by_phase[phase] = min(by_phase.get(phase, tally.verdict), tally.verdict, key=WORST.index)
    decisive = [p for p in by_phase if p in {str(d) for d in path.decided_by}] or list(by_phase)
    verdict = min((by_phase[p] for p in decisive), key=WORST.index)
    ran = sum((t.fast or t.fallback for t in found.values()), Counter[str]())
    if row.verdict != PathVerdict.UNPROVEN:
        return replace(row, evidence=(*row.evidence, *_evidence(found)))
    return replace(
        row,
        verdict=str(verdict),
        variant=" + ".join(ran) or row.variant,
        counts=_counts(found),
        eligible=_eligible(found.values()),
        reasons=tuple(dict.fromkeys(reason for t in found.values() for reason in t.refused)) or _untold(verdict),
        evidence=_evidence(found),
        by_phase={phase: str(v) for phase, v in by_phase.items()},
        cells=tuple(_cell(rec, file, phase, t, decides=phase in decisive) for (file, phase), t in found.items()),
    )


def _times(
    stage: str, file: int, descriptor: int, phase: str, replays: dict[tuple[int, int, str], int]
) -> dict[str, int]:
    if stage in SEEN:
        return {phase: 1}
    if stage == "capture" and descriptor != NONE:
        return {of: number for (f, d, of), number in replays.items() if (f, d) == (file, descriptor)}
    return {}


def _add(tally: Tally, path: FastPath, variant: str, eligible: int, reason: str, calls: int, *, replayed: bool) -> None:
    if variant:
        known = next((v for v in path.variants if v.name == variant), None)
        # an implementation that the catalogue does not name (a CPU's, a vendor's) is what ran; it is not the fast one
        ran_fast = path.chooses or (known is not None and known.role is Role.FAST)
        (tally.fast if ran_fast else tally.fallback)[variant] += calls
        tally.replayed += calls if replayed else 0
    if eligible == 1:
        tally.allowed += calls
    elif eligible == 0:
        tally.refused[reason or "refused, no reason given"] += calls


def _graph_steps(rec: Recording) -> Tallies:
    """Whether steps replayed a graph: counted by the dispatcher's mode and by replays together."""
    found: Tallies = {}
    for kind in worker_steps(rec):
        tally = found.setdefault((kind.file, kind.phase), Tally())
        if kind.mode in ("FULL", "PIECEWISE") and kind.replays:
            tally.fast[kind.mode] += kind.steps
            tally.replayed += kind.steps
        elif kind.mode == "NONE":
            tally.fallback["eager"] += kind.steps
    return found


def _counts(found: Tallies) -> dict[str, int]:
    fast = sum(t.fast.total() for t in found.values())
    fallback = sum(t.fallback.total() for t in found.values())
    refused = sum(t.refused.total() for t in found.values())
    counts = {"calls": fast}
    counts |= {"fallback_calls": fallback} if fallback else {}
    counts |= {"refused_calls": refused} if refused else {}
    for (_file, phase), tally in found.items():
        counts[f"{phase}.calls"] = counts.get(f"{phase}.calls", 0) + tally.fast.total()
    return counts


def _eligible(found: Iterable[Tally]) -> str:
    allowed = sum(t.allowed for t in found)
    refused = sum(t.refused.total() for t in found)
    if allowed and refused:
        return f"in {allowed:,} of {allowed + refused:,} calls"
    return "yes" if allowed else "no" if refused else "unknown"


def _evidence(found: Tallies) -> tuple[str, ...]:
    seen = Counter[tuple[str, str]]()
    for tally in found.values():
        for variant, calls in (tally.fast + tally.fallback).items():
            seen[variant, LEDGER if tally.replayed else CALLS] += calls
    return tuple(f"{calls:,} calls of {variant}: {how}" for (variant, how), calls in seen.items())


def _untold(verdict: PathVerdict) -> tuple[str, ...]:
    return (
        ("what ran is known, and nothing says whether the fast path was allowed",)
        if verdict is PathVerdict.UNPROVEN
        else ()
    )


def _why_not(rec: Recording, name: str) -> tuple[str, ...]:
    """Why nothing was seen: a note of the guest on this path, a late probe, or no call at all."""
    notes = [note.text for note in rec.notes if note.word in ("not_seen", "compiled") and name in note.text]
    late = bool((rec.tables["processes"]["late"] == 1).any()) and any(k.replays for k in worker_steps(rec))
    said = ["attached late: what graphs hold was not seen at capture"] if late else []
    return (*dict.fromkeys(notes), *said, "no hook saw a call of it")


def _cell(rec: Recording, file: int, phase: str, tally: Tally, *, decides: bool) -> PathCell:
    steps = sum(k.steps for k in worker_steps(rec) if (k.file, k.phase) == (file, phase))
    ran = tally.fast or tally.fallback
    return PathCell(
        rank=rec.files[file].rank,
        phase=phase,
        verdict=str(tally.verdict),
        variant=" + ".join(ran),
        steps=steps,
        executed=steps if tally.fast and not tally.fallback else 0,
        calls=ran.total(),
        absent=0,
        decides=decides,
    )
