"""The input side of ``m3probe recipe``: whatever a user has, read without running anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.recipe.asked import Given, merged
from m3probe.recipe.command import read_command
from m3probe.recipe.containers import yaml_given
from m3probe.recipe.environment import environment_of, is_assignments, read_env_file, read_environment
from m3probe.recipe.flags import Flags
from m3probe.recipe.shell import script_given
from m3probe.recipe.text import MOST_BYTES, file_text
from m3probe.recipe.wording import Ground

__all__ = [
    "Given",
    "merged",
    "read_any",
    "read_command",
    "read_env_file",
    "read_environment",
    "read_script",
    "read_yaml",
]

_YAML = re.compile(r"(?m)^(?:services|kind|apiVersion|version|name|spec|containers|x-[\w-]+):(?:\s|$)|\A\s*[{\[]|\A---")
_ENV_YAML = re.compile(r"(?m)^(?:environment|env):(?:\s|$)|\A\s*- (?:name:|\w+=)")


def read_script(
    text: str,
    known: Flags,
    where: str = "script",
    *,
    service: str | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Given:
    """A shell script.

    Args:
        service: the number of the vllm command, where there are several.
        env: variables that hold when the script starts.
        folder: where the files that it names are looked up.

    Raises:
        UsageError: no vllm command, several and no choice, a quote that never ends, or words that vLLM refuses.
        UnreadableInput: the text is over 4 MiB, or a file that it names exists and cannot be read.
    """
    _bounded(text, where)
    start = Given(env=dict(env or {}), origins=dict.fromkeys(env or {}, "environment"))
    return script_given(text.replace("\r\n", "\n"), known, where, Ground(folder, service), start)


def read_yaml(
    text: str, known: Flags, where: str = "YAML", *, service: str | None = None, folder: Path | None = None
) -> Given:
    """A compose or Kubernetes file.

    Args:
        service: name or number of the service or container, where several start vllm.
        folder: where ``env_file`` is looked up.

    Raises:
        UsageError: nothing in it starts vllm, several do and none is chosen, or vLLM refuses the words.
        UnreadableInput: no YAML, over 4 MiB, or an alias bomb.
    """
    _bounded(text, where)
    return yaml_given(text, known, where, Ground(folder, service))


def read_any(path: Path, known: Flags, service: str | None = None, env: Mapping[str, str] | None = None) -> Given:
    """A file, its form told by its content: YAML, an env file (then only ``env`` is filled), or a script.

    Args:
        service: which of several commands.
        env: variables that hold when a script starts; the other forms name their own.

    Raises:
        UsageError: as ``read_script`` and ``read_yaml``.
        UnreadableInput: missing, no regular file, over 4 MiB, binary, not UTF-8, empty, or damaged YAML.
    """
    path = Path(path)
    text = file_text(path)
    where = str(path)
    if not text.strip():
        raise UnreadableInput("empty", where=where)
    if text.startswith("#!"):
        return read_script(text, known, where, service=service, env=env, folder=path.parent)
    if _ENV_YAML.search(text) and not _YAML.search(text):
        return environment_of(text, where)
    if _YAML.search(text):
        return read_yaml(text, known, where, service=service, folder=path.parent)
    if is_assignments(text):
        return environment_of(text, where)
    return read_script(text, known, where, service=service, env=env, folder=path.parent)


def _bounded(text: str, where: str) -> None:
    if len(text) > MOST_BYTES:
        raise UnreadableInput(f"larger than {MOST_BYTES // 1024**2} MiB", where=where)
