"""Recording -> analyzers -> report. A failing analyzer is one finding, not a crash."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3probe.errors import UsageError
from m3probe.model.findings import Finding
from m3probe.model.recording import KERNEL_FREE, Recording
from m3probe.model.report import Answer, ReadNote, Report
from m3probe.plugs import Analyzer, Progress
from m3probe.registry import Shelf
from m3probe.schema.verdicts import Outcome
from m3probe.sources import no_progress, open_recording

if TYPE_CHECKING:
    from m3probe.workload import Workload

ANALYZERS = Shelf("m3probe.analyzers", "ANALYZER", Analyzer)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is in the inputs: ``inspect``'s answer."""

    kind: str
    outcome: str
    facts: dict[str, Any]
    warnings: tuple[ReadNote, ...]


def read(paths: Sequence[Path], workload: Workload | None = None, progress: Progress = no_progress) -> Recording:
    """Read inputs and attach what the user, or else a running server or its log, said about the run.

    Raises:
        UnreadableInput: an input or the model config cannot be read.
    """
    rec = open_recording(paths, progress)
    if workload is None and not rec.meta.served and not rec.meta.logs:
        return rec
    from m3probe.workload import Workload, with_workload

    return with_workload(rec, workload or Workload())


def report(rec: Recording) -> Report:
    """Every analyzer's answer, in order, and what the user must be told first."""
    answer = Answer()
    for name, plug in sorted(ANALYZERS.plugs(), key=lambda item: (item[1].order, item[0])):
        answer = answer.plus(_judge(name, plug, rec, answer))
    outcome, notes = reading(rec)
    return Report(outcome=outcome, notes=notes, answer=answer)


def known_finding(told: Report, name: str | None) -> None:
    """Whether a report has the finding that ``--explain`` names.

    Raises:
        UsageError: it has not; the nearest ids are told.
    """
    ids = [finding.id for finding in told.answer.findings]
    if name and name not in ids:
        from m3probe.recipe.required import nearest

        raise UsageError(f"--explain {name[:80]}: this report has no such finding", next_move=nearest(name[:80], ids))


def analyze(paths: Sequence[Path], workload: Workload | None = None, progress: Progress = no_progress) -> Report:
    """``read`` and ``report`` in one call."""
    return report(read(paths, workload, progress))


def inspect(rec: Recording) -> Inspection:
    """Facts and warnings of the inputs, judged no further."""
    from m3probe.analyzers._bench_facts import bench_facts
    from m3probe.analyzers._device_facts import device_facts
    from m3probe.analyzers._inventory import inventory
    from m3probe.analyzers._inventory_counters import counter_facts
    from m3probe.analyzers._inventory_rocprof import rocprof_facts
    from m3probe.analyzers._kernel_tables import kernel_table_facts
    from m3probe.analyzers._log_facts import log_facts
    from m3probe.analyzers._queues_facts import metric_facts

    facts = {} if all(file.role in KERNEL_FREE for file in rec.files) else inventory(rec)[0]
    facts |= log_facts(rec) | bench_facts(rec) | kernel_table_facts(rec) | metric_facts(rec)
    facts |= device_facts(rec) | rocprof_facts(rec) | counter_facts(rec)
    outcome, warnings = reading(rec)
    kinds = sorted({f.kind for f in rec.files})
    return Inspection("+".join(kinds), outcome, facts, warnings)


def reading(rec: Recording) -> tuple[str, tuple[ReadNote, ...]]:
    """How reading ended, and its notes: losses first, then what the checks found."""
    from m3probe.analyzers._checks import checks

    notes = sorted((n for n in rec.notes if not n.quiet), key=lambda n: not n.lossy)
    said = [ReadNote(n.word, n.text, n.path, n.count) for n in notes]
    told = {n.word for n in notes}
    found = [c for c in checks(rec) if c.count and c.word not in told]
    said += [ReadNote(c.word, c.text, "", c.count) for c in found]
    outcome = rec.outcome
    if outcome is Outcome.OK and said:
        outcome = Outcome.OK_WITH_WARNINGS
    return str(outcome), tuple(said)


def _judge(name: str, plug: Analyzer, rec: Recording, so_far: Answer) -> Answer:
    try:
        return plug.judge(rec, so_far)
    except Exception as error:  # noqa: BLE001 - one analyzer's fault must not take the other answers with it
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Answer(
            findings=(
                Finding(
                    id=f"{name}.failed",
                    question=name,
                    verdict="unproven",
                    claim=f"the analyzer {name!r} failed: {type(error).__name__}: {error}",
                    where=f"{Path(last.filename).name}:{last.lineno}",
                    evidence=(),
                    advice="The other answers stand. Report this with the trace that shows it.",
                    confidence="low",
                    trusted=False,
                ),
            )
        )
