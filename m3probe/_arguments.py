"""The words of the command line: what each verb takes, and what a number or a path may be."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from m3probe import __version__, _streams, _values
from m3probe._export_words import add_export
from m3probe._html_words import add_html
from m3probe._setup_words import add_known, add_setup

EXIT_USAGE = 2
Verb = Callable[[argparse.Namespace], int]

_EXITS = """exit status:
  0  inspect, analyze, compare, recipe: read (findings never change it); assert: every rule holds; attach: recorded (losses said)
  1  assert: a rule failed; compare: what --require asks does not hold; recipe: a required path is not eligible;
     verify: a module is broken;
     doctor: a check ended in a word of --fail-on
  2  usage, or contradictory or unknown names in a rules file; --junit cannot be written
  3  an input is missing, unreadable, or not what it should be; or stdout or --html cannot be written; attach: nothing
     recorded
  4  assert: evidence missing or untrusted for some rule; compare: nothing tells what --require asks;
     verify: a rank cannot be verified
 70  a fault of m3probe itself: one sentence, and where the traceback was written
130  interrupted (Ctrl-C)
"""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """``recipe ... -- vllm serve ...``: what follows the first ``--`` is another program's command line.

    A file behind ``analyze --explain`` is an input and no finding.
    """
    for at, word in enumerate(words[1:], 1):
        if words[0] == "analyze" and words[at - 1] == "--explain" and (os.sep in word or Path(word).exists()):
            words = [*words[: at - 1], "--explain=", *words[at:]]
    if words[:1] != ["recipe"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


class Parser(argparse.ArgumentParser):
    """Its words are escaped like all foreign text, and reach whatever stdout and stderr are."""

    paths: argparse.Action | None = None
    """What is read; a verb that records a server itself needs none."""
    verbs: Mapping[str, argparse.ArgumentParser] | None = None
    """Of the whole command line alone: every verb's own parser."""

    def error(self, message: str) -> NoReturn:
        from m3probe.present.escape import safe

        said = f"{safe(message)}{self._nearest(message)}"
        _streams.put(sys.stderr, f"{self.format_usage()}{self.prog}: error: {said}\n")
        raise SystemExit(EXIT_USAGE)

    def _nearest(self, message: str) -> str:
        """``. Did you mean --html?``, or whose option it is; empty for what is like no word of any verb."""
        words = re.search(r"unrecognized arguments: .*?(--[^\s=]+)|invalid choice: '([a-z]+)'", message, re.DOTALL)
        if not words or not self.verbs:
            return ""
        asked = words[1] or words[2]
        options = {name: re.findall(r"--[a-z][a-z-]+", verb.format_help()) for name, verb in self.verbs.items()}
        owners = [name for name, known in options.items() if asked in known]
        if owners:
            return f". {asked} is an option of {', '.join(owners)}"
        known = sorted({word for each in options.values() for word in each}) if words[1] else [*self.verbs]
        near = difflib.get_close_matches(asked[:80], known, 1, 0.7)
        return f". Did you mean {near[0]}?" if near else ""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        _streams.put(sys.stderr, message or "")
        raise SystemExit(_streams.finish(status))


def parser_of(verbs_: Mapping[str, Verb]) -> Parser:
    """The whole command line; ``verbs_``: name -> function."""
    parser = Parser(
        prog="m3probe",
        description="Evidence about where a vLLM server's time goes, and whether its fast paths ran.",
        epilog=_EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"m3probe {__version__}")
    verbs = parser.add_subparsers(required=True)
    parser.verbs = verbs.choices
    asked = _add(verbs, "analyze", "answer the five questions from a trace and name the next bottleneck", workload=True)
    asked.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="FINDING",
        help="print the arithmetic of the ranking, or of one finding, in place of the report",
    )
    add_html(asked)
    _add(verbs, "inspect", "say what is in a file and whether it can be trusted")
    check = _add(verbs, "assert", "check rules against a trace (for CI)", workload=True, rules=True)
    _add_live(check)
    _add_outputs(check)
    _add_triple(check)
    _add_compare(verbs)
    _add_recipe(verbs)
    _add_attach(verbs)
    _add_verify(verbs)
    _add_doctor(verbs)
    _add_tui(verbs)
    add_export(_add(verbs, "export", "write files that other tools open: time lines and tables", workload=True))
    for name, verb in verbs_.items():
        verbs.choices[name].set_defaults(verb=verb)
    return parser


