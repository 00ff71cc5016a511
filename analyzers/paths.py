"""Question 4: for each fast path, did it run, as what, and what proves it?

A trace holds no configuration: a verdict is ``executed`` (the variant named) or ``unproven``, never ``missed``. One
verdict per (rank, phase); a step without a call makes its phase ``unproven``, and the counts say of how many.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from m3probe.analyzers._anchors import Calls, Names, calls_of, total_of, unnamed
from m3probe.analyzers._configured import WORST, Judged, configured, eligible, judged_cells
from m3probe.analyzers._gates import gate_rows, vouched
from m3probe.analyzers._places import Cell, Places, cells, places
from m3probe.analyzers._said import evidence_lines, fallback_lines, name_lines, reasons_of
from m3probe.fastpaths import fast_paths
from m3probe.model.executed import executed
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, PathCell, PathRow, PathsSection
from m3probe.plugs import Analyzer
from m3probe.schema.paths import Anchor, FastPath
from m3probe.schema.verdicts import PathVerdict, Phase

NO_CONFIGURATION = "configured and eligible are unknown: a trace does not say"


def judge(rec: Recording, so_far: Answer) -> Answer:
    """One row and one finding per fast path."""
    names = Names(rec, executed(rec))
    where = places(rec)
    hides = so_far.hiding
    vendor = _vendor(rec)
    rows, findings = [], []
    for name, path in fast_paths().items():
        calls = calls_of(rec, path, names, where)
        seen = cells(rec, where, total_of(path, calls, where))
        found = judged_cells(rec, path, calls, seen, where)
        row = _row(rec, name, path, calls, seen, found, unnamed(path, names, calls), vendor, hides)
        rows.append(row)
        findings.append(_finding(row, calls, _asked(where, seen), trusted=not hides))
    return Answer((PathsSection(tuple(rows), gate_rows(rec)),), tuple(findings))


ANALYZER = Analyzer(title="Did each fast path run, and as what?", order=50, judge=judge)


def _vendor(rec: Recording) -> str:
    """``amd``, ``nvidia`` or empty; by versions, else by the lanes of the first device."""
    words = " ".join(rec.meta.versions)
    if "hip" in words or "roc" in words:
        return "amd"
    if "cu" in words:
        return "nvidia"
    return {64: "amd", 32: "nvidia"}.get(rec.meta.devices[0].warp_size, "") if rec.meta.devices else ""


def _by_phase(seen: list[Cell], judged: list[Judged]) -> dict[Phase, PathVerdict]:
    """The worst verdict of each phase over all ranks."""
    verdicts = [j.verdict for j in judged] or [cell.verdict for cell in seen]
    found: dict[Phase, PathVerdict] = {}
    for cell, verdict in zip(seen, verdicts, strict=True):
        found[cell.phase] = min(found.get(cell.phase, verdict), verdict, key=WORST.index)
    return found


def _decisive(path: FastPath, by_phase: dict[Phase, PathVerdict]) -> list[Phase]:
    """The phases that decide, or all when none of those was recorded."""
    return [phase for phase in by_phase if phase in path.decided_by] or list(by_phase)


def _rolled_up(path: FastPath, by_phase: dict[Phase, PathVerdict]) -> PathVerdict:
    """The worst verdict of the phases that decide."""
    deciding = [by_phase[phase] for phase in _decisive(path, by_phase)]
    return min(deciding, key=WORST.index, default=PathVerdict.UNPROVEN)


def _counts(path: FastPath, every: list[Calls], seen: list[Cell]) -> dict[str, int]:
    """Steps with and without a call, and calls; a trace without steps has no step counts."""
    calls = [c for c in every if path.executes(c.variant)]
    found = {"calls": sum(int(c.per_place.sum()) for c in calls)}
    instead = sum(int(c.per_place.sum()) for c in every) - found["calls"]
    outside = sum(int((c.place < 0).sum()) for c in calls)
    found |= {"fallback_calls": instead} if instead else {}
    found |= {"calls_outside_steps": outside} if outside else {}
    if any(cell.steps for cell in seen):
        steps = sum(cell.steps for cell in seen)
        ran = sum(len(cell.ran) for cell in seen if cell.steps)
        hidden = sum(len(cell.hidden) for cell in seen if cell.steps)
        found |= {"steps": steps, "executed": ran, "steps_without": steps - ran, "steps_hidden": hidden}
    for phase in dict.fromkeys(cell.phase for cell in seen if cell.steps):
        here = [cell for cell in seen if cell.phase is phase]
        at = np.concatenate([cell.at for cell in here])
        found[f"{phase}.steps"] = sum(cell.steps for cell in here)
        found[f"{phase}.executed"] = sum(len(cell.ran) for cell in here)
        found[f"{phase}.calls"] = sum(int(c.per_place[at].sum()) for c in calls)
    return found


def _row(
    rec: Recording,
    name: str,
    path: FastPath,
    calls: list[Calls],
    seen: list[Cell],
    judged: list[Judged],
    strangers: tuple[str, ...],
    vendor: str,
    hides: tuple[str, ...],
) -> PathRow:
    by_phase = _by_phase(seen, judged)
    verdict = _rolled_up(path, by_phase)
    decisive = _decisive(path, by_phase)
    ran = [c for c in calls if c.per_place.any()]
    executing = [c for c in ran if path.executes(c.variant)]
    ordered = sorted(seen, key=lambda cell: cell.phase not in decisive)  # what decides is said first
    rests_on = [c.variant for c in ran] if ran else list(path.variants)
    return PathRow(
        id=name,
        title=path.title,
        verdict=str(verdict),
        variant=" + ".join(c.variant.name for c in executing or ran),
        counts=_counts(path, calls, seen) | _verdict_counts(seen, judged),
        configured=configured(judged),
        eligible=eligible(judged),
        reasons=_reasons(rec, path, ran, ordered, judged, verdict, strangers, hides),
        evidence=(*evidence_lines(rec, ran, seen), *fallback_lines(path, ran, vendor), *name_lines(path, rests_on)),
        # what ran is as sure as its least sure name; that nothing ran proves something only where names were seen
        names_from_source=(any if ran else all)(v.names_from_source for v in rests_on or path.variants),
        by_phase={str(phase): str(v) for phase, v in by_phase.items()},
        cells=tuple(
            _cell(rec, cell, by, executing or ran, decides=cell.phase in decisive, tells=_tells(path) and not hides)
            for cell, by in zip_longest(seen, judged)  # nothing was judged without a configuration
        ),
        gates=path.gates,
        correct=vouched(rec, path),
    )


def _reasons(
    rec: Recording,
    path: FastPath,
    ran: list[Calls],
    seen: list[Cell],
    judged: list[Judged],
    verdict: PathVerdict,
    strangers: tuple[str, ...],
    hides: tuple[str, ...],
) -> tuple[str, ...]:
    """What the setup says first, where there is one; then what the recording lacks."""
    said = tuple(dict.fromkeys(reason for j in judged for reason in j.reasons))
    if judged and verdict is not PathVerdict.UNPROVEN:
        return (*said, *hides)
    without = () if judged else (NO_CONFIGURATION,)
    return (*said, *reasons_of(rec, path, ran, seen, strangers), *hides, *without)


def _verdict_counts(seen: list[Cell], judged: list[Judged]) -> dict[str, int]:
    """``{"missed": 10, ...}``: steps per verdict, and again per phase for ``executed``."""
    found: dict[str, int] = {}
    for cell, here in zip(seen, judged, strict=False):
        words = {str(word): steps for word, steps in here.counts.items()} | {
            "executed": here.counts[PathVerdict.EXECUTED]
        }
        for word, steps in (*words.items(), (f"{cell.phase}.executed", words["executed"])):
            found[word] = found.get(word, 0) + steps
    return found


def _tells(path: FastPath) -> bool:
    """Whether a missing call proves something: a kernel whose name nobody has seen may have another one."""
    return path.counted_by is Anchor.GRAPH_LAUNCH or not any(v.names_from_source for v in path.variants)


def _cell(
    rec: Recording, cell: Cell, judged: Judged | None, ran: list[Calls], *, decides: bool, tells: bool
) -> PathCell:
    sure = tells and cell.told and cell.steps > 0
    here = {c.variant.name: int(c.per_place[cell.at].sum()) for c in ran}
    return PathCell(
        rank=rec.files[cell.file].rank,
        phase=str(cell.phase),
        verdict=str(judged.verdict if judged else cell.verdict),
        variant=" + ".join(name for name, calls in here.items() if calls),
        steps=cell.steps,
        executed=judged.counts[PathVerdict.EXECUTED] if judged else len(cell.ran),
        calls=sum(here.values()),
        absent=len(cell.at) - len(cell.ran) - len(cell.hidden) if sure else 0,
        decides=decides,
    )


def _asked(where: Places, seen: list[Cell]) -> tuple[Evidence, ...]:
    """The steps that were asked and did not call the path; () where the trace has no steps."""
    without = [np.setdiff1d(cell.at, cell.ran) for cell in seen]
    missing = np.concatenate(without) if without else np.empty(0, dtype=np.int64)
    missing = np.sort(missing[where.is_step[missing]])
    asked = sum(cell.steps for cell in seen)
    said = f"no call in {len(missing):,} of {asked:,} steps asked"
    return (evidence("steps", missing, said, "a call in each"),) if len(missing) else ()


ADVICE = {
    PathVerdict.MISSED: "The configuration allows the path and another one ran: look at the selection in the server's log.",
    PathVerdict.DECLINED: "Change what the reason names, or take the fallback as the plan.",
    PathVerdict.UNEXPECTED: "It ran though the configuration does not allow it: the configuration given is not the server's.",
    PathVerdict.OFF: "Nothing asks for it.",
    PathVerdict.REFUSED_AT_START: "This configuration does not start: what was recorded is another server's.",
}


def _said(row: PathRow) -> str:
    """``missed 10 of 1,000 steps: why``."""
    steps, count = row.counts.get("steps", 0), row.counts.get(row.verdict, 0)
    of = f" {count:,} of {steps:,} steps" if steps and row.verdict != PathVerdict.OFF else ""
    why = f": {row.reasons[0].removeprefix('off: ')}" if row.reasons else ""
    return f"{row.verdict.replace('_', ' ')}{of}{why}"


def _finding(row: PathRow, calls: list[Calls], asked: tuple[Evidence, ...], *, trusted: bool) -> Finding:
    if row.verdict == PathVerdict.EXECUTED:
        claim = f"{row.title} ran as {row.variant}: {row.evidence[0]}"
        advice = "Nothing here says that it was the variant asked for; compare with the configuration."
    elif row.verdict != PathVerdict.UNPROVEN:
        claim = f"{row.title}: {_said(row)}"
        advice = ADVICE[PathVerdict(row.verdict)]
    else:
        shown_as = f" (seen as {row.variant})" if row.variant else ""
        claim = f"{row.title} is unproven{shown_as}: {row.reasons[0]}"
        advice = "Unproven is neither a pass nor a miss: add the server's log or configuration, or a graph census."
    shown = tuple(
        evidence(c.table, c.rows.tolist(), f"{int(c.per_place.sum())} calls of {c.variant.name}") for c in calls
    )
    return Finding(
        id=f"paths.{row.id}",
        question="paths",
        verdict=row.verdict,
        claim=claim,
        where=", ".join(f"{phase} {verdict}" for phase, verdict in row.by_phase.items()),
        evidence=(*shown, *(asked if row.verdict != PathVerdict.EXECUTED else ())),
        advice=advice,
        confidence="medium" if row.names_from_source and row.variant else "high",
        trusted=trusted,
    )
