"""One fast path over all ranks and phases: what was seen of it, and the report's row of that."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from m3probe.analyzers._anchors import Calls, Names, calls_of, total_of, unnamed
from m3probe.analyzers._configured import WORST, Judged, configured, eligible, judged_cells
from m3probe.analyzers._gates import vouched
from m3probe.analyzers._launched import launch_lines
from m3probe.analyzers._places import Cell, Places, cells
from m3probe.analyzers._said import evidence_lines, fallback_lines, name_lines, reasons_of
from m3probe.model.path_report import PathCell, PathRow
from m3probe.model.recording import Recording
from m3probe.schema.paths import Anchor, FastPath
from m3probe.schema.verdicts import PathVerdict, Phase

NO_CONFIGURATION = "configured and eligible are unknown: a trace does not say"


@dataclass(frozen=True, slots=True)
class Looked:
    """What a recording shows of one path.

    Args:
        calls: of every variant that ran.
        seen: one cell per rank file and phase.
        judged: each cell against the server's configuration; empty without one.
        strangers: kernels of its family that no variant knows.
        launched: what the grids of its launches say.
    """

    rec: Recording
    path: FastPath
    calls: list[Calls]
    seen: list[Cell]
    judged: list[Judged]
    strangers: tuple[str, ...]
    launched: tuple[str, ...]

    @property
    def ran(self) -> list[Calls]:
        """Variants with a call in some step."""
        return [call for call in self.calls if call.per_place.any()]

    @property
    def shown(self) -> list[Calls]:
        """Those that executed the path; the fallbacks where none did."""
        return [call for call in self.ran if self.path.executes(call.variant)] or self.ran

    @property
    def by_phase(self) -> dict[Phase, PathVerdict]:
        """The worst verdict of each phase over all ranks."""
        verdicts = [j.verdict for j in self.judged] or [cell.verdict for cell in self.seen]
        found: dict[Phase, PathVerdict] = {}
        for cell, verdict in zip(self.seen, verdicts, strict=True):
            found[cell.phase] = min(found.get(cell.phase, verdict), verdict, key=WORST.index)
        return found

    @property
    def decisive(self) -> list[Phase]:
        """The phases that decide, or all when none of those was recorded."""
        return [phase for phase in self.by_phase if phase in self.path.decided_by] or list(self.by_phase)

    @property
    def verdict(self) -> PathVerdict:
        """The worst verdict of the phases that decide."""
        by_phase = self.by_phase
        return min((by_phase[phase] for phase in self.decisive), key=WORST.index, default=PathVerdict.UNPROVEN)


def looked_at(rec: Recording, path: FastPath, names: Names, where: Places) -> Looked:
    """Everything of one path."""
    calls = calls_of(rec, path, names, where)
    seen = cells(rec, where, total_of(path, calls, where))
    judged = judged_cells(rec, path, calls, seen, where)
    launched = launch_lines(rec, path, calls, where)
    return Looked(rec, path, calls, seen, judged, unnamed(path, names, calls), launched)


def row_of(name: str, found: Looked, vendor: str, hides: tuple[str, ...]) -> PathRow:
    """The report's row.

    Args:
        vendor: ``amd``, ``nvidia`` or empty.
        hides: why kernels may be missing from the recording.
    """
    path, ran = found.path, found.ran
    rests_on = [call.variant for call in found.shown] if ran else list(path.variants)
    return PathRow(
        id=name,
        title=path.title,
        verdict=str(found.verdict),
        variant=" + ".join(call.variant.name for call in found.shown),
        counts=_counts(found) | _verdict_counts(found.seen, found.judged),
        configured=configured(found.judged),
        eligible=eligible(found.judged),
        reasons=_reasons(found, hides),
        evidence=(
            *evidence_lines(found.rec, ran, found.seen),
            *found.launched,
            *fallback_lines(path, ran, vendor),
            *name_lines(path, rests_on),
        ),
        # what ran is as sure as its least sure name; that nothing ran proves something only where names were seen
        names_from_source=(any if ran else all)(v.names_from_source for v in rests_on),
        by_phase={str(phase): str(v) for phase, v in found.by_phase.items()},
        cells=_cells(found, hides),
        gates=path.gates,
        correct=vouched(found.rec, path),
    )


def _reasons(found: Looked, hides: tuple[str, ...]) -> tuple[str, ...]:
    """What the configuration says first, where there is one; then what the recording lacks."""
    said = _by_configuration(found)
    if found.judged and found.verdict is not PathVerdict.UNPROVEN:
        return (*said, *hides)
    decisive = found.decisive
    ordered = sorted(found.seen, key=lambda cell: cell.phase not in decisive)  # what decides is said first
    lacks = reasons_of(found.rec, found.path, found.ran, ordered, found.strangers)
    return (*said, *lacks, *hides, *(() if found.judged else (NO_CONFIGURATION,)))


def _by_configuration(found: Looked) -> tuple[str, ...]:
    """What the configuration says; a reason of some phases alone names them."""
    phases: dict[str, dict[str, None]] = {}
    for cell, judged in zip(found.seen, found.judged, strict=False):
        for reason in judged.reasons:
            phases.setdefault(reason, {})[str(cell.phase)] = None
    whole = len({cell.phase for cell in found.seen})
    return tuple(
        reason if len(where) == whole or reason.startswith(tuple(where)) else f"{', '.join(where)}: {reason}"
        for reason, where in phases.items()
    )


def _counts(looked: Looked) -> dict[str, int]:
    """Steps with and without a call, and calls; a trace without steps has no step counts."""
    every, seen = looked.calls, looked.seen
    calls = [c for c in every if looked.path.executes(c.variant)]
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


def _cells(found: Looked, hides: tuple[str, ...]) -> tuple[PathCell, ...]:
    decisive, tells = found.decisive, _tells(found.path) and not hides
    return tuple(
        _cell(found.rec, cell, by, found.shown, decides=cell.phase in decisive, tells=tells)
        for cell, by in zip_longest(found.seen, found.judged)  # nothing was judged without a configuration
    )


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
