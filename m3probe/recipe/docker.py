"""``docker run`` and ``docker exec``: the container's variables and the command inside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from m3probe.errors import UsageError
from m3probe.recipe.asked import Word, cut
from m3probe.recipe.environment import docker_lines
from m3probe.recipe.text import existing_text
from m3probe.recipe.wording import Ground

TOOLS = frozenset({"docker", "podman", "nerdctl"})
VERBS = frozenset({"run", "create", "exec"})
_SHORT_SWITCHES = frozenset("ditPq")
_SWITCHES = frozenset(
    {
        "--detach", "--disable-content-trust", "--init", "--interactive", "--no-healthcheck", "--oom-kill-disable",
        "--privileged", "--publish-all", "--quiet", "--read-only", "--replace", "--rm", "--sig-proxy", "--tty", "--help",
    }
)  # fmt: skip


@dataclass(slots=True)
class Inside:
    """The container: its variables, as far as the command tells (the image's own are not known), and its words."""

    env: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


@dataclass(slots=True)
class _Options:
    env: list[Word] = field(default_factory=list)
    files: list[Word] = field(default_factory=list)
    entrypoint: Word | None = None
    image: Word | None = None


def is_container_tool(names: Sequence[str]) -> bool:
    """Whether the words start or contain a container program."""
    return any(name in TOOLS for name in names)


def run_in_container(words: Sequence[Word], outer: Mapping[str, str], ground: Ground) -> Inside:
    """Read ``docker run [OPTIONS] IMAGE [ARGS]``.

    Args:
        outer: the caller's variables, which ``-e NAME`` hands in.

    Raises:
        UsageError: another verb, or no image.
        UnreadableInput: an env file that exists and cannot be read.
    """
    options, inner = _inner(words)
    inside = Inside(words=inner)
    if options.image is not None and not options.image.known and options.image.splits:
        said = f"{cut(options.image.text)} stands where the image does and may hand in variables"
        inside.untold.append(f"{said}: {options.image.why}")
    _env_files(options, inside, ground)
    for word in options.env:
        _variable(word, outer, inside)
    return inside


def inner_words(words: Sequence[Word]) -> list[Word]:
    """The words that run inside; a UsageError as ``run_in_container`` raises it."""
    return _inner(words)[1]


def _inner(words: Sequence[Word]) -> tuple[_Options, list[Word]]:
    verb = next((i for i, word in enumerate(words[:4]) if word.text in VERBS), None)
    if verb is None:
        raise UsageError("only docker run, create and exec start a command", where=words[0].where)
    options = _Options()
    at = _past_options(words, verb + 1, options)
    if at >= len(words):
        raise UsageError(
            "docker names no image", where=words[0].where, next_move="Give docker run IMAGE vllm serve ..."
        )
    options.image = words[at]
    rest = list(words[at + 1 :])
    return options, rest if words[verb].text == "exec" else _entered(words[at], rest, options.entrypoint)


def _past_options(words: Sequence[Word], at: int, options: _Options) -> int:
    """The index of the image."""
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        word = words[at]
        name, equals, inline = word.text.partition("=")
        if word.text == "--":
            return at + 1
        if not name.startswith("--"):
            name, equals, inline = _short(word.text)
        elif name in _SWITCHES:
            at += 1
            continue
        if not name:
            at += 1
            continue
        value = replace(word, text=inline) if equals else words[at + 1] if at + 1 < len(words) else None
        if value is None:
            raise UsageError(f"{cut(word.text)} has no value", where=word.where, next_move="Give it one")
        _take(name, value, options)
        at += 1 if equals else 2
    return at


def _short(text: str) -> tuple[str, str, str]:
    """``-it`` is two switches; ``-eA=1``, ``-e=A=1`` and ``-ite A=1`` end in an option with a value."""
    for place, letter in enumerate(text[1:], start=1):
        if letter not in _SHORT_SWITCHES:
            rest = text[place + 1 :].removeprefix("=")
            return f"-{letter}", "=" if rest else "", rest
    return "", "", ""


def _take(name: str, value: Word, options: _Options) -> None:
    if name in ("-e", "--env"):
        options.env.append(value)
    elif name == "--env-file":
        options.files.append(value)
    elif name == "--entrypoint":
        options.entrypoint = value


def _env_files(options: _Options, inside: Inside, ground: Ground) -> None:
    for file in options.files:
        text = existing_text(ground.file(file.text)) if file.known else None
        if text is None:
            why = file.why or f"{cut(file.text)} is not at hand"
            inside.untold.append(f"the variables of --env-file are not known: {why} ({file.where})")
            continue
        found = docker_lines(text, file.text)
        inside.env |= found.env
        inside.origins |= found.origins
        inside.untold += found.untold
        inside.uncertain += found.uncertain


def _variable(word: Word, outer: Mapping[str, str], inside: Inside) -> None:
    name, equals, value = word.text.partition("=")
    inside.origins[name] = word.where
    if not equals and not word.known:
        inside.untold.append(f"a variable is handed in whose name is not known: {word.why}")
        inside.origins.pop(name)
    elif equals and word.known:
        inside.env[name] = value
    elif not equals and name in outer:
        inside.env[name] = outer[name]
    else:
        inside.env.pop(name, None)
        inside.uncertain.append(name)
        why = word.why or f"it is handed in from the caller's environment ({word.where})"
        inside.untold.append(f"{cut(name)} is not known: {why}")


def _entered(image: Word, rest: list[Word], entrypoint: Word | None) -> list[Word]:
    """What the container runs: vLLM's own images start ``vllm serve`` with the words behind the image.

    Source: ENTRYPOINT of vLLM's Dockerfile and Dockerfile.rocm.
    """
    if entrypoint is not None and entrypoint.text:
        try:
            head = shlex.split(entrypoint.text)
        except ValueError as error:
            raise UsageError(f"--entrypoint: {error}", where=entrypoint.where) from error
        return [*(replace(entrypoint, text=text) for text in head), *rest]
    return served_by(image.text, rest, image.where) if entrypoint is None else rest


def served_by(image: str, rest: list[Word], where: str) -> list[Word]:
    """The words of a container without an entrypoint of its own: the image's, when it is one of vLLM's servers."""
    name = re.split("[:@]", image.rsplit("/", 1)[-1], maxsplit=1)[0]
    program = rest[0].text.rsplit("/", 1)[-1] if rest else ""
    own = program.startswith("python") or program in ("vllm", "bash", "sh", "env", "numactl", "exec")
    if name.startswith("vllm-openai") and not own:
        return [Word("vllm", where), Word("serve", where), *rest]
    return rest
