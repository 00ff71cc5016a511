"""The command line: the only place that prints and exits. One function per verb."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe import __version__
from m3probe.errors import M3ProbeError, UsageError

if TYPE_CHECKING:
    from m3probe.model.judgement import Judgement
    from m3probe.model.recording import Recording
    from m3probe.pipeline import Workload

EXIT_FAULT = 70
EXIT_INTERRUPTED = 130

_EXITS = """exit status:
  0  inspect, analyze: read (findings never change it); assert: every rule holds
  1  assert: a rule failed
  2  usage, or contradictory or unknown names in a rules file
  3  an input is missing, unreadable, or not what it should be
  4  assert: evidence missing or untrusted for some rule
 70  a fault of m3probe itself: one sentence, and where the traceback was written
130  interrupted (Ctrl-C)
"""


def main() -> int:
    """Run one verb of ``sys.argv`` and return its exit status."""
    # OpenBLAS starts its threads when numpy is imported and nothing here multiplies matrices: 0.15 -> 0.07 CPU s
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows "?", not a traceback
    try:
        args = _parser().parse_args()
        verb: Callable[[argparse.Namespace], int] = args.verb
        status = verb(args)
        sys.stdout.flush()  # here, where a closed pipe is caught, not when the interpreter ends
        return status  # noqa: TRY300 - flushing belongs to the same try
    except M3ProbeError as error:
        return _fail(error)
    except KeyboardInterrupt:
        print("m3probe: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader of our output went away (`m3probe ... | head`): not our fault, nothing to say; what is still
        # buffered goes nowhere, or Python would complain when it ends (exit 120 on 3.11.2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        return _fault(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="m3probe",
        description="Evidence about where a vLLM server's time goes, and whether its fast paths ran.",
        epilog=_EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"m3probe {__version__}")
    verbs = parser.add_subparsers(required=True)
    _add(
        verbs, "analyze", "answer the five questions from a trace and name the next bottleneck", analyze, workload=True
    )
    _add(verbs, "inspect", "say what is in a file and whether it can be trusted", inspect)
    check = _add(verbs, "assert", "check rules against a trace (for CI)", assert_, workload=True, rules=True)
    check.add_argument("--junit", type=Path, metavar="FILE", help="also write a JUnit XML report")
    return parser


def _add(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    words: str,
    verb: Callable[[argparse.Namespace], int],
    *,
    workload: bool = False,
    rules: bool = False,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=words, description=words[:1].upper() + words[1:] + ".")
    parser.set_defaults(verb=verb)
    if rules:
        parser.add_argument("rules", type=Path, metavar="RULES", help="rules file (TOML, see docs/assert.md)")
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="trace file, or folder of rank files")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-progress", action="store_true", help="no progress on stderr")
    if workload:
        parser.add_argument("--model-config", type=Path, metavar="FILE", help="the served model's config.json")
        parser.add_argument("--tp", type=_positive, metavar="N", help="tensor parallel size of the run")
        parser.add_argument("--ep", type=_positive, metavar="N", help="expert parallel size of the run")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


# --- verbs -----------------------------------------------------------------------------------------------


def analyze(args: argparse.Namespace) -> int:
    """Answer the five questions: ``m3probe analyze PATH...``."""
    from m3probe import pipeline

    rec = _read(args)
    report = pipeline.report(rec)
    if args.json:
        from m3probe.present.json import report_json

        print(report_json(report))
    else:
        from m3probe.present.text import report_text, wants_ascii

        plain = wants_ascii(sys.stdout.encoding)
        print(report_text(report, width=_width(), color=_color(), ascii_only=plain))
    return 0


def inspect(args: argparse.Namespace) -> int:
    """Say what is in the inputs: ``m3probe inspect PATH...``."""
    from m3probe import pipeline
    from m3probe.present.json import inspect_json

    try:
        found = pipeline.inspect(_read(args))
    except M3ProbeError as error:
        if args.json:
            from m3probe.present.json import inspect_json

            print(inspect_json("unknown", "error", {}, [error.sentence()]))
        raise
    warnings = [note.text if not note.path else f"{note.path}: {note.text}" for note in found.warnings]
    if args.json:
        print(inspect_json(found.kind, found.outcome, found.facts, warnings))
    else:
        from m3probe.present.inspect_text import inspect_text

        print(inspect_text(found.kind, found.outcome, found.facts, warnings, width=_width()))
    return 0


def assert_(args: argparse.Namespace) -> int:
    """Judge rules: ``m3probe assert RULES PATH...``."""
    from m3probe import pipeline, rules
    from m3probe.present.verdict_text import judgement_json, judgement_text

    try:
        wanted = rules.load_rules(args.rules)
        rec = _read(args)
    except M3ProbeError as error:
        _junit_of(args, error.sentence())
        raise
    judgement = rules.judge(wanted, rec, pipeline.report(rec).answer)
    _junit_of(args, judgement)
    print(judgement_json(judgement) if args.json else judgement_text(judgement))
    return judgement.exit_code


def _junit_of(args: argparse.Namespace, result: Judgement | str) -> None:
    """Write the JUnit file; unread inputs are an error in it, so that no older file speaks for this run."""
    if args.junit is None:
        return
    from m3probe.present.junit import junit_unread, junit_xml

    text = junit_unread(str(args.rules), result) if isinstance(result, str) else junit_xml(result)
    _write(args.junit, text)


# --- reading and printing ----------------------------------------------------------------------------------


def _read(args: argparse.Namespace) -> Recording:
    from m3probe import pipeline
    from m3probe.present.progress import progress

    workload = _workload(args) if hasattr(args, "tp") else None
    with progress(enabled=not args.no_progress and sys.stderr.isatty()) as told:
        return pipeline.read(args.paths, workload, told)


def _workload(args: argparse.Namespace) -> Workload:
    from m3probe.pipeline import Workload

    return Workload(args.model_config, args.tp, args.ep)


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def _color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror})", where=str(path)) from error


def _fail(error: M3ProbeError) -> int:
    from m3probe.present.escape import safe

    print(f"m3probe: {safe(error.sentence())}", file=sys.stderr)
    return error.exit_code


def _fault(error: Exception) -> int:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="m3probe-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    print(
        f"m3probe: internal fault ({type(error).__name__}); the traceback is in {file.name}, please report it",
        file=sys.stderr,
    )
    return EXIT_FAULT
