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
    from m3probe.recipe.asking import Server
    from m3probe.workload import Workload

EXIT_USAGE = 2
EXIT_LOST = 3
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
MOST_RANKS = 4096
MOST_TOKENS = 2**30

_OF_A_SERVER = ("service", "vllm", "vllm_path", "env_file", "gpu", "tuned_table")
_EXITS = """exit status:
  0  inspect, analyze, recipe: read (findings never change it); assert: every rule holds
  1  assert: a rule failed; recipe: a required path is not eligible
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
        words, command = _split(sys.argv[1:])
        args = _parser().parse_args(words)
        args.command = command
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


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """``recipe ... -- vllm serve ...``: what follows the first ``--`` is another program's command line."""
    if words[:1] != ["recipe"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


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
    _add_recipe(verbs)
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
        _add_known(parser)
    return parser


def _add_known(parser: _Parser) -> None:
    """What makes more than ``executed`` of a trace: the configuration it ran with, and what its answers were worth."""
    known = parser.add_argument_group("the server's configuration and the quality of its answers")
    known.add_argument("--recipe", type=_path, metavar="FILE", help="script, compose or Kubernetes file that started it")
    _add_setup(known)
    known.add_argument("--eval", type=_path, metavar="FILE", help="evaluation results (lm-eval, or vLLM's GSM8K JSON)")
    known.add_argument("--eval-baseline", type=_path, metavar="FILE", help="the same of a server that is known good")
    known.add_argument("--cosine", type=_path, metavar="FILE", help="cosines with a float32 reference, {name: value}")


def _add_recipe(verbs: argparse._SubParsersAction[_Parser]) -> None:
    words = "say what a server's command line allows, before anything runs"
    parser = verbs.add_parser(
        "recipe",
        help=words,
        description=words[:1].upper() + words[1:] + ".",
        usage="m3probe recipe [options] (FILE | -- vllm serve MODEL ...)",
    )
    parser.set_defaults(verb=recipe)
    parser.add_argument("file", type=_path, nargs="?", metavar="FILE", help="script, compose or Kubernetes file with the command")
    _add_setup(parser)
    parser.add_argument("--model-config", type=_path, metavar="FILE", help="the served model's config.json")
    parser.add_argument("--concurrency", type=_count, metavar="N", help="requests that decode together")
    parser.add_argument("--isl", type=_count, metavar="N", help="tokens of a prompt")
    parser.add_argument("--osl", type=_count, metavar="N", help="tokens of an answer")
    parser.add_argument("--spec", type=_count, metavar="K", help="drafted tokens, when the command does not say")
    parser.add_argument(
        "--require", action="append", default=[], metavar="PATH[:PHASE]", help="exit 1 unless this path is eligible"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_setup(parser: argparse._ActionsContainer) -> None:
    """What a command line alone does not say of a server."""
    parser.add_argument("--service", metavar="NAME", help="which of several commands in FILE (its name, or its number)")
    build = parser.add_mutually_exclusive_group()
    build.add_argument("--vllm", metavar="VERSION", help="judge by the bundled rules of this release")
    build.add_argument("--vllm-path", type=_path, metavar="DIR", help="judge by the rules in this vLLM's source")
    parser.add_argument("--env-file", type=_path, metavar="FILE", help="environment of the server")
    parser.add_argument("--gpu", metavar="NAME", help="accelerator, such as mi355x (the default) or mi300x")
    parser.add_argument(
        "--tuned-table", type=_path, action="append", default=[], metavar="PATH", help="tuned CSV, or a folder of them"
    )


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing")  # Path("") would be the current folder
    return Path(text)


def _size(text: str) -> int:
    return _whole(text, MOST_RANKS)


def _count(text: str) -> int:
    return _whole(text, MOST_TOKENS)


def _whole(text: str, most: int) -> int:
    # ASCII: int() reads the digits of every script
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 1 to {most:,}")
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


def recipe(args: argparse.Namespace) -> int:
    """Judge a configuration: ``m3probe recipe ... -- vllm serve MODEL ...``."""
    from dataclasses import replace

    from m3probe.recipe import recipe as judged
    from m3probe.recipe.asking import ask_of

    asked = ask_of(_server(args, args.file))
    said = {"concurrency": args.concurrency, "isl": args.isl, "osl": args.osl, "drafts": args.spec}
    report = judged(replace(asked, **said, require=args.require))
    failed = any(not held for _, held, _ in report.required)
    if args.json:
        from m3probe.present.json import recipe_json

        return _said(recipe_json(report), int(failed))
    from m3probe.present.recipe_text import recipe_text
    from m3probe.present.text import wants_ascii

    plain = wants_ascii(getattr(sys.stdout, "encoding", None))
    return _said(recipe_text(report, _width(), _color(), ascii_only=plain), int(failed))


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
    from m3probe.workload import Quality, Workload

    if args.tp and args.ep and args.ep > 1 and args.ep % args.tp:
        raise UsageError(
            f"--ep {args.ep} contradicts --tp {args.tp}: vLLM spreads the experts over tensor x data parallel ranks",
            next_move=f"Give a multiple of {args.tp}, or 1 for none",
        )
    server = _server(args, args.recipe) if args.recipe else None
    if server is None and (lone := [name for name in _OF_A_SERVER if getattr(args, name)]):
        raise UsageError(
            f"--{lone[0].replace('_', '-')} says something of a server that was not given",
            next_move="Give its script, compose or Kubernetes file with --recipe",
        )
    return Workload(args.model_config, args.tp, args.ep, server, Quality(args.eval, args.eval_baseline, args.cosine))


def _server(args: argparse.Namespace, file: Path | None) -> Server:
    from m3probe.recipe.asking import Server

    return Server(
        command=args.command,
        file=file,
        service=args.service,
        vllm=args.vllm,
        vllm_path=args.vllm_path,
        env_file=args.env_file,
        gpu=args.gpu,
        tables=args.tuned_table,
        model_config=args.model_config,
    )


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
