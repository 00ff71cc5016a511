"""Where a server's configuration stands -> what was asked for: reads the command, the environment, the build, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.errors import UsageError
from m3probe.recipe import Ask
from m3probe.recipe.asked import Given
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import merged, read_any, read_command, read_environment
from m3probe.recipe.tuned import read_tables
from m3probe.schema.setup import Build
from m3probe.vllm_source import read_build


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
    return Ask(
        given=given,
        build=build,
        tree=server.vllm_path,
        model_config=server.model_config,
        gpu=server.gpu,
        tables=read_tables(server.tables, given.env),
    )


def _given(server: Server, build: Build) -> Given:
    known = Flags.of(build)
    if server.command and server.file:
        raise UsageError("a file and a command were given", next_move="Give a FILE, or the command after --")
    if server.command:
        given = read_command(server.command, known)
    elif server.file:
        given = read_any(server.file, known, server.service)
    else:
        raise UsageError("no command to judge", next_move="m3probe recipe -- vllm serve MODEL ..., or a FILE with it")
    if given.unknown_flags and build.rule("cli_flags").known:
        raise UsageError(
            f"vLLM {build.version or 'of this tree'} has no {', no '.join(given.unknown_flags)}",
            where="the vllm command",
            next_move="Correct it, or name the build with --vllm or --vllm-path",
        )
    return _with_env(given, server.env_file)


def _with_env(given: Given, file: Path | None) -> Given:
    """The file's variables below those of the command itself, but for those that a condition leaves open there."""
    if file is None:
        return given
    outer = read_environment(file)
    settled = {name for name in given.uncertain if name in outer.env}
    sure = {name: value for name, value in given.env.items() if name not in settled}
    both = merged(outer, replace(given, env=sure, uncertain=tuple(n for n in given.uncertain if n not in settled)))
    return replace(both, origins={**both.origins, **{name: outer.origins.get(name, str(file)) for name in settled}})
