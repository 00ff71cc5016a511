"""What a command line gives a verb: the recording of its paths, and what the user says of the run and its server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe import _streams
from m3probe.errors import UsageError

if TYPE_CHECKING:
    from m3probe.model.recording import Recording
    from m3probe.recipe.asking import Server
    from m3probe.workload import Workload

_OF_A_SERVER = ("service", "vllm", "vllm_path", "env_file", "gpu", "tuned_table")


def read(args: argparse.Namespace) -> Recording:
    """The recording of the paths, with what the user says of the run.

    Raises:
        UnreadableInput: an input cannot be read.
        UsageError: two words contradict each other.
    """
    from m3probe import pipeline
    from m3probe.present.progress import progress

    known = workload(args, args.recipe) if hasattr(args, "tp") else None
    if hasattr(args, "record"):
        args.paths = [*args.paths, args.record()]
    with progress(enabled=not args.no_progress and _streams.is_terminal(sys.stderr)) as told:
        return pipeline.read(args.paths, known, told)


def workload(args: argparse.Namespace, recipe: Path | None) -> Workload:
    """What the user says of the run.

    Raises:
        UsageError: two words contradict each other, or say something of a server that was not given.
    """
    from m3probe.workload import Quality, Workload, sizes_fit

    sizes_fit(args.tp, args.ep)
    named = server(args, recipe) if recipe else None
    if named is None and (lone := [name for name in _OF_A_SERVER if getattr(args, name)]):
        raise UsageError(
            f"--{lone[0].replace('_', '-')} says something of a server that was not given",
            next_move="Give its script, compose or Kubernetes file with --recipe",
        )
    return Workload(args.model_config, args.tp, args.ep, named, Quality(args.eval, args.eval_baseline, args.cosine))


def server(args: argparse.Namespace, file: Path | None) -> Server:
    """What the user says of the server and its build."""
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


def inputs(args: argparse.Namespace) -> list[Path]:
    """Every file and folder that the command line names to be read."""
    single = ("rules", "recipe", "env_file", "model_config", "vllm_path", "eval", "eval_baseline", "cosine")
    named = (getattr(args, word, None) for word in (*single, "evals", "metric", "metric_baseline"))
    several = (each if isinstance(each, list) else [each] for each in named if each is not None)  # compare: one a run
    return [*args.paths, *args.tuned_table, *(path for paths in several for path in paths)]
