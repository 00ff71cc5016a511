"""Words of the command line that say how a server is recorded, or which runs are compared, as what they ask for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe.errors import UsageError

if TYPE_CHECKING:
    from m3probe.attach.asked import Asked

_OF_LIVE = (
    "steps", "seconds", "out", "header", "cacert", "inject", "take_over", "profile_steps", "force_profiler",
)  # fmt: skip


def is_live(args: argparse.Namespace) -> bool:
    """Whether a server is to be recorded first."""
    if args.target:
        return True
    alone = [name for name in _OF_LIVE if getattr(args, name)]
    if alone:
        option = f"--{alone[0].replace('_', '-')}"
        raise UsageError(f"{option} says how a running server is recorded", next_move="Name it with --live")
    return False


def asked(args: argparse.Namespace) -> Asked:
    """How ``attach``, or ``assert --live``, is to record.

    Raises:
        UsageError: screens and JSON at once.
    """
    from m3probe.attach.asked import Asked

    if getattr(args, "tui", False) and args.json:
        raise UsageError("--tui draws screens and --json prints for machines", next_move="Leave one of them out")
    return Asked(
        target=args.target,
        seconds=args.seconds,
        steps=args.steps,
        out=args.out,
        once=args.once,
        headers=dict(args.header),
        cacert=args.cacert,
        inject=args.inject,
        take_over=args.take_over,
        twin=args.eager_twin,
        profile=args.profile_steps,
        force_profiler=args.force_profiler,
        full_rows_s=args.full_rows or 0.0,
        routing=args.routing,
        overlap=args.overlap,
    )


def runs_of(args: argparse.Namespace) -> list[tuple[str, tuple[Path, ...]]]:
    """(name, paths) of each run: the bare words first, then each ``--run NAME PATH...``.

    Raises:
        UsageError: a run without a file, or two of one name.
    """
    runs: list[tuple[str, tuple[Path, ...]]] = [("", (path,)) for path in args.paths]
    for name, *paths in args.run:
        if not paths or not name.strip() or not all(paths):
            raise UsageError("--run takes a name and one path or more", next_move="--run after bench.json server.log")
        if any(name == told for told, _ in runs):
            raise UsageError(f"two runs are called {name[:80]}", next_move="Give each --run a name of its own")
        runs.append((name, tuple(map(Path, paths))))
    return runs


def recipes_of(args: argparse.Namespace, runs: int) -> list[Path | None]:
    """The configuration of each run: none, one for all, or one each.

    Raises:
        UsageError: another number of them.
    """
    said: list[Path] = args.recipe
    if len(said) not in (0, 1, runs):
        raise UsageError(
            f"{len(said)} --recipe for {runs} runs",
            next_move="Give one for all of them, or one for each in their order",
        )
    return list(said) if len(said) == runs else [said[0] if said else None] * runs


def evals_of(args: argparse.Namespace, runs: int) -> list[Path | None]:
    """The evaluation of each run, or none at all: one stands for one server.

    Raises:
        UsageError: another number of them.
    """
    said: list[Path] = args.evals
    if len(said) not in (0, runs):
        raise UsageError(f"{len(said)} --eval for {runs} runs", next_move="Give one for each in their order")
    return list(said) or [None] * runs
