"""m3probe from Python: what ``import m3probe`` offers (docs/api.md). Everything returns typed objects; nothing prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path

from m3probe.errors import UsageError
from m3probe.model.compare_report import CompareReport
from m3probe.model.judgement import Judgement
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.pipeline import Inspection, read
from m3probe.pipeline import inspect as inspected
from m3probe.pipeline import report as reported
from m3probe.registry import room
from m3probe.rules import RulesFile
from m3probe.workload import Workload

Source = str | PathLike[str]
"""A file or a folder."""
_ANALYZERS = "m3probe.analyzers"
"""Missing where a source folder runs: said in a sentence before an import fails."""


def open_recording(
    *paths: Source | Sequence[Source],
    model_config: Source | None = None,
    tp: int | None = None,
    ep: int | None = None,
    recipe: Source | None = None,
    vllm: str | None = None,
    gpu: str | None = None,
) -> Recording:
    """Read inputs as one recording, with what is known of the run beside them (as options of ``m3probe analyze``).

    Args:
        paths: traces, profile folders, recordings, logs, metrics pages, benchmark results; or lists of them.
        model_config: the served model's config.json.
        tp: tensor parallel size, in ranks.
        ep: expert parallel size, in ranks.
        recipe: script, compose or Kubernetes file that started the server.
        vllm: release of the recipe's server (``0.33.0``).
        gpu: accelerator of the recipe's server, by its file name in ``m3probe/hardware/`` (``mi355x``).

    Returns:
        Typed tables; times are int64 ns on the clock of their file, what is not known is -1 (``<NA>`` in ``.df()``).

    Raises:
        UnreadableInput: an input is missing or not what it should be.
        UsageError: no path, or what was said contradicts itself.
    """
    named = _paths(paths)
    if not named:
        raise UsageError("no path was given", next_move="Name a trace, a folder or a recording")
    if recipe is None and (vllm or gpu):
        raise UsageError("vllm and gpu say something of a server that was not given", next_move="Give its recipe")
    return read(named, _workload(model_config, tp, ep, recipe, vllm, gpu))


def analyze(recording: Recording | Source) -> Report:
    """Answer the five questions, and rank what was found: ``m3probe analyze``.

    Args:
        recording: from ``open_recording``, or a path to read.

    Returns:
        ``findings``, ``next_bottleneck``, ``trust``, ``summary``, a ``section`` for each question, and ``df`` of its rows.
        Times are ns, shares 0 to 1; None is not known.

    Raises:
        UnreadableInput: the path cannot be read. A failing analyzer raises nothing: it is one finding ``*.failed``.
    """
    return reported(_opened(recording))


def inspect(recording: Recording | Source) -> Inspection:
    """What is in the inputs, and how reading them ended: ``m3probe inspect``.

    Args:
        recording: from ``open_recording``, or a path to read.

    Returns:
        ``kind``, ``outcome`` (``ok ok_with_warnings partial``), ``facts`` by name (docs/inspect.md; units in the names)
        and ``warnings``.

    Raises:
        UnreadableInput: the path cannot be read.
    """
    return inspected(_opened(recording))


def judge(recording: Recording | Source, rules: RulesFile | Source, report: Report | None = None) -> Judgement:
    """Judge the rules of a file: ``m3probe assert``.

    Args:
        recording: from ``open_recording``, or a path to read.
        rules: a rules file, or the name of a ready one (docs/assert.md).
        report: what ``analyze`` said of the same recording; None: it is made.

    Returns:
        A result for each rule (``holds failed inconclusive``) with its evidence, and the ``exit_code`` that follows.

    Raises:
        UnreadableInput: a file cannot be read.
        UsageError: the rules file is wrong; the nearest word is named.
    """
    room(_ANALYZERS)
    from m3probe._path_calls import judged
    from m3probe.rules import load_rules

    if report is not None:
        _result(report, Report)
    wanted = rules if isinstance(rules, RulesFile) else load_rules(_path(rules))
    rec = _opened(recording)
    return judged(wanted, rec, (report or reported(rec)).answer)


def compare(
    *runs: Source | Sequence[Source],
    names: Sequence[str] = (),
    recipes: Sequence[Source] = (),
    model_config: Source | None = None,
    tp: int | None = None,
    ep: int | None = None,
    require: Sequence[str] = (),
    gate: int | None = None,
) -> CompareReport:
    """Hold runs against the first one: ``m3probe compare``. They are read one after the other and let go of.

    Args:
        runs: two or more: a path each, or a list of the paths of one run.
        names: one for each run; left out, made from its path.
        recipes: the script of each run's server, or one for all of them.
        model_config: the served model's config.json, of all runs.
        tp: tensor parallel size, in ranks.
        ep: expert parallel size, in ranks.
        require: ``same-contract``, ``faster``, ``executed:PATH``; outcomes are in the report's ``required``.
        gate: rows from which on the later run's way would be taken.

    Returns:
        The contract of each pair, ratios after/before, times in ns per step; None is not known.

    Raises:
        UnreadableInput: an input cannot be read.
        UsageError: fewer than two runs, another number of names or recipes, a word that is not known.
    """
    room(_ANALYZERS)
    from m3probe.comparing import AskedRun
    from m3probe.comparing import compare as compared

    if len(names) not in {0, len(runs)} or len(recipes) not in {0, 1, len(runs)}:
        raise UsageError(
            f"{len(names)} name(s) and {len(recipes)} recipe(s) for {len(runs)} run(s)",
            next_move="Give one for each run in their order, or none; one recipe may stand for all",
        )
    called = list(names) or [""] * len(runs)
    served = list(recipes) if len(recipes) == len(runs) else [*recipes, None][:1] * len(runs)
    asked = [
        AskedRun(_paths((run,)), name, _workload(model_config, tp, ep, recipe))
        for run, name, recipe in zip(runs, called, served, strict=True)
    ]
    if any(not one.paths for one in asked):
        raise UsageError("a run has no path", next_move="Name its trace, folder or recording")
    return compared(asked, tuple(require), gate=gate)


def to_text(found: Report | CompareReport | Judgement, width: int = 100) -> str:
    """A result as the command line prints it, without colour; foreign text is escaped.

    Args:
        found: from ``analyze``, ``compare`` or ``judge``.
        width: of a line at most, in cells; a judgement has a line for each rule, of any length.

    Raises:
        UsageError: it is no such result.
    """
    _result(found, Report, CompareReport, Judgement)
    if isinstance(found, Report):
        from m3probe.present.text import report_text

        return report_text(found, width, color=False)
    if isinstance(found, CompareReport):
        from m3probe.present.compare_text import compare_text

        return compare_text(found, width, color=False, explain=False)
    from m3probe.present.verdict_text import judgement_text

    return judgement_text(found)


def to_json(found: Report | CompareReport | Judgement) -> str:
    """A result as ``--json`` prints it: plain ASCII, times as integer ns, null for what is not known.

    Args:
        found: from ``analyze`` (docs/report.schema.json), ``compare`` (docs/compare.schema.json) or ``judge``.

    Raises:
        UsageError: it is no such result.
    """
    _result(found, Report, CompareReport, Judgement)
    from m3probe.present.json import compare_json, report_json
    from m3probe.present.verdict_text import judgement_json

    if isinstance(found, Report):
        return report_json(found)
    return compare_json(found) if isinstance(found, CompareReport) else judgement_json(found)


def to_markdown(found: Judgement) -> str:
    """A judgement as a table for an issue or a step's summary, the worst first; foreign text cannot break it."""
    from m3probe.present.github import summary

    _result(found, Judgement)
    return summary(found)


