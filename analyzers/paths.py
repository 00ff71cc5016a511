"""Question 4: for each fast path, did it run, as what, and what proves it?

A trace holds no configuration: without one a verdict is ``executed`` (the variant named) or ``unproven``, never
``missed``. One verdict per (rank, phase); a step without a call makes its phase ``unproven``, and the counts say of how
many. Beside the server's configuration (``meta.setup``) each step's own rows are judged first (``_configured.py``).
"""

from __future__ import annotations

import numpy as np

from m3probe.analyzers._anchors import Calls, Names
from m3probe.analyzers._gates import gate_rows
from m3probe.analyzers._ledger import is_live
from m3probe.analyzers._ledger_paths import with_ledger
from m3probe.analyzers._log_evidence import log_findings, with_logs
from m3probe.analyzers._path_bound import with_bound
from m3probe.analyzers._path_row import looked_at, row_of
from m3probe.analyzers._places import Cell, Places, places
from m3probe.analyzers._recipe_row import recipe_finding, recipe_row
from m3probe.fastpaths import fast_paths
from m3probe.model.executed import executed
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.recording import KERNEL_FREE, Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import PathVerdict

ADVICE = {
    PathVerdict.MISSED: "The configuration allows the path and another one ran: look at the selection in the server's log.",
    PathVerdict.DECLINED: "Change what the reason names, or take the fallback as the plan.",
    PathVerdict.UNEXPECTED: "It ran though the configuration does not allow it: the configuration given is not the server's.",
    PathVerdict.OFF: "Nothing asks for it.",
    PathVerdict.REFUSED_AT_START: "This configuration does not start: what was recorded is another server's.",
}


def judge(rec: Recording, so_far: Answer) -> Answer:
    """One row and one finding per fast path."""
    names = Names(rec, executed(rec))
    where = places(rec)
    hides = so_far.hiding
    vendor = _vendor(rec)
    rows, findings = [], []
    live = is_live(rec)
    for name, path in fast_paths().items():
        found = looked_at(rec, path, names, where)
        row = row_of(name, found, vendor, hides)
        row = with_ledger(rec, name, path, row) if live else row
        row = with_logs(rec, name, path, row)
        rows.append(row)
        told = _finding(row, found.calls, _asked(where, found.seen), trusted=not hides)
        findings.append(with_bound(rec, path, row, found.calls, told))
    return Answer(
        (PathsSection(tuple(rows), gate_rows(rec), recipe_row(rec)),),
        (*recipe_finding(rec), *log_findings(rec, rows), *(findings if _speaks(rec) else ())),
    )


def _speaks(rec: Recording) -> bool:
    """Whether any input can say something of a path: results of a benchmark and pages of metrics cannot."""
    return any(file.role == "log" or file.role not in KERNEL_FREE for file in rec.files)


ANALYZER = Analyzer(title="Did each fast path run, and as what?", order=50, judge=judge)


def _vendor(rec: Recording) -> str:
    """``amd``, ``nvidia`` or empty; by versions, else by the lanes of the first device."""
    words = " ".join(rec.meta.versions)
    if "hip" in words or "roc" in words:
        return "amd"
    if "cu" in words:
        return "nvidia"
    return {64: "amd", 32: "nvidia"}.get(rec.meta.devices[0].warp_size, "") if rec.meta.devices else ""


def _asked(where: Places, seen: list[Cell]) -> tuple[Evidence, ...]:
    """The steps that were asked and did not call the path; () where the trace has no steps."""
    without = [np.setdiff1d(cell.at, cell.ran) for cell in seen]
    missing = np.concatenate(without) if without else np.empty(0, dtype=np.int64)
    missing = np.sort(missing[where.is_step[missing]])
    asked = sum(cell.steps for cell in seen)
    said = f"no call in {len(missing):,} of {asked:,} steps asked"
    return (evidence("steps", missing, said, "a call in each"),) if len(missing) else ()


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
