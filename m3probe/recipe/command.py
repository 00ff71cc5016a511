"""A command as its program would get it -> Given: what stands before ``vllm serve``, then vLLM's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, Word, cut, merged, sentences, told
from m3probe.recipe.docker import inner_words, is_container_tool, run_in_container
from m3probe.recipe.flags import Flags
from m3probe.recipe.serve import read_serve
from m3probe.recipe.wording import DEEPEST, Ground, doorway

ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh"})
API_SERVER = "vllm.entrypoints.openai.api_server"
CLI_MAIN = "vllm.entrypoints.cli.main"
SPEAKS = frozenset(
    {"echo", "printf", "grep", "egrep", "pgrep", "pkill", "killall", "ps", "cat", "which", "pip", "pip3", "man", "log"}
)
"""Programs that only name the command."""
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_PASSES = frozenset({"exec", "nohup", "sudo", "time", "command"})
_VALUED = {"-u", "--unset", "-C", "--chdir"}


@dataclass(slots=True)
class Launch:
    """What stands before the server's own words."""

    env: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)

    def put(self, name: str, value: Word) -> None:
        """Set one variable."""
        self.origins[name] = value.where
        if value.known:
            self.env[name] = value.text
            return
        self.env.pop(name, None)
        self.uncertain.append(name)
        self.untold.append(f"{cut(name)} is not known: {value.why}")

    def assign(self, word: Word) -> None:
        """Set a variable from ``NAME=value``."""
        name, _, value = word.text.partition("=")
        self.put(name, replace(word, text=value))

    def given(self) -> Given:
        """The environment alone."""
        return Given(
            env=dict(self.env),
            origins=dict(self.origins),
            untold=sentences(self.untold),
            uncertain=tuple(dict.fromkeys(self.uncertain)),
        )


def name_of(word: Word) -> str:
    """The program that a word names, without its folder."""
    return word.text.rsplit("/", 1)[-1]


def names_server(words: Sequence[str], depth: int = 0) -> bool:
    """Whether these words look like a command that starts the server (or a shell or container with one in it)."""
    names = [text.rsplit("/", 1)[-1] for text in words]
    if not names or names[0] in SPEAKS:
        return False
    if any(pair == ("vllm", "serve") for pair in pairwise(names)) or API_SERVER in words:
        return True
    inner = any(flag.startswith("-") and flag.endswith("c") for flag in words) and any(n in SHELLS for n in names)
    if inner and any(re.search(r"\bvllm\s+serve\b|" + re.escape(API_SERVER), text) for text in words):
        return True
    at = next((number for number, name in enumerate(names) if is_container_tool([name])), None)
    return at is not None and depth < DEEPEST and _container_serves(words[at:], depth)


def _container_serves(words: Sequence[str], depth: int) -> bool:
    try:
        inner = inner_words([Word(text, "") for text in words])
    except UsageError:
        return False
    return len(inner) < len(words) and names_server([word.text for word in inner], depth + 1)


def from_words(words: Sequence[Word], known: Flags, ground: Ground, env: Given | None = None) -> Given:
    """Read one command.

    Args:
        env: what the environment holds before the command's own assignments.

    Raises:
        UsageError: there is no vllm command in it, or vLLM would refuse it.
        UnreadableInput: a file that it names exists and cannot be read.
    """
    start = env or Given()
    launch = Launch(dict(start.env), dict(start.origins), list(start.untold), list(start.uncertain))
    at, direct = 0, True
    while at < len(words):
        word, name = words[at], name_of(words[at])
        if ASSIGNED.match(word.text):
            _assignment(word, launch, direct=direct)
            at += 1
        elif name in SPEAKS:
            break
        elif name == "env" and word.known:
            at, direct = _past_env(words, at + 1, launch), True
        elif name in SHELLS and word.known:
            return _shell(words, at, known, ground, launch)
        elif is_container_tool([name]):
            return _container(words[at:], known, ground, launch)
        else:
            if served := _server_at(words, at):
                given = read_serve(words[served[0] :], known, ground, module=served[1])
                return merged(launch.given(), given)
            if not word.known:
                launch.untold.append(f"{cut(word.text)} stands before the command and is not known: {word.why}")
            at, direct = at + 1, direct and name in _PASSES
    where = words[0].where if words else ""
    raise UsageError("no vllm serve command in it", where=where, next_move="Give vllm serve MODEL ...")