# --- what was said -----------------------------------------------------------------------------------------


def _opened(recording: Recording | Source) -> Recording:
    return recording if isinstance(recording, Recording) else open_recording(recording)


def _paths(said: Sequence[Source | Sequence[Source]]) -> tuple[Path, ...]:
    """One after the other; a text is a path, never a list of letters."""
    several = (
        (one,) if isinstance(one, str | PathLike | bytes) or not isinstance(one, Iterable) else one for one in said
    )
    return tuple(_path(path) for group in several for path in group)


def _path(said: object) -> Path:
    # a `PathLike` may stand for bytes too, and an operating system takes no NUL
    path = fspath(said) if isinstance(said, str | PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        what = f"{said!r:.80} is no path" if isinstance(said, str | bytes) else f"a {type(said).__name__} is no path"
        raise UsageError(what, next_move="Give the name of a file or folder as str or Path")
    return Path(path)


def _result(found: object, *known: type) -> None:
    """Whether it can be told.

    Raises:
        UsageError: it is nothing that a function of this module returns.
    """
    if not isinstance(found, known):
        names = " or ".join(each.__name__ for each in known)
        raise UsageError(
            f"a {type(found).__name__} is no {names}", next_move="Give what analyze, compare or judge returned"
        )


def _workload(
    model_config: Source | None,
    tp: int | None,
    ep: int | None,
    recipe: Source | None,
    vllm: str | None = None,
    gpu: str | None = None,
) -> Workload | None:
    if model_config is None and tp is None and ep is None and recipe is None:
        return None
    from m3probe.recipe.asking import Server
    from m3probe.workload import sizes_fit

    for word, size in (("tp", tp), ("ep", ep)):
        if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
            raise UsageError(f"{word}={size!r:.40} is no number of ranks", next_move="Give a whole number")
    for word, text in (("vllm", vllm), ("gpu", gpu)):
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{word}={text!r:.40} is no text", next_move="Give it as the command line takes it")
    sizes_fit(tp, ep)
    config = None if model_config is None else _path(model_config)
    server = None if recipe is None else Server(file=_path(recipe), vllm=vllm, gpu=gpu, model_config=config)
    return Workload(config, tp, ep, server)
