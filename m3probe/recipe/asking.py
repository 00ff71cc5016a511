"""Where a server's configuration stands -> what was asked for: reads the command, the environment, the build, tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.errors import UsageError
from m3probe.recipe import Ask
from m3probe.recipe.asked import Given, told
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import merged, read_any, read_command, read_environment
from m3probe.recipe.tuned import read_tables
from m3probe.schema.setup import Build
from m3probe.vllm_source import read_build, stated_version


@dataclass(frozen=True, slots=True)
class Server:
    """Where to look.

    Args:
        command: the words after ``--``; or ``file``: a script, compose or Kubernetes file with the command in it.
        service: which of several commands in ``file``.
        vllm: a release, or ``vllm_path``: a source tree; neither: the environment's vLLM.
        env_file: variables of the server beside the command's own.
        gpu: accelerator by file name.
        tables: tuned CSV files or folders of them.
    """

    command: Sequence[str] = ()
    file: Path | None = None
    service: str | None = None
    vllm: str | None = None
    vllm_path: Path | None = None
    env_file: Path | None = None
    gpu: str | None = None
    tables: Sequence[Path] = ()
    model_config: Path | None = None


def ask_of(server: Server) -> Ask:
    """Read everything that is named.

    Raises:
        UsageError: no command, or two; unknown flags.
        UnreadableInput: a file that is missing, damaged or something else.
    """
    build = read_build(server.vllm_path, server.vllm)
    given = _given(server, build)
    tables, lost = read_tables(server.tables, given.env)
    return Ask(
        given=told(given, *lost),
        build=build,
        named=server.vllm or stated_version(server.vllm_path),
        tree=server.vllm_path,
        model_config=server.model_config,
        gpu=server.gpu,
        tables=tables,
    )


def _given(server: Server, build: Build) -> Given:
    known = Flags.of(build)
    outer = read_environment(server.env_file) if server.env_file else Given()
    if server.command and server.file:
        raise UsageError("a file and a command were given", next_move="Give a FILE, or the command after --")
    if server.command and server.service:
        raise UsageError("--service chooses among the commands of a FILE", next_move="Leave it out")
    if server.command:
        given = read_command(server.command, known)
    elif server.file:
        given = read_any(server.file, known, server.service, outer.env)
    else:
        raise UsageError("no command to judge", next_move="m3probe recipe -- vllm serve MODEL ..., or a FILE with it")
    if given.unknown_flags and build.rule("cli_flags").known:
        raise UsageError(
            f"vLLM {build.version or 'of this tree'} has no {', no '.join(given.unknown_flags)}",
            where="the vllm command",
            next_move="Correct it, or name the build with --vllm or --vllm-path",
        )
    return _with_shell(_sized(_with_env(given, outer, server.env_file)))


# What rows and shapes hang on. A drafter's length decides the rows of every decode step.
SIZES = (
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--nnodes",
    "--speculative-config",
)


def _sized(given: Given) -> Given:
    """Every shape hangs on these: a size that the input does not tell is asked for, never taken as 1."""
    lost = [name for name in SIZES if name in given.uncertain and name not in given.flags]
    if not lost:
        return given
    said = [text for text in given.untold if text.startswith(lost[0])] or [f"{lost[0]} is not known"]
    raise UsageError(
        said[0],
        where="the vllm command",
        next_move="Give the variable in --env-file (NAME=value), or write the command after --",
    )


def _with_shell(given: Given) -> Given:
    """Variables of the shell that m3probe runs in are another process's: named, so that nobody thinks they count."""
    names = sorted(n for n in os.environ if n.startswith(("VLLM_", "AITER_")) and n not in given.env)
    return told(given, *(f"{name} is set in this shell and not in the input: it is not taken" for name in names))


def _with_env(given: Given, outer: Given, file: Path | None) -> Given:
    """The file's variables below those of the command itself, but for those that a condition leaves open there."""
    if file is None:
        return given
    settled = {name for name in given.uncertain if name in outer.env}
    sure = {name: value for name, value in given.env.items() if name not in settled}
    both = merged(outer, replace(given, env=sure, uncertain=tuple(n for n in given.uncertain if n not in settled)))
    return replace(both, origins={**both.origins, **{name: outer.origins.get(name, str(file)) for name in settled}})
