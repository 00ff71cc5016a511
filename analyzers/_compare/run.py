"""One run, boiled down: what a comparison needs of a recording and its report, without a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from m3probe.analyzers._compare.facts import WORK, facts
from m3probe.analyzers._compare.groups import shape_costs, shapes_by_kernel, step_groups, steps_by_phase
from m3probe.analyzers._compare.hosts import host_steps
from m3probe.analyzers._compare.moved import bottleneck
from m3probe.analyzers._gemm import gemms
from m3probe.analyzers._view import view
from m3probe.fastpaths import fast_paths
from m3probe.model.compare_run import PathSeen, RunKept
from m3probe.model.live_report import LiveSection
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.recipe_report import PathLine
from m3probe.model.recording import Recording
from m3probe.model.report import Report, TrustSection
from m3probe.schema.verdicts import PathVerdict

NO_FAULT = frozenset({"same_stream_overlap"})
"""Checks that tell a fact of a sound trace: none of a comparison's doubts."""
RAN = (PathVerdict.EXECUTED, PathVerdict.UNEXPECTED)
NOT_RAN = (PathVerdict.OFF, PathVerdict.DECLINED, PathVerdict.MISSED, PathVerdict.REFUSED_AT_START)


def kept(name: str, inputs: Sequence[str], rec: Recording, report: Report, paper: Sequence[PathLine] = ()) -> RunKept:
    """All that is needed of one run.

    Args:
        name: what to call it.
        inputs: its paths.
        rec: the recording.
        report: what the analyzers say of it.
        paper: how far each path gets on paper at the run's concurrency; () without a configuration.
    """
    answer, meta = report.answer, rec.meta
    seen = view(rec, answer)
    costs = shape_costs(seen, gemms(rec, seen.ex)) if len(seen.ex) else ()
    groups = tuple(step_groups(seen, shapes_by_kernel(costs))) if len(seen.ex) else ()
    live = answer.section(LiveSection)
    hosts = host_steps(live.step_times) if live else ()
    trust, paths = answer.section(TrustSection), answer.section(PathsSection)
    ran = tuple(_paths(paths)) if paths else ()
    return RunKept(
        name=name,
        inputs=tuple(inputs),
        outcome=report.outcome,
        notes=tuple(note.text for note in report.notes if note.word not in NO_FAULT),
        trust=trust.trust if trust else None,
        ranks=tuple(f.claim for f in answer.findings if f.id.startswith("trust.ranks.")),
        facts=_with_work(facts(rec, seen, hosts), ran),
        setup=meta.setup,
        stated=meta.recipe.source if meta.recipe else "",
        warnings=meta.recipe.warnings if meta.recipe else (),
        paper=tuple(paper),
        groups=groups,
        shapes=costs,
        steps=steps_by_phase(seen),
        paths=ran,
        bottleneck=bottleneck(answer),
        bench=meta.bench,
        gates=meta.gates,
        hosts=hosts,
        failed=tuple(f.question for f in answer.findings if f.id == f"{f.question}.failed"),
    )


def _with_work(known: dict[str, dict[str, str]], ran: Sequence[PathSeen]) -> dict[str, dict[str, str]]:
    """The contract's facts, with what was seen to change the model's work, whatever the configuration says of it."""
    for name, path in fast_paths().items():
        seen = [p.ran for p in ran if p.id == name]
        if path.other_work and any(seen):
            known[WORK][name] = f"{path.other_work} ran"
        elif path.other_work and seen and all(one is False for one in seen):
            known[WORK][name] = f"{path.other_work} did not run"
    return known


def _paths(section: PathsSection) -> Iterator[PathSeen]:
    for row in section.paths:
        for phase in dict.fromkeys(cell.phase for cell in row.cells):
            yield _path(row, phase, [cell for cell in row.cells if cell.phase == phase])


def _path(row: PathRow, phase: str, cells: Sequence[PathCell]) -> PathSeen:
    steps = sum(cell.steps for cell in cells)
    return PathSeen(
        id=row.id,
        title=row.title,
        phase=phase,
        ran=_ran(row, phase, cells),
        verdict=row.by_phase.get(phase, ""),
        variant=" + ".join(dict.fromkeys(cell.variant for cell in cells if cell.variant)),
        calls=row.counts.get(f"{phase}.calls", int(np.sum([cell.calls for cell in cells]))),
        steps=steps,
        reasons=row.reasons,
    )


def _ran(row: PathRow, phase: str, cells: Sequence[PathCell]) -> bool | None:
    """True needs the worst verdict of every rank; False needs each of them to say so: one that is open leaves it open.

    Without a configuration the words are ``executed`` and ``unproven`` alone; steps that surely made no call tell more.
    """
    word = row.by_phase.get(phase, "")
    if word in RAN:
        return True
    if word in NOT_RAN:
        # a few steps that missed it are not all: then it ran as well
        return None if any(cell.executed for cell in cells) else False
    if cells and all(cell.steps and cell.absent == cell.steps for cell in cells):
        return False
    return None