def _assignment(word: Word, launch: Launch, *, direct: bool) -> None:
    if direct:
        launch.assign(word)
    else:
        launch.untold.append(f"{word.text[:80]} stands behind another program and is not taken ({word.where})")


def _past_env(words: Sequence[Word], at: int, launch: Launch) -> int:
    """The index behind ``env``'s own options and assignments."""
    while at < len(words):
        text = words[at].text
        if text in ("-i", "-", "--ignore-environment"):
            launch.env.clear()
        elif text in _VALUED:
            at += 1
            if at < len(words) and text in ("-u", "--unset"):
                launch.env.pop(words[at].text, None)
        elif text.startswith("--unset="):
            launch.env.pop(text.partition("=")[2], None)
        elif ASSIGNED.match(text):
            launch.assign(words[at])
        elif not words[at].known and at + 1 < len(words):
            launch.untold.append(f"{cut(text)} may set variables that are not known: {words[at].why}")
        elif not text.startswith("-"):
            return at
        at += 1
    return at


def _server_at(words: Sequence[Word], at: int) -> tuple[int, bool] | None:
    """(index of the server's first own word, whether it is the module) when the server starts at this word."""
    name = name_of(words[at])
    following = [word.text for word in words[at + 1 : at + 12]]
    if name == "vllm":
        return (at + 2, False) if following[:1] == ["serve"] else None
    if not _PYTHON.fullmatch(name):
        return None
    for offset, text in enumerate(following):
        if text == "-m":
            module = following[offset + 1 : offset + 3]
            if module[:1] == [API_SERVER]:
                return at + offset + 3, True
            return (at + offset + 4, False) if module == [CLI_MAIN, "serve"] else None
        if not text.startswith("-"):
            return None
    return None


def _shell(words: Sequence[Word], at: int, known: Flags, ground: Ground, launch: Launch) -> Given:
    """``bash -c 'TEXT'``: the text is a script of its own."""
    from m3probe.recipe.shell import script_given

    for offset in range(at + 1, len(words)):
        text = words[offset].text
        if re.fullmatch(r"-[a-z]*c[a-z]*", text) and offset + 1 < len(words):
            inner = words[offset + 1]
            if not inner.known:
                raise UsageError(f"the shell's command is not known: {inner.why}", where=inner.where)
            return script_given(inner.text, known, inner.where, ground.deeper(), launch.given())
        if not text.startswith("-") and not (offset > at + 1 and words[offset - 1].text in ("-o", "-O")):
            break
    raise UsageError(
        "a shell runs a file or its input here, not a command",
        where=words[at].where,
        next_move="Give m3probe that file",
    )


def _container(words: Sequence[Word], known: Flags, ground: Ground, launch: Launch) -> Given:
    """Inside a container the caller's variables are those that ``-e`` hands in."""
    inside = run_in_container(words, launch.env, ground)
    given = Given(
        env=inside.env,
        origins=inside.origins,
        uncertain=tuple(inside.uncertain),
    )
    return told(from_words(inside.words, known, ground.deeper(), given), *launch.untold, *inside.untold)


def read_command(
    words: Sequence[str], known: Flags, where: str = "command line", *, env: Mapping[str, str] | None = None
) -> Given:
    """A command that the shell has already split, as it stands behind ``--``.

    Args:
        words: ``vllm serve ...``, with assignments, ``env``, ``numactl``, ``bash -c`` or ``docker run`` before it.
        known: the flags of the build.
        env: variables that hold before it.

    Raises:
        UsageError: no vllm command, two models, unknown flags of a known build, or a value that vLLM refuses.
        UnreadableInput: a file that it names exists and cannot be read.
    """
    start = Given(env=dict(env or {}), origins=dict.fromkeys(env or {}, "environment"))
    with doorway(where, "Give vllm serve MODEL ..."):
        return from_words([Word(text, where) for text in words], known, Ground(), start)
