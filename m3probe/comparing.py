"""``m3probe compare``: runs read one after the other, each boiled down before the next, then held against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe import pipeline
from m3probe.analyzers._compare.crossing import crossing_of
from m3probe.analyzers._compare.curves import Curves, curves
from m3probe.analyzers._compare.judge import compared, faster
from m3probe.analyzers._compare.run import kept
from m3probe.errors import UsageError
from m3probe.fastpaths import fast_paths
from m3probe.hardware import Accelerator, accelerators
from m3probe.model.bench import BenchRun
from m3probe.model.compare_bench import Crossing
from m3probe.model.compare_report import OTHER, SAME, CompareReport, Required, Setting
from m3probe.model.compare_run import RunKept
from m3probe.model.recipe_report import PathLine
from m3probe.model.recording import Recording
from m3probe.plugs import Progress
from m3probe.recipe.differs import changes
from m3probe.recipe.judge import judged
from m3probe.recipe.points import limits, workload
from m3probe.recipe.required import nearest
from m3probe.schema.setup import Setup
from m3probe.sources import no_progress
from m3probe.workload import Workload

SAME_CONTRACT, FASTER, EXECUTED = "same-contract", "faster", "executed"
WORDS = (SAME_CONTRACT, FASTER, f"{EXECUTED}:PATH")
HOLDS, FAILED, INCONCLUSIVE = "holds", "failed", "inconclusive"
FAILED_CODE, INCONCLUSIVE_CODE = 1, 4


@dataclass(frozen=True, slots=True)
class AskedRun:
    """One run: its files, and what the user says of it; an empty name is made from its first path."""

    paths: tuple[Path, ...]
    name: str = ""
    workload: Workload | None = None


def compare(
    asked: Sequence[AskedRun],
    require: Sequence[str] = (),
    progress: Progress = no_progress,
    gate: int | None = None,
) -> CompareReport:
    """Read and compare.

    Args:
        asked: two or more; the first is what the others are held against.
        require: words of ``WORDS``; what they ask is in the report's ``required``.
        gate: rows from which on the later run's way would be taken: tried on the recorded histogram of each operation.

    Raises:
        UsageError: fewer than two runs, a word or path that is not known.
        UnreadableInput: an input cannot be read.
    """
    if len(asked) < 2:
        raise UsageError(
            f"compare needs two runs or more, got {len(asked)}",
            next_move="Name each run's file or folder, or --run NAME PATH... for a run of several",
        )
    for word in require:
        _known(word)
    names = _names(asked)
    runs: list[RunKept] = []
    crossings: dict[str, Crossing | None] = {}
    first: Curves | None = None
    for name, one in zip(names, asked, strict=True):
        run, over_rows = _boiled(name, one, progress)
        runs.append(run)
        first = first or over_rows
        if len(runs) > 1:
            crossings[name] = crossing_of(first, over_rows, gate)
    settings = {run.name: settings_between(runs[0], run) for run in runs[1:]}
    report = compared(runs, settings, crossings)
    return replace(report, required=tuple(_required(word, report, runs) for word in require))


def exit_code(report: CompareReport) -> int:
    """0, or 1 where something that was required failed, else 4 where it is inconclusive."""
    words = {required.outcome for required in report.required}
    return FAILED_CODE if FAILED in words else INCONCLUSIVE_CODE if INCONCLUSIVE in words else 0


def settings_between(a: RunKept, b: RunKept) -> tuple[Setting, ...] | None:
    """What the later configuration changes; None where it is not known of both."""
    if a.setup is None or b.setup is None:
        return None
    return tuple(Setting(c.flag, c.asked, c.resolved, c.follows) for c in changes(a.setup, b.setup))


def _boiled(name: str, asked: AskedRun, progress: Progress) -> tuple[RunKept, Curves]:
    """What is kept of a run; its recording is let go of before the next one is read."""
    rec = pipeline.read(asked.paths, asked.workload, progress)
    return _kept(name, asked, rec), curves(rec)


def _kept(name: str, asked: AskedRun, rec: Recording) -> RunKept:
    setup = rec.meta.setup
    paper = _paper(setup, rec.meta.bench) if setup else ()
    return kept(name, [str(path) for path in asked.paths], rec, pipeline.report(rec), paper)


def _paper(setup: Setup, bench: Sequence[BenchRun]) -> tuple[PathLine, ...]:
    """How far each path gets at the concurrency and prompt length that were measured."""
    most = limits(setup, _device(setup))
    at = sorted({run.max_concurrency for run in bench if run.max_concurrency})
    lengths = [run.mean_input_tokens for run in bench if run.mean_input_tokens]
    return judged(setup, workload(setup, most, at, int(lengths[0]) if lengths else None), most)


def _device(setup: Setup) -> Accelerator:
    shelf = accelerators()
    return next((device for device in shelf.values() if device.gfx and device.gfx == setup.gfx), shelf["mi355x"])


def _names(asked: Sequence[AskedRun]) -> list[str]:
    """As short as tells them apart: a file's name without its endings, else its folder's, else with a number."""
    files = [_short(one.paths[0]) for one in asked]
    folders = [one.paths[0].resolve().parent.name for one in asked]
    names: list[str] = []
    for one, file, folder in zip(asked, files, folders, strict=True):
        told = one.name or (folder if files.count(file) > 1 and folders.count(folder) == 1 else file)
        again = sum(n == told or n.startswith(f"{told} #") for n in names)
        names.append(f"{told} #{again + 1}" if again else told)
    return names


ENDINGS = (".gz", ".json", ".trace", ".pt", ".zst")


def _short(path: Path) -> str:
    name = path.name or path.resolve().name or str(path)
    for ending in ENDINGS:
        name = name.removesuffix(ending) or name
    return name


def _known(word: str) -> None:
    start, colon, path = word.partition(":")
    if start == EXECUTED and colon:
        if path not in fast_paths():
            raise UsageError(f"--require {word[:80]}: no such fast path", next_move=nearest(path[:80], fast_paths()))
    elif word not in WORDS[:2]:
        raise UsageError(f"--require {word[:80]}: not a word of compare", next_move=f"Known are {', '.join(WORDS)}")


def _required(word: str, report: CompareReport, runs: Sequence[RunKept]) -> Required:
    if word == SAME_CONTRACT:
        return _together(word, [_same(pair.contract.verdict, pair.contract.claim) for pair in report.pairs])
    if word == FASTER:
        return _together(word, [faster(pair, runs) for pair in report.pairs])
    path = word.partition(":")[2]
    return _together(word, [_ran(run, path) for run in runs[1:]])


def _same(verdict: str, claim: str) -> tuple[str, str]:
    return (FAILED if verdict == OTHER else HOLDS if verdict == SAME else INCONCLUSIVE), claim


def _ran(run: RunKept, path: str) -> tuple[str, str]:
    """Executed in some phase; a phase that the path is not for says nothing against it."""
    seen = [p for p in run.paths if p.id == path]
    ran = [p.phase for p in seen if p.ran]
    if ran:
        return HOLDS, f"{run.name}: {path} ran in {', '.join(ran)}"
    if seen and all(p.ran is False for p in seen):
        return FAILED, f"{run.name}: {path} ran in no phase that was recorded ({', '.join(p.phase for p in seen)})"
    return INCONCLUSIVE, f"{run.name}: nothing shows whether {path} ran (a trace or a live recording would)"


def _together(word: str, found: Sequence[tuple[str, str]]) -> Required:
    for outcome in (FAILED, INCONCLUSIVE):
        why = [text for said, text in found if said == outcome]
        if why:
            return Required(word, outcome, "; ".join(why))
    return Required(word, HOLDS, "; ".join(text for _, text in found))
