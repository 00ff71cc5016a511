"""Words of the command line that say how the server was started, and what its answers were worth."""

from __future__ import annotations

import argparse

from m3probe import _values


def add_known(parser: argparse.ArgumentParser) -> None:
    """What makes more than ``executed`` of a trace: the configuration it ran with, and what its answers were worth."""
    known = parser.add_argument_group("the server's configuration and the quality of its answers")
    known.add_argument(
        "--recipe", type=_values.path, metavar="FILE", help="script, compose or Kubernetes file that started it"
    )
    add_setup(known, gpu="the recording's own, else mi355x")
    known.add_argument(
        "--eval", type=_values.path, metavar="FILE", help="evaluation results (lm-eval, or vLLM's GSM8K JSON)"
    )
    known.add_argument(
        "--eval-baseline", type=_values.path, metavar="FILE", help="the same of a server that is known good"
    )
    known.add_argument(
        "--cosine", type=_values.path, metavar="FILE", help="cosines with a float32 reference, {name: value}"
    )


def add_setup(parser: argparse._ActionsContainer, *, gpu: str) -> None:
    """What a command line alone does not say of a server."""
    parser.add_argument(
        "--service",
        type=_values.word,
        metavar="NAME",
        help="which of several commands in FILE (its name, or its number)",
    )
    build = parser.add_mutually_exclusive_group()
    build.add_argument(
        "--vllm", type=_values.word, metavar="VERSION", help="judge by the bundled rules of this release"
    )
    build.add_argument("--vllm-path", type=_values.path, metavar="DIR", help="judge by the rules in this vLLM's source")
    parser.add_argument("--env-file", type=_values.path, metavar="FILE", help="environment of the server")
    parser.add_argument(
        "--gpu", type=_values.word, metavar="NAME", help=f"accelerator, such as mi355x or mi300x (default: {gpu})"
    )
    parser.add_argument(
        "--tuned-table",
        type=_values.path,
        action="append",
        default=[],
        metavar="PATH",
        help="tuned CSV, or a folder of them",
    )
