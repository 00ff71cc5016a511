"""The input side of ``m3probe recipe``: whatever a user has, read without running anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput, UsageError
from m3probe.recipe.asked import Given, merged
from m3probe.recipe.command import read_command
from m3probe.recipe.containers import yaml_given
from m3probe.recipe.environment import is_assignments, read_env_file, read_environment
from m3probe.recipe.flags import Flags
from m3probe.recipe.shell import looks_like_script, script_given
from m3probe.recipe.text import file_text, normal
from m3probe.recipe.wording import Ground, doorway
from m3probe.recipe.yamltext import load_written

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

_KEYED = re.compile(r"(?m)^[\w.-]+:(?:[ \t]|$)|\A\s*+[{\[]|\A---|\A\s*+- ")
"""What every YAML file of a server or an environment has somewhere; many scripts have it too."""
_KEY = re.compile(r"[\w./-]+")
_SERVICES = frozenset({"services", "kind", "apiVersion", "containers", "spec", "items"})


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
    start = Given(env=dict(env or {}), origins=dict.fromkeys(env or {}, "environment"))
    with doorway(where, "Give the vllm command after --"):
        return script_given(normal(text, where), known, where, Ground(folder, service), start)


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
    with doorway(where, "Give the vllm command after --"):
        return yaml_given(normal(text, where), known, where, Ground(folder, service))


def read_any(path: Path, known: Flags, service: str | None = None, env: Mapping[str, str] | None = None) -> Given:
    """A file with a server's command, its form told by its content: a compose or Kubernetes file, or a script.

    Args:
        service: which of several commands.
        env: variables that hold when a script starts; the other forms name their own.

    Raises:
        UsageError: as ``read_script`` and ``read_yaml``; an environment without a command.
        UnreadableInput: missing, no regular file, over 4 MiB, binary, not UTF-8, empty, or damaged YAML.
    """
    path = Path(path)
    where = str(path)
    with doorway(where, "Give the vllm command after --"):
        text = file_text(path)
        if not text.strip():
            raise UnreadableInput("empty", where=where)
        match _form(text, where):
            case _Form.ENVIRONMENT:
                said = "no vllm serve command in it"
                raise UsageError(said, where=where, next_move="An environment goes to --env-file")
            case _Form.YAML:
                return read_yaml(text, known, where, service=service, folder=path.parent)
            case _:
                return read_script(text, known, where, service=service, env=env, folder=path.parent)


class _Form(StrEnum):
    SCRIPT = "script"
    YAML = "yaml"
    ENVIRONMENT = "environment"


def _form(text: str, where: str) -> _Form:
    """What a text is.

    Raises:
        UnreadableInput: damaged YAML, and no script that starts a server.
    """
    if text.startswith("#!"):
        return _Form.SCRIPT
    if _KEYED.search(text):
        try:
            documents = load_written(text, where)
        except UnreadableInput:
            if looks_like_script(text, where):
                return _Form.SCRIPT
            raise
        form = _of_documents(documents)
        if form is not None:
            return form
    return _Form.ENVIRONMENT if is_assignments(text) else _Form.SCRIPT


def _of_documents(documents: Sequence[Any]) -> _Form | None:
    """YAML of mappings with names for keys; None for text that happens to be YAML, as most one-line scripts are."""
    mappings = [document for document in documents if isinstance(document, Mapping) and document]
    named = [document for document in mappings if all(_KEY.fullmatch(str(key)) for key in document)]
    if any(_SERVICES & set(map(str, document)) for document in named):
        return _Form.YAML
    if any(isinstance(document, list) and _lists_variables(document) for document in documents):
        return _Form.ENVIRONMENT
    if any(key in document for document in named for key in ("environment", "env")) and not any(
        key in document for document in named for key in ("command", "args")
    ):
        return _Form.ENVIRONMENT
    return _Form.YAML if named and len(named) == len(documents) else None


def _lists_variables(items: Sequence[Any]) -> bool:
    return bool(items) and all(
        "name" in item if isinstance(item, Mapping) else "=" in str(item) and " " not in str(item).partition("=")[0]
        for item in items
    )
