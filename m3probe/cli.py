"""The command line: the only place that prints and exits. One function per verb."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe import _given as given
from m3probe import _streams
from m3probe._arguments import Verb, parser_of, split
from m3probe._live_words import asked, evals_of, is_live, recipes_of, runs_of
from m3probe.errors import M3ProbeError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from m3probe._outputs import Outputs
    from m3probe.model.compare_report import CompareReport
    from m3probe.model.report import Report
    from m3probe.model.view import Feed

EXIT_FAULT = 70
MOST_SAID = 4000
"""Characters of an error on a terminal: a file name or a word of the input may be of any length."""
EXIT_INTERRUPTED = 130


def main() -> int:
    """Run one verb of ``sys.argv`` and return its exit status."""
    # OpenBLAS starts its threads when numpy is imported and nothing here multiplies matrices: 0.15 -> 0.07 CPU s
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _streams.prepare()
    try:
        words, command = split(sys.argv[1:])
        args = parser_of(VERBS).parse_args(words)
        args.command = command
        verb: Verb = args.verb
        _installed()
        return verb(args)
    except M3ProbeError as error:
        return _fail(error)
    except KeyboardInterrupt:
        _streams.complain("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        return _fault(error)


# --- verbs -----------------------------------------------------------------------------------------------


def analyze(args: argparse.Namespace) -> int:
    """Answer the five questions: ``m3probe analyze PATH...``."""
    from m3probe import pipeline
    from m3probe._pages import begin_page, report_page, write_page

    begin_page(args.html, given.inputs(args))
    rec = given.read(args)
    report = pipeline.report(rec)
    pipeline.known_finding(report, args.explain)
    status = _said(_report_text(report, args))
    write_page(args.html, lambda: report_page(args.paths, rec, report))
    return status


def _report_text(report: Report, args: argparse.Namespace) -> str:
    if args.json:
        from m3probe.present.json import report_json

        return report_json(report)
    from m3probe.present.text import report_text

    return report_text(report, _width(), _color(), ascii_only=_plain(), explain=args.explain)


def inspect(args: argparse.Namespace) -> int:
    """Say what is in the inputs: ``m3probe inspect PATH...``."""
    from m3probe import pipeline
    from m3probe.present.json import inspect_json

    try:
        found = pipeline.inspect(given.read(args))
    except M3ProbeError as error:
        if args.json:
            _said(inspect_json("unknown", "error", {}, [error.sentence()]))
        raise
    warnings = [note.text if not note.path else f"{note.path}: {note.text}" for note in found.warnings]
    if args.json:
        return _said(inspect_json(found.kind, found.outcome, found.facts, warnings))
    from m3probe.present.inspect_text import inspect_text

    return _said(inspect_text(found.kind, found.outcome, found.facts, warnings, width=_width()))


def assert_(args: argparse.Namespace) -> int:
    """Judge rules: ``m3probe assert RULES PATH...``; with ``--live`` of a server that runs."""
    if not is_live(args):
        return _asserted(args)
    from m3probe.live_assert import recorder
    from m3probe.present.attach_progress import narration

    drawn = not args.no_progress and _streams.is_terminal(sys.stderr)
    with narration(_narrate, drawn=drawn) as told, recorder(asked(args), told) as live:
        args.record = live.record
        status = _asserted(args)
        live.judged(status)
        return status


def _asserted(args: argparse.Namespace) -> int:
    from m3probe import pipeline, rules
    from m3probe._path_calls import judged
    from m3probe.legs import asked_metric, with_legs
    from m3probe.present.verdict_text import judgement_json, judgement_text

    outputs = _outputs(args)
    outputs.begin()
    try:
        metric = asked_metric(args.metric, args.metric_baseline, triple=args.triple)
        wanted = rules.load_rules(args.rules)
        rec = given.read(args)
        answer = pipeline.report(rec).answer
        judgement = judged(wanted, rec, answer)
        judgement = with_legs(judgement, wanted.rules, answer, metric) if metric else judgement
    except Exception as error:
        fault = f"internal fault of m3probe ({type(error).__name__})"
        outputs.unread(error.sentence() if isinstance(error, M3ProbeError) else fault)
        raise
    text = judgement_json(judgement) if args.json else judgement_text(judgement)
    status = _said(outputs.stdout(text, json=args.json), judgement.exit_code)
    outputs.judged(judgement)
    return status


def compare(args: argparse.Namespace) -> int:
    """Hold runs against the first one: ``m3probe compare A B ...``."""
    from dataclasses import replace

    from m3probe._pages import begin_page, compare_page, write_page
    from m3probe.comparing import AskedRun, exit_code
    from m3probe.comparing import compare as compared
    from m3probe.present.progress import progress
    from m3probe.workload import Quality

    files = runs_of(args)
    begin_page(args.html, [*given.inputs(args), *(path for _, paths in files for path in paths)])
    told_of = zip(files, recipes_of(args, len(files)), evals_of(args, len(files)), strict=True)
    runs = [
        AskedRun(paths, name, replace(given.workload(args, recipe), quality=Quality(graded)))
        for (name, paths), recipe, graded in told_of
    ]
    with progress(enabled=not args.no_progress and _streams.is_terminal(sys.stderr)) as told:
        report = compared(runs, args.require, told, args.gate)
    status = _said(_compare_text(report, args), exit_code(report))
    write_page(args.html, lambda: compare_page(report))
    return status


def _compare_text(report: CompareReport, args: argparse.Namespace) -> str:
    if args.json:
        from m3probe.present.json import compare_json

        return compare_json(report)
    from m3probe.present.compare_text import compare_text

    return compare_text(report, _width(), _color(), ascii_only=_plain(), explain=args.explain)


def recipe(args: argparse.Namespace) -> int:
    """Judge a configuration: ``m3probe recipe ... -- vllm serve MODEL ...``."""
    from dataclasses import replace

    if args.explain:
        return _explained(args)
    from m3probe.recipe import recipe as judged
    from m3probe.recipe.asking import ask_of

    ask = ask_of(given.server(args, args.file))
    said = {"concurrency": tuple(args.concurrency or ()), "isl": args.isl, "osl": args.osl, "drafts": args.spec}
    report = judged(replace(ask, **said, require=args.require))
    failed = any(not held for _, held, _ in report.required) or (args.fail_on_warnings and bool(report.warnings))
    if args.json:
        from m3probe.present.json import recipe_json

        return _said(recipe_json(report), int(failed))
    from m3probe.present.recipe_text import recipe_text

    return _said(recipe_text(report, _width(), _color(), ascii_only=_plain()), int(failed))


def _explained(args: argparse.Namespace) -> int:
    from m3probe.fastpaths import fast_paths
    from m3probe.gates import gates
    from m3probe.present.path_card import path_card
    from m3probe.recipe.required import nearest

    if args.json or args.require or args.file or args.command:
        raise UsageError("--explain prints one entry of the catalogue and judges nothing", next_move="Give it alone")
    path = fast_paths().get(args.explain)
    if path is None:
        known = nearest(args.explain[:80], fast_paths())
        raise UsageError(f"--explain {args.explain[:80]}: no such fast path", next_move=known)
    titles = {name: gate.title for name, gate in gates().items()}
    return _said(path_card(args.explain, path, titles, _width(), _color(), ascii_only=_plain()))


def attach(args: argparse.Namespace) -> int:
    """Record a running server: ``m3probe attach URL|PID|auto``."""
    from m3probe.attach.attaching import attach as attached
    from m3probe.live_serve import serving
    from m3probe.present.attach_progress import narration

    wanted = asked(args)
    if args.tui:
        from m3probe.viewing import feed_of_attach

        return _look(feed_of_attach(wanted), args.target, args)
    drawn = not args.no_progress and _streams.is_terminal(sys.stderr)
    with narration(_narrate, drawn=drawn) as shown, serving(args.serve, shown) as told:
        report = attached(wanted, told)
    status = UnreadableInput.exit_code if report.outcome == "nothing" else 0
    cut_short = report.ended == "interrupted" and (wanted.seconds is not None or wanted.steps is not None)
    status = status or (EXIT_INTERRUPTED if cut_short else 0)
    if args.json:
        from m3probe.present.json import plain_json

        return _said(plain_json(report), status)
    from m3probe.present.attach_text import attach_text

    text = attach_text(report, _width(), _color(), ascii_only=_plain())
    answer = _answer_of(report.folder) if report.folder and report.outcome != "nothing" else ""
    return _said(f"{text}\n\n{answer}" if answer else text, status)


def _answer_of(folder: str) -> str:
    """The report on what was recorded; a recording that cannot be read yet is there all the same."""
    from m3probe import pipeline
    from m3probe.present.text import report_text

    try:
        report = pipeline.analyze([Path(folder)])
    except M3ProbeError as error:
        return f"no report on it: {error.sentence()}"
    return report_text(report, width=_width(), color=_color(), ascii_only=_plain())


def verify(args: argparse.Namespace) -> int:
    """Recompute a module: ``m3probe verify --module NAME [PID|auto]``."""
    from m3probe.attach.verifying import AskedVerify
    from m3probe.attach.verifying import verify as verified
    from m3probe.present.attach_progress import narration

    if args.target.startswith("http"):
        raise UsageError("verify needs the server's processes, not its address", next_move="Give a pid or auto")
    named = AskedVerify(args.module, args.target, args.out, args.wait, args.take_over)
    with narration(_narrate, drawn=False) as told:
        report = verified(named, told)
    if args.json:
        from m3probe.present.json import plain_json

        return _said(plain_json(report), report.exit_code)
    from m3probe.present.attach_text import verify_text

    return _said(verify_text(report, _width(), _color(), ascii_only=_plain()), report.exit_code)


def doctor(args: argparse.Namespace) -> int:
    """Say whether this host is ready: ``m3probe doctor``."""
    from m3probe.doctor import Place, examine
    from m3probe.present.doctor_text import doctor_text
    from m3probe.present.json import doctor_json

    report = examine(Place(), args.concurrency)
    text = doctor_json(report) if args.json else doctor_text(report, _width(), _color(), ascii_only=_plain())
    return _said(text, int(report.failed(args.fail_on)))


def tui(args: argparse.Namespace) -> int:
    """Look into it in the terminal: ``m3probe tui PATH...|URL|PID``."""
    from m3probe.viewing.opening import feed_of_words

    return _look(feed_of_words(args, given.workload(args, args.recipe)), args.paths[0], args)


def export(args: argparse.Namespace) -> int:
    """Hand it to another tool: ``m3probe export PATH... --to FORMAT``."""
    from m3probe import exporting, pipeline
    from m3probe.present.escape import safe

    asked_for = exporting.asked(args.to, args.paths, args.out, force=args.force, host=args.host)
    rec = given.read(args)
    done = asked_for.write(rec, pipeline.report(rec))
    for sentence in done.lost:
        _streams.complain(f"warning: {safe(sentence)}")
    if args.json:
        from m3probe.present.json import plain_json

        return _said(plain_json(done))
    from m3probe.present.export_text import export_text

    return _said(export_text(done))


VERBS: dict[str, Verb] = {
    "analyze": analyze,
    "inspect": inspect,
    "assert": assert_,
    "compare": compare,
    "recipe": recipe,
    "attach": attach,
    "verify": verify,
    "doctor": doctor,
    "tui": tui,
    "export": export,
}


# --- what assert tells beside stdout -----------------------------------------------------------------------


def _outputs(args: argparse.Namespace) -> Outputs:
    from m3probe._outputs import Outputs, in_github

    github = in_github() if args.github is None else args.github
    return Outputs(args.rules, args.junit, github, tuple(given.inputs(args)))


# --- reading and printing ----------------------------------------------------------------------------------


def _installed() -> None:
    """Refuse to run from a source folder, where rooms are missing (`python -m m3probe` in the root)."""
    from m3probe.registry import room

    room("m3probe.analyzers")


def _said(text: str, status: int = 0) -> int:
    """Print the result. ``status`` is settled before: no closed pipe turns a failed rule into a pass."""
    return _streams.finish(status, f"{text}\n")


def _look(feed: Feed, title: str, args: argparse.Namespace) -> int:
    from m3probe._looking import Plain, look

    return look(feed, title, Plain(_width(), _color(), args.ascii or _plain()), light=args.light)


def _narrate(text: str) -> None:
    _streams.put(sys.stderr, f"{text}\n")


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def _color() -> bool:
    return _streams.is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _plain() -> bool:
    """Whether stdout cannot show the glyphs of a page."""
    from m3probe.present.text import wants_ascii

    return wants_ascii(getattr(sys.stdout, "encoding", None))


def _fail(error: M3ProbeError) -> int:
    from m3probe.present.escape import safe

    said = error.sentence()
    _streams.complain(safe(said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}... ({len(said):,} characters)"))
    return error.exit_code


def _fault(error: Exception) -> int:
    _streams.complain(f"internal fault ({type(error).__name__}); {_streams.traced(error)}")
    return EXIT_FAULT
