"""Environments on disk: dotenv, docker's env-file, a dump of ``env``, and the YAML lists of compose and Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.recipe.asked import Given
from m3probe.recipe.text import file_text

MOST_VALUE = 64 * 1024  # characters; A=$A$A doubles with every line
_LINE = re.compile(r"\s*(?:export\s+|declare\s+-x\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(:?-([^}]*))?\}|([A-Za-z_]\w*))")
_DUMPED = frozenset({"PATH", "HOME", "PWD", "SHLVL", "HOSTNAME", "_", "OLDPWD", "USER", "TERM"})
_YAML = re.compile(r"(?m)^(?:\s*-\s+name:|(?:environment|env|services|kind|apiVersion):)")


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
    text = file_text(path)
    found = environment_of(text, str(path))
    if text.strip() and not (found.env or found.untold or found.uncertain) and not _only_comments(text):
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
    env: dict[str, str] = {}
    origins: dict[str, str] = {}
    untold: list[str] = []
    unsure: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        name, equals, value = (line if dump else line.lstrip()).partition("=")
        if not line.strip() or (line.lstrip().startswith("#") and not dump):
            continue
        if not _NAME.fullmatch(name):
            untold += [] if dump else [f"{line.strip()[:80]!r} sets no variable ({where}:{number})"]
        elif equals:
            env[name], origins[name] = value, f"{where}:{number}"
        elif not dump:
            unsure.append(name)
            untold.append(f"{name} is not known: it is handed in from the caller's environment ({where}:{number})")
    return Given(env=env, origins=origins, untold=tuple(untold), uncertain=tuple(unsure))


def dotenv_lines(text: str, where: str) -> Given:
    """dotenv: ``export``, quotes, comments; ``${NAME}`` of a variable above it is replaced."""
    env: dict[str, str] = {}
    origins: dict[str, str] = {}
    untold: list[str] = []
    unsure: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            untold.append(f"{line.strip()[:80]!r} sets no variable ({where}:{number})")
            continue
        name, raw = found.groups()
        raw, at = _joined(raw.strip(), lines, at)
        value, why = _unquoted(raw, env)
        origins[name] = f"{where}:{number}"
        if value is None:
            env.pop(name, None)
            unsure.append(name)
            untold.append(f"{name} is not known: {why} ({where}:{number})")
        else:
            env[name] = value
    return Given(env=env, origins=origins, untold=tuple(untold), uncertain=tuple(unsure))


def _joined(raw: str, lines: list[str], at: int) -> tuple[str, int]:
    """A quoted value that goes on over lines, up to the line that ends it."""
    quote = raw[:1]
    if quote not in ('"', "'") or _ends(raw, quote):
        return raw, at
    for end in range(at, min(len(lines), at + 200)):
        if lines[end].rstrip().endswith(quote):
            return "\n".join([raw, *lines[at : end + 1]]), end + 1
    return raw, at


def _ends(raw: str, quote: str) -> bool:
    pattern = r"'[^']*'" if quote == "'" else r'"(?:[^"\\]|\\.)*"'
    return re.match(pattern, raw, re.DOTALL) is not None


def _unquoted(raw: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """(value, why it is not known)."""
    if raw.startswith("'"):
        found = re.match(r"'([^']*)'", raw)
        return (found.group(1), "") if found else (None, "its quote never ends")
    if raw.startswith('"'):
        found = re.match(r'"((?:[^"\\]|\\.)*)"', raw, re.DOTALL)
        if found is None:
            return None, "its quote never ends"
        return _replaced(re.sub(r'\\([\\"$`])', r"\1", found.group(1)), env)
    if "$(" in raw or "`" in raw:
        return None, "it is the output of a command"
    return _replaced(re.split(r"\s+#", raw, maxsplit=1)[0].strip(), env)


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

    text = _REFERENCE.sub(value, text)
    return (None, f"${missing[0]} is not set above it, or too long") if missing else (text, "")


def _only_comments(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.split("\n"))
