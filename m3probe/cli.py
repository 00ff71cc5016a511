"""The command line: the only place that prints and exits. One function per verb."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from m3probe import __version__, _streams
from m3probe.errors import M3ProbeError, UsageError

if TYPE_CHECKING:
    from m3probe.model.judgement import Judgement
    from m3probe.model.recording import Recording
    from m3probe.pipeline import Workload

EXIT_USAGE = 2
EXIT_LOST = 3
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
MOST_RANKS = 4096

_EXITS = """exit status:
  0  inspect, analyze: read (findings never change it); assert: every rule holds
  1  assert: a rule failed
  2  usage, or contradictory or unknown names in a rules file; --junit cannot be written
  3  an input is missing, unreadable, or not what it should be; or stdout cannot be written
  4  assert: evidence missing or untrusted for some rule
 70  a fault of m3probe itself: one sentence, and where the traceback was written
130  interrupted (Ctrl-C)
"""


def main() -> int:
    """Run one verb of ``sys.argv`` and return its exit status."""
    # OpenBLAS starts its threads when numpy is imported and nothing here multiplies matrices: 0.15 -> 0.07 CPU s
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _streams.prepare()
    try:
        args = _parser().parse_args()
        verb: Callable[[argparse.Namespace], int] = args.verb
        _installed()
        return verb(args)
    except M3ProbeError as error:
        return _fail(error)
    except KeyboardInterrupt:
        _streams.complain("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        return _fault(error)


class _Parser(argparse.ArgumentParser):
    """Its words are escaped like all foreign text, and reach whatever stdout and stderr are."""

    def error(self, message: str) -> NoReturn:
        from m3probe.present.escape import safe

        _streams.put(sys.stderr, f"{self.format_usage()}{self.prog}: error: {safe(message)}\n")
        raise SystemExit(EXIT_USAGE)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        _streams.put(sys.stderr, message or "")
        raise SystemExit(_flushed(status))


def _parser() -> _Parser:
    parser = _Parser(
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
    check.add_argument("--junit", type=_path, metavar="FILE", help="also write a JUnit XML report")
    return parser


def _add(
    verbs: argparse._SubParsersAction[_Parser],
    name: str,
    words: str,
    verb: Callable[[argparse.Namespace], int],
    *,
    workload: bool = False,
    rules: bool = False,
) -> _Parser:
    parser = verbs.add_parser(name, help=words, description=words[:1].upper() + words[1:] + ".")
    parser.set_defaults(verb=verb)
    if rules:
        parser.add_argument("rules", type=_path, metavar="RULES", help="rules file (TOML, see docs/assert.md)")
    parser.add_argument("paths", type=_path, nargs="+", metavar="PATH", help="trace file, or folder of rank files")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-progress", action="store_true", help="no progress on stderr")
    if workload:
        parser.add_argument("--model-config", type=_path, metavar="FILE", help="the served model's config.json")
        parser.add_argument("--tp", type=_size, metavar="N", help="tensor parallel size of the run")
        parser.add_argument("--ep", type=_size, metavar="N", help="expert parallel size of the run")
    return parser


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing")  # Path("") would be the current folder
    return Path(text)


def _size(text: str) -> int:
    # ASCII: int() reads the digits of every script
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_RANKS)) and 1 <= int(text) <= MOST_RANKS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 1 to {MOST_RANKS:,}")
    return int(text)


# --- verbs -----------------------------------------------------------------------------------------------


def analyze(args: argparse.Namespace) -> int:
    """Answer the five questions: ``m3probe analyze PATH...``."""
    from m3probe import pipeline

    rec = _read(args)
    report = pipeline.report(rec)
    if args.json:
        from m3probe.present.json import report_json

        return _said(report_json(report))
    from m3probe.present.text import report_text, wants_ascii

    plain = wants_ascii(getattr(sys.stdout, "encoding", None))
    return _said(report_text(report, width=_width(), color=_color(), ascii_only=plain))


def inspect(args: argparse.Namespace) -> int:
    """Say what is in the inputs: ``m3probe inspect PATH...``."""
    from m3probe import pipeline
    from m3probe.present.json import inspect_json

    try:
        found = pipeline.inspect(_read(args))
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
    """Judge rules: ``m3probe assert RULES PATH...``."""
    from m3probe import pipeline, rules
    from m3probe.present.verdict_text import judgement_json, judgement_text

    _junit_begins(args)
    try:
        wanted = rules.load_rules(args.rules)
        rec = _read(args)
        judgement = rules.judge(wanted, rec, pipeline.report(rec).answer)
    except Exception as error:
        fault = f"internal fault of m3probe ({type(error).__name__})"
        _junit_of(args, error.sentence() if isinstance(error, M3ProbeError) else fault)
        raise
    status = _said(judgement_json(judgement) if args.json else judgement_text(judgement), judgement.exit_code)
    _junit_of(args, judgement)
    return status


# --- the JUnit file ------------------------------------------------------------------------------------------


def _junit_begins(args: argparse.Namespace) -> None:
    """Say "not judged" first: a path that cannot be written is told before the work, and no older file speaks for a
    run that is killed.
    """
    if args.junit is None:
        return
    there = _stat(args.junit)
    if there is not None:
        if stat.S_ISFIFO(there.st_mode) or stat.S_ISCHR(there.st_mode):
            return  # a pipe or device takes one report, not two
        for path in (args.rules, *args.paths):
            if (said := _stat(path)) is not None and os.path.samestat(said, there):
                raise UsageError("--junit would overwrite an input", where=str(path))
    _junit_of(args, "m3probe did not end: it was interrupted or killed before it had judged")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None  # whoever opens it says why


def _junit_of(args: argparse.Namespace, result: Judgement | str) -> None:
    """Write the report; a sentence, of what kept the rules from being judged, is an error in it."""
    if args.junit is None:
        return
    from m3probe.present.junit import junit_unread, junit_xml

    text = junit_unread(str(args.rules), result) if isinstance(result, str) else junit_xml(result)
    _write(args.junit, text)


# --- reading and printing ----------------------------------------------------------------------------------


def _installed() -> None:
    """Refuse to run from a source folder, where rooms are missing (`python -m m3probe` in the root)."""
    from m3probe.registry import room

    room("m3probe.analyzers")


def _read(args: argparse.Namespace) -> Recording:
    from m3probe import pipeline
    from m3probe.present.progress import progress

    workload = _workload(args) if hasattr(args, "tp") else None
    with progress(enabled=not args.no_progress and _streams.is_terminal(sys.stderr)) as told:
        return pipeline.read(args.paths, workload, told)


def _workload(args: argparse.Namespace) -> Workload:
    from m3probe.pipeline import Workload

    if args.tp and args.ep and args.ep > 1 and args.ep % args.tp:
        raise UsageError(
            f"--ep {args.ep} contradicts --tp {args.tp}: vLLM spreads the experts over tensor x data parallel ranks",
            next_move=f"Give a multiple of {args.tp}, or 1 for none",
        )
    return Workload(args.model_config, args.tp, args.ep)


def _said(text: str, status: int = 0) -> int:
    """Print the result. ``status`` is settled before: no closed pipe turns a failed rule into a pass."""
    return _flushed(status, f"{text}\n")


def _flushed(status: int, text: str = "") -> int:
    lost = _streams.put(sys.stdout, text)
    if lost:
        _streams.complain(f"stdout: {lost}.")
    return status or (EXIT_LOST if lost else 0)


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def _color() -> bool:
    return _streams.is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror})", where=str(path)) from error


def _fail(error: M3ProbeError) -> int:
    from m3probe.present.escape import safe

    _streams.complain(safe(error.sentence()))
    return error.exit_code


def _fault(error: Exception) -> int:
    import tempfile
    import traceback

    said = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    try:
        with tempfile.NamedTemporaryFile(prefix="m3probe-", suffix=".txt", delete=False) as file:
            file.write(said)
        where = f"the traceback is in {file.name}, please report it"
    except OSError as unwritten:
        where = f"its traceback could not be written ({unwritten.strerror or unwritten})"
    _streams.complain(f"internal fault ({type(error).__name__}); {where}")
    return EXIT_FAULT