def _add(
    verbs: argparse._SubParsersAction[Parser],
    name: str,
    words: str,
    *,
    workload: bool = False,
    rules: bool = False,
) -> Parser:
    parser = verbs.add_parser(name, help=words, description=words[:1].upper() + words[1:] + ".")
    if rules:
        parser.add_argument("rules", type=_values.path, metavar="RULES", help="rules file (TOML, see docs/assert.md)")
    words = "trace, folder of rank files, recording, or a server's log"
    parser.paths = parser.add_argument("paths", type=_values.path, nargs="+", metavar="PATH", help=words)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-progress", action="store_true", help="no progress on stderr")
    if workload:
        parser.add_argument("--model-config", type=_values.path, metavar="FILE", help="the served model's config.json")
        parser.add_argument("--tp", type=_values.size, metavar="N", help="tensor parallel size of the run")
        parser.add_argument("--ep", type=_values.size, metavar="N", help="expert parallel size of the run")
        add_known(parser)
    return parser


def _add_outputs(parser: Parser) -> None:
    parser.add_argument("--junit", type=_values.path, metavar="FILE", help="also write a JUnit XML report")
    parser.add_argument(
        "--github",
        action=argparse.BooleanOptionalAction,
        help="annotations and a step summary (default: in GitHub Actions)",
    )


def _add_triple(parser: Parser) -> None:
    triple = parser.add_argument_group("the triple of a pass: output right, path executed, end-to-end metric better")
    triple.add_argument("--triple", action="store_true", help="ask for all three; a missing leg is exit 4")
    triple.add_argument("--metric", type=_values.path, metavar="FILE", help="benchmark result of this run")
    triple.add_argument("--metric-baseline", type=_values.path, metavar="FILE", help="the same of the run it must beat")


