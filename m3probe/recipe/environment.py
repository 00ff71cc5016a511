"""Environments on disk: dotenv, docker's env-file, a dump of ``env``, and the YAML lists of compose and Kubernetes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.recipe.asked import Given, cut, sentences
from m3probe.recipe.text import file_text
from m3probe.recipe.wording import doorway

MOST_VALUE = 64 * 1024  # characters; A=$A$A doubles with every line
MOST_GROWN = 16 * 1024**2  # characters of all values together
MOST_VARIABLES = 10_000  # Linux hands about 2 MB to a program; no environment has more
LONGEST_QUOTE = 200  # lines
_LINE = re.compile(r"\s*+(?:export\s+|declare\s+-x\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(:?-([^{}$]*))?\}|([A-Za-z_]\w*))")
_COMMENT = re.compile(r"(?<!\s)\s++#")
_QUOTED = {
    "'": re.compile(r"'([^']*)'"),
    '"': re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL),
}
_DUMPED = frozenset({"PATH", "HOME", "PWD", "SHLVL", "HOSTNAME", "_", "OLDPWD", "USER", "TERM"})
_YAML = re.compile(r"(?m)^(?:[ \t]*+-[ \t]++name:|(?:environment|env|services|kind|apiVersion):)")


def read_env_file(path: Path) -> Mapping[str, str]:
    """The variables of a file in any of the four forms; what is not known in it is left out.

    Raises:
        UnreadableInput: missing, over 4 MiB, binary, not UTF-8, or without a single variable.
    """
    return read_environment(path).env


def read_environment(path: Path) -> Given:
    """The same with origins and with what could not be resolved.

    Raises:
        UnreadableInput: as ``read_env_file``.
    """
    with doorway(str(path), "Give NAME=value lines"):
        text = file_text(path)
        found = environment_of(text, str(path))
        if text.strip() and not (found.env or found.uncertain) and not _only_comments(text):
            raise UnreadableInput("holds no NAME=value line", where=str(path))
        return found


def environment_of(text: str, where: str) -> Given:
    """Text of an env file, its form told by its content.

    Raises:
        UnreadableInput: it looks like YAML and is none.
    """
    if _YAML.search(text) and not re.match(r"\s*(?:export\s+)?[A-Za-z_]\w*=", text):
        from m3probe.recipe.containers import environment_in_yaml

        return environment_in_yaml(text, where)
    if is_dump(text):
        return docker_lines(text, where, dump=True)
    return dotenv_lines(text, where)


def is_assignments(text: str) -> bool:
    """Whether every line that says something sets a variable, so that the text is no script."""
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all(_LINE.fullmatch(line) for line in lines)


def is_dump(text: str) -> bool:
    """Whether this is what ``env`` prints: variables of every shell, without quotes."""
    names = {line.partition("=")[0] for line in text.split("\n") if "=" in line}
    return len(names & _DUMPED) >= 3 and "export " not in text and "declare -x" not in text


def docker_lines(text: str, where: str, *, dump: bool = False) -> Given:
    """docker's env-file: the value is everything behind ``=``, quotes too; a bare NAME comes from the caller.

    Args:
        dump: the text is the output of ``env``, where lines without ``=`` go on with the value before.
    """
    held = _Held(where)
    for number, line in enumerate(text.split("\n"), start=1):
        name, equals, value = (line if dump else line.lstrip()).partition("=")
        if not line.strip() or (line.lstrip().startswith("#") and not dump):
            continue
        if not _NAME.fullmatch(name):
            if not dump:
                held.untold.append(f"{line.strip()[:80]!r} sets no variable ({where}:{number})")
        elif equals:
            held.put(name, value, "", number)
        elif not dump:
            held.put(name, None, "it is handed in from the caller's environment", number)
    return held.given()


@dataclass(slots=True)
class _Held:
    """The variables of a file so far."""

    where: str
    env: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    unsure: dict[str, None] = field(default_factory=dict)
    grown: int = 0

    def put(self, name: str, value: str | None, why: str, line: int) -> None:
        place = f"{self.where}:{line}"
        self.origins[name] = place
        if len(self.origins) > MOST_VARIABLES:
            raise UnreadableInput(f"more than {MOST_VARIABLES:,} variables", where=place)
        self.env.pop(name, None)
        self.unsure.pop(name, None)
        if value is None:
            self.unsure[name] = None
            self.untold.append(f"{cut(name)} is not known: {why} ({place})")
            return
        self.env[name] = value
        self.grown += len(value)
        if self.grown > MOST_GROWN:
            raise UnreadableInput(f"its values grow beyond {MOST_GROWN // 1024**2} MiB", where=place)

    def given(self) -> Given:
        return Given(env=self.env, origins=self.origins, untold=sentences(self.untold), uncertain=tuple(self.unsure))


def dotenv_lines(text: str, where: str) -> Given:
    """dotenv: ``export``, quotes, comments; ``${NAME}`` of a variable above it is replaced.

    Raises:
        UnreadableInput: over ``MOST_VARIABLES``, or values that grow beyond ``MOST_GROWN``.
    """
    held = _Held(where)
    lines = text.split("\n")
    ends = {quote: [at for at, line in enumerate(lines) if line.rstrip().endswith(quote)] for quote in _QUOTED}
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            held.untold.append(f"{line.strip()[:80]!r} sets no variable ({where}:{number})")
            continue
        name, raw = found.groups()
        raw, at = _joined(raw.strip(), lines, at, ends)
        value, why = _unquoted(raw, held.env)
        held.put(name, value, why, number)
    return held.given()


def _joined(raw: str, lines: list[str], at: int, ends: Mapping[str, list[int]]) -> tuple[str, int]:
    """A quoted value that goes on over lines, up to the line that ends it.

    Args:
        ends: for each quote the lines that end in it: looking for them anew at every line takes 20 s of 4 MB.
    """
    quote = raw[:1]
    if quote not in _QUOTED or _QUOTED[quote].match(raw):
        return raw, at
    next_ = bisect_left(ends[quote], at)
    if next_ >= len(ends[quote]) or ends[quote][next_] >= at + LONGEST_QUOTE:
        return raw, at
    end = ends[quote][next_] + 1
    return "\n".join([raw, *lines[at:end]]), end


def _unquoted(raw: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """(value, why it is not known)."""
    if raw[:1] in _QUOTED:
        found = _QUOTED[raw[0]].match(raw)
        if found is None:
            return None, "its quote never ends"
        return (found.group(1), "") if raw[0] == "'" else _replaced(re.sub(r'\\([\\"$`])', r"\1", found.group(1)), env)
    if "$(" in raw or "`" in raw:
        return None, "it is the output of a command"
    return _replaced(_COMMENT.split(raw, maxsplit=1)[0].strip(), env)


def _replaced(text: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    missing: list[str] = []
    grown = 0

    def value(found: re.Match[str]) -> str:
        nonlocal grown
        name = found.group(1) or found.group(4)
        held = env.get(name, found.group(3) if found.group(2) else None)
        grown += len(held or "")
        if held is None or grown > MOST_VALUE:
            missing.append(name)
            return ""
        return held

    done = _REFERENCE.sub(value, text)
    if "${" in _REFERENCE.sub("", text):
        return None, "a ${} in it is not worked out"
    return (None, f"${cut(missing[0])} is not set above it, or too long") if missing else (done, "")


def _only_comments(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.split("\n"))