def _add_compare(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "hold runs against the first one: what they share, what differs, and what may be credited"
    parser = verbs.add_parser("compare", help=words, description=words[:1].upper() + words[1:] + ".")
    named = "file or folder of one run: trace, recording, benchmark result, server log; a folder may hold them all"
    parser.add_argument("paths", type=_values.path, nargs="*", metavar="RUN", help=named)
    parser.add_argument(
        "--run", nargs="+", action="append", default=[], metavar=("NAME", "PATH"), help="a run of several files, named"
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="WORD",
        help="same-contract, faster, or executed:PATH (in every run but the first): exit 1 unless it holds, 4 unproven",
    )
    gate = (
        "try a gate: the later run's way from N rows on, over the recorded histogram of every operation that both timed"
    )
    parser.add_argument("--gate", type=_values.count, metavar="N", help=gate)
    parser.add_argument("--explain", action="store_true", help="with the arithmetic, and everything that was matched")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_html(parser)
    parser.add_argument("--no-progress", action="store_true", help="no progress on stderr")
    known = parser.add_argument_group("the configuration of the runs (once for all of them, or --recipe once for each)")
    known.add_argument("--model-config", type=_values.path, metavar="FILE", help="the served model's config.json")
    known.add_argument("--tp", type=_values.size, metavar="N", help="tensor parallel size")
    known.add_argument("--ep", type=_values.size, metavar="N", help="expert parallel size")
    known.add_argument(
        "--recipe", type=_values.path, action="append", default=[], metavar="FILE",
        help="script, compose or Kubernetes file that started it",
    )  # fmt: skip
    add_setup(known, gpu="the recording's own, else mi355x")
    words = "evaluation results, once for each run: how far apart accuracies of equal servers may be"
    known.add_argument(
        "--eval", type=_values.path, action="append", default=[], dest="evals", metavar="FILE", help=words
    )
    parser.set_defaults(command=[], eval=None, eval_baseline=None, cosine=None)


def _add_recipe(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "say what a server's command line allows, before anything runs"
    parser = verbs.add_parser(
        "recipe",
        help=words,
        description=words[:1].upper() + words[1:] + ".",
        usage="m3probe recipe [options] (FILE | -- vllm serve MODEL ... | --explain PATH)",
    )
    parser.add_argument(
        "file", type=_values.path, nargs="?", metavar="FILE", help="script, compose or Kubernetes file with the command"
    )
    add_setup(parser, gpu="mi355x")
    parser.add_argument("--model-config", type=_values.path, metavar="FILE", help="the served model's config.json")
    parser.add_argument(
        "--concurrency",
        type=_values.count,
        action="append",
        metavar="N",
        help="requests that decode together; may be repeated",
    )
    parser.add_argument("--isl", type=_values.count, metavar="N", help="tokens of a prompt")
    parser.add_argument("--osl", type=_values.count, metavar="N", help="tokens of an answer")
    parser.add_argument("--spec", type=_values.count, metavar="K", help="drafted tokens, when the command does not say")
    parser.add_argument(
        "--require", action="append", default=[], metavar="PATH[:PHASE]", help="exit 1 unless this path is eligible"
    )
    parser.add_argument(
        "--fail-on-warnings", action="store_true", help="exit 1 when something in the setup does not do what it says"
    )
    parser.add_argument(
        "--explain", type=_values.word, metavar="PATH", help="print what the catalogue says of one fast path"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


class _Live(argparse.Action):
    """With a server to record no PATH is needed; ``nargs="*"`` from the start would take none before the first option."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        setattr(namespace, self.dest, values)
        if isinstance(parser, Parser) and parser.paths is not None:
            parser.paths.nargs = "*"


def _add_live(parser: Parser) -> None:
    """How ``assert`` records a running server; the words are those of ``attach``."""
    live = parser.add_argument_group("judge a running server: record it, give everything back, then judge")
    words = "record this server first"
    live.add_argument("--live", type=_values.target, action=_Live, dest="target", metavar="URL|PID|auto", help=words)
    parser.set_defaults(once=False, eager_twin=None, full_rows=None, routing=False, overlap=False)  # attach's alone
    live.add_argument("--steps", type=_values.count, metavar="N", help="for N steps of the engine (default: 200)")
    live.add_argument("--seconds", type=_values.seconds, metavar="N", help="for N seconds")
    live.add_argument(
        "--out", type=_values.path, metavar="DIR", help="keep the recording there (default: where a rule fails)"
    )
    _add_reach(live)
    live.add_argument(
        "--profile-steps",
        type=_values.count,
        metavar="N",
        help="with N steps under the profiler: kernels for the rules",
    )
    live.add_argument("--force-profiler", action="store_true", help="also on a build that is known to hang")


def _add_reach(parser: argparse._ActionsContainer) -> None:
    """How a running server is reached and recorded."""
    _add_url(parser)
    parser.add_argument(
        "--inject", action="store_true", help="put m3probe into processes that were started without it (ptrace)"
    )
    parser.add_argument("--take-over", action="store_true", help="end another one's recording first")


def _add_url(parser: argparse._ActionsContainer) -> None:
    """How an address is asked."""
    parser.add_argument(
        "--header", type=_values.header, action="append", default=[], metavar="'NAME: VALUE'", help="for a URL"
    )
    parser.add_argument("--cacert", type=_values.path, metavar="FILE", help="certificates to trust for https")


def _add_attach(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "record a running server: by its address, its pid, or `auto`"
    parser = verbs.add_parser("attach", help=words, description=words[:1].upper() + words[1:] + ".")
    parser.add_argument(
        "target", type=_values.target, metavar="URL|PID|auto", help="http(s)://HOST:PORT, a pid, or auto"
    )
    end = parser.add_argument_group("until when (without either: Ctrl-C)")
    end.add_argument("--seconds", type=_values.seconds, metavar="N", help="end after N seconds")
    end.add_argument("--steps", type=_values.count, metavar="N", help="end after N steps of the engine")
    parser.add_argument(
        "--out", type=_values.path, metavar="DIR", help="folder of the recording (default: a new one here)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="look and tell, record nothing")
    how.add_argument("--tui", action="store_true", help="look into it in the terminal while it is recorded")
    how.add_argument(
        "--serve",
        type=_values.address,
        metavar="[HOST]:PORT",
        help="meanwhile: findings as Prometheus gauges (default: localhost)",
    )
    _add_reach(parser)
    _add_drawn(parser)
    more = parser.add_argument_group("more evidence, at a cost that is told first")
    more.add_argument(
        "--full-rows", type=_values.seconds, metavar="S", help="keep one row for each step, for S seconds"
    )
    more.add_argument("--routing", action="store_true", help="sample which experts rows go to")
    more.add_argument("--overlap", action="store_true", help="and how far neighbouring sparse layers agree")
    more.add_argument(
        "--eager-twin", type=_values.count, metavar="N", help="N steps without graph replay, on all ranks at once"
    )
    more.add_argument(
        "--profile-steps", type=_values.count, metavar="N", help="N steps under the profiler, on all ranks at once"
    )
    more.add_argument("--force-profiler", action="store_true", help="also on a build that is known to hang")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--no-progress", action="store_true", help="no progress on stderr")


def _add_verify(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "recompute one module of a running server in float32 and compare"
    parser = verbs.add_parser("verify", help=words, description=words[:1].upper() + words[1:] + ".")
    parser.add_argument(
        "target", type=_values.target, nargs="?", default="auto", metavar="PID|auto", help="default: auto"
    )
    parser.add_argument("--module", type=_values.word, required=True, metavar="NAME", help="such as model.layers.3.mlp")
    parser.add_argument(
        "--wait", type=_values.seconds, default=60.0, metavar="S", help="for an eager step (default: 60)"
    )
    parser.add_argument("--out", type=_values.path, metavar="DIR", help="keep the recording there")
    parser.add_argument("--take-over", action="store_true", help="end another one's recording first")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_doctor(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "say whether this host is ready to serve and to be recorded"
    parser = verbs.add_parser("doctor", help=words, description=words[:1].upper() + words[1:] + ".")
    parser.add_argument(
        "--concurrency", type=_values.count, metavar="N", help="hold limits against so many requests at once"
    )
    parser.add_argument(
        "--fail-on",
        nargs="+",
        default=[],
        choices=("warn", "bad", "unknown"),
        metavar="WORD",
        help="exit 1 where a check ends in one of: bad, warn (which takes bad too), unknown",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_tui(verbs: argparse._SubParsersAction[Parser]) -> None:
    words = "look into a recording or a running server in the terminal"
    parser = verbs.add_parser("tui", help=words, description=words[:1].upper() + words[1:] + ".")
    what = "trace, folder of rank files, recording, server's log; or one http(s)://HOST:PORT or pid to watch"
    parser.add_argument("paths", type=_values.word, nargs="+", metavar="PATH|URL|PID", help=what)
    parser.add_argument("--compare", action="store_true", help="each PATH is a run; hold them against the first")
    _add_drawn(parser)
    live = parser.add_argument_group("a running server")
    live.add_argument("--out", type=_values.path, metavar="DIR", help="folder of what is recorded of it")
    _add_reach(live)
    parser.add_argument("--model-config", type=_values.path, metavar="FILE", help="the served model's config.json")
    parser.add_argument("--tp", type=_values.size, metavar="N", help="tensor parallel size of the run")
    parser.add_argument("--ep", type=_values.size, metavar="N", help="expert parallel size of the run")
    add_known(parser)


def _add_drawn(parser: Parser) -> None:
    shown = parser.add_argument_group("how screens are drawn")
    shown.add_argument("--ascii", action="store_true", help="ASCII only (default where the locale is not UTF-8)")
    shown.add_argument("--light", action="store_true", help="for a terminal with a light ground")
