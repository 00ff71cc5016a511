"""docker-compose and Kubernetes files -> the server of one service or container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from m3probe.errors import UnreadableInput, UsageError
from m3probe.recipe.asked import Given, Word, cut, sentences
from m3probe.recipe.command import from_words, names_server
from m3probe.recipe.docker import served_by
from m3probe.recipe.environment import MOST_GROWN, MOST_VARIABLES, dotenv_lines
from m3probe.recipe.expand import LONGEST
from m3probe.recipe.flags import Flags
from m3probe.recipe.text import existing_text
from m3probe.recipe.wording import Ground, listed, numbered
from m3probe.recipe.yamltext import load_written, plain

_COMPOSE = re.compile(r"\$(?:(\$)|\{([A-Za-z_]\w*)(?:(:?[-?+])([^{}$]*))?\}|([A-Za-z_]\w*))")
_KUBERNETES = re.compile(r"\$(\$)?\(([A-Za-z_][\w.-]*)\)")


@dataclass(slots=True)
class _Service:
    """One container, before its words are read."""

    name: str
    also: str
    """A second name that chooses it: the resource's."""
    words: list[Word]
    env: Given


@dataclass(slots=True)
class _Collected:
    env: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    unsure: dict[str, None] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    grown: int = 0

    def put(self, name: str, word: Word) -> None:
        self.origins[name] = word.where
        self.env.pop(name, None)
        self.unsure.pop(name, None)
        self.bounded(len(word.text), word.where)
        if word.known:
            self.env[name] = word.text
            return
        self.unsure[name] = None
        self.untold.append(f"{cut(name)} is not known: {word.why}")

    def bounded(self, more: int, where: str) -> None:
        """Count characters of values; 400 kB of ``$(A)y`` were 730 MB."""
        self.grown += more
        if self.grown > MOST_GROWN or len(self.origins) > MOST_VARIABLES:
            said = f"values grow beyond {MOST_GROWN // 1024**2} MiB, or more than {MOST_VARIABLES:,} variables"
            raise UsageError(said, where=where, next_move="Give the vllm command after --")

    def given(self) -> Given:
        return Given(
            env=self.env,
            origins=self.origins,
            untold=sentences(self.untold, self.assumed.values()),
            uncertain=tuple(self.unsure),
        )


def yaml_given(text: str, known: Flags, where: str, ground: Ground) -> Given:
    """The server of a compose or Kubernetes file; ``read_yaml`` says what is raised."""
    documents = [plain(document, where) for document in load_written(text, where)]
    services = list(_services(documents, where, ground))
    if not services:
        raise UsageError(
            "no services and no containers in it", where=where, next_move="Give vllm serve MODEL ... after --"
        )
    chosen = _chosen(services, where, ground.choice)
    return from_words(chosen.words, known, ground.deeper(), chosen.env)


def environment_in_yaml(text: str, where: str) -> Given:
    """The variables of an ``environment:`` or ``env:`` section, or of a bare list or mapping of them.

    Raises:
        UnreadableInput: no YAML, or no section of that kind.
    """
    found = plain(load_written(text, where)[0], where)
    section = found
    if isinstance(found, Mapping):
        section = next((found[key] for key in ("environment", "env") if key in found), found)
    held = _Collected()
    if isinstance(section, Mapping) and "services" not in section and "kind" not in section:
        _compose_environment(section, where, held)
    elif isinstance(section, list) and any(isinstance(item, Mapping) for item in section):
        _kubernetes_environment(section, where, {}, held)
    elif isinstance(section, list):
        _compose_environment(section, where, held)
    else:
        raise UnreadableInput("no environment: or env: section at its top", where=where)
    return held.given()


def _services(documents: Sequence[Any], where: str, ground: Ground) -> Iterator[_Service]:
    maps = _config_maps(documents)
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        services = document.get("services")
        if isinstance(services, Mapping):
            for name, service in services.items():
                if isinstance(service, Mapping):
                    yield _compose_service(str(name), service, where, ground)
        for owner, container in _containers(document, ""):
            yield _kubernetes_service(owner, container, where, maps)


def _chosen(services: list[_Service], where: str, choice: str | None) -> _Service:
    serving = [service for service in services if names_server([word.text for word in service.words])]
    if choice is not None:
        by_name = [service for service in services if choice in (service.name, service.also)]
        number = numbered(choice, len(serving))
        by_name = [serving[number]] if number is not None and not by_name else by_name
        if len(by_name) == 1:
            return by_name[0]
    elif len(serving) == 1:
        return serving[0]
    shown = listed([service.name for service in serving or services])
    if choice is None and not serving:
        said = f"no vllm serve command in its services: {shown}"
        raise UsageError(said, where=where, next_move="Give vllm serve MODEL ... after --")
    what = (
        f"{len(serving)} services start vllm: {shown}" if choice is None else f"no one service {cut(choice)!r}: {shown}"
    )
    raise UsageError(what, where=where, next_move="Choose one by its name or number with --service")


def _compose_service(name: str, service: Mapping[str, Any], where: str, ground: Ground) -> _Service:
    held = _Collected()
    _env_files(service.get("env_file"), where, ground, held)
    _compose_environment(service.get("environment"), where, held)
    words = _compose_words(service.get("command"), where, held)
    entry = service.get("entrypoint")
    image = _compose_word(_as_text(service.get("image", "")), where, held)
    if entry is None:
        words = served_by(image.text, words, image.where)
    else:
        words = [*_compose_words(entry, where, held), *words]
    return _Service(name, "", words, held.given())


def _env_files(section: Any, where: str, ground: Ground, held: _Collected) -> None:
    for item in section if isinstance(section, list) else [section] if section else []:
        name = _as_text(item.get("path", "") if isinstance(item, Mapping) else item)
        text = existing_text(ground.file(name)) if name else None
        if text is None:
            held.untold.append(
                f"the variables of {cut(name) or 'an env_file'} are not known: it is not at hand ({where})"
            )
            continue
        found = dotenv_lines(text, name)
        for variable in (*found.env, *found.uncertain):
            held.env.pop(variable, None)
            held.unsure.pop(variable, None)
        held.env |= found.env
        held.origins |= found.origins
        held.untold += found.untold
        held.unsure |= dict.fromkeys(found.uncertain)
        held.bounded(sum(map(len, found.env.values())), name)


def _compose_environment(section: Any, where: str, held: _Collected) -> None:
    if isinstance(section, Mapping):
        for key, value in section.items():
            at = _place(value, where)
            if value is None:
                why = f"it is handed in from the caller's environment ({where})"
                held.put(str(key), Word("", at, known=False, why=why))
            else:
                held.put(str(key), _compose_word(_as_text(value), at, held))
    for item in section if isinstance(section, list) else []:
        name, equals, value = _as_text(item).partition("=")
        at = _place(item, where)
        if equals:
            held.put(name, _compose_word(value, at, held))
        else:
            held.put(name, Word("", at, known=False, why=f"it is handed in from the caller's environment ({at})"))


def _compose_words(section: Any, where: str, held: _Collected) -> list[Word]:
    """A command as text, split without a shell, or as a list."""
    if isinstance(section, list):
        return [_compose_word(_as_text(item), _place(item, where), held) for item in section]
    if section is None:
        return []
    at = _place(section, where)
    if len(_as_text(section)) > LONGEST:
        said = f"a command of more than {LONGEST:,} characters"
        raise UsageError(said, where=at, next_move="Write it as a list, or give it after --")
    try:
        words = [_compose_word(text, at, held) for text in shlex.split(_as_text(section))]
    except ValueError as error:
        said = f"the command cannot be split: {str(error)[:80]}"
        raise UsageError(said, where=at, next_move="Close its quotes") from error
    # the caller's variables are put in before the text is split
    return [word if word.known else replace(word, splits=True) for word in words]


def _compose_word(text: str, where: str, held: _Collected) -> Word:
    """``${NAME:-default}`` and ``$NAME`` come from the caller's environment; ``$$`` is one dollar."""
    if len(text) > LONGEST:
        said = f"a value of more than {LONGEST:,} characters"
        raise UsageError(said, where=where, next_move="Give the vllm command after --")
    missing: list[str] = []

    def value(found: re.Match[str]) -> str:
        dollar, name, operator, rest, bare = found.groups()
        if dollar:
            return "$"
        if operator and operator[-1] == "-":
            sentence = f"{cut(name)} is not set in it: its default {rest[:80]!r} is taken ({where})"
            held.assumed.setdefault(sentence, sentence)
            return str(rest)
        missing.append(name or bare)
        return str(found.group())

    done = _COMPOSE.sub(value, text)
    why = f"${cut(missing[0])} comes from the caller's environment ({where})" if missing else ""
    if "${" in _COMPOSE.sub("", text):
        missing.append("")
        why = f"a ${{}} in it is not worked out ({where})"
    return Word(done, where, known=not missing, why=why)


def _containers(node: Any, owner: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every container of a resource, whatever it is wrapped in (Deployment, Pod, Job, LeaderWorkerSet, List)."""
    if depth > 20:
        return
    if isinstance(node, list):
        for item in node:
            yield from _containers(item, owner, depth + 1)
    if not isinstance(node, Mapping):
        return
    meta = node.get("metadata")
    owner = _as_text(meta.get("name", owner)) if isinstance(meta, Mapping) and "kind" in node else owner
    for key, value in node.items():
        if key == "containers" and isinstance(value, list):
            yield from ((owner, item) for item in value if isinstance(item, Mapping))
        elif key not in ("initContainers", "services"):
            yield from _containers(value, owner, depth + 1)


def _config_maps(documents: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    """ConfigMaps of the same file by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for document in documents:
        if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
            meta, data = document.get("metadata"), document.get("data")
            if isinstance(meta, Mapping) and isinstance(data, Mapping):
                found[_as_text(meta.get("name", ""))] = data
    return found


def _kubernetes_service(
    owner: str, container: Mapping[str, Any], where: str, maps: Mapping[str, Mapping[str, Any]]
) -> _Service:
    held = _Collected()
    for source in _list(container.get("envFrom")):
        _env_from(source, where, maps, held)
    _kubernetes_environment(container.get("env"), where, maps, held)
    words = [
        _kubernetes_word(_as_text(item), _place(item, where), held)
        for key in ("command", "args")
        for item in _list(container.get(key))
    ]
    if not container.get("command"):
        image = container.get("image", "")
        words = served_by(_as_text(image), words, _place(image, where))
    name = _as_text(container.get("name", "")) or owner
    return _Service(
        f"{owner}/{name}" if owner else name, owner if name == owner or not owner else name, words, held.given()
    )


def _env_from(source: Any, where: str, maps: Mapping[str, Mapping[str, Any]], held: _Collected) -> None:
    reference = source.get("configMapRef") if isinstance(source, Mapping) else None
    name = _as_text(reference.get("name", "")) if isinstance(reference, Mapping) else ""
    if name not in maps:
        held.untold.append(f"the variables of envFrom {cut(name) or 'a secret'} are not known ({where})")
        return
    for key, value in maps[name].items():
        held.put(str(key), Word(_as_text(value), _place(value, where)))


def _kubernetes_environment(section: Any, where: str, maps: Mapping[str, Mapping[str, Any]], held: _Collected) -> None:
    for item in _list(section):
        if not isinstance(item, Mapping) or "name" not in item:
            held.untold.append(f"{_as_text(item)[:80]!r} sets no variable ({where})")
            continue
        name, at = _as_text(item["name"]), _place(item["name"], where)
        if "valueFrom" in item:
            held.put(name, _value_from(item["valueFrom"], at, maps))
        else:
            value = item.get("value")
            held.put(name, _kubernetes_word("" if value is None else _as_text(value), at, held))


def _value_from(source: Any, where: str, maps: Mapping[str, Mapping[str, Any]]) -> Word:
    reference = source.get("configMapKeyRef") if isinstance(source, Mapping) else None
    if isinstance(reference, Mapping):
        data = maps.get(_as_text(reference.get("name", "")), {})
        key = _as_text(reference.get("key", ""))
        if key in data:
            return Word(_as_text(data[key]), where)
    return Word("", where, known=False, why=f"it is a valueFrom of the cluster ({where})")


def _kubernetes_word(text: str, where: str, held: _Collected) -> Word:
    """``$(NAME)`` of the container's variables; one that is not set stays as it is (Kubernetes does so)."""
    unsure: list[str] = []
    grown = 0

    def value(found: re.Match[str]) -> str:
        nonlocal grown
        doubled, name = found.groups()
        if doubled:
            return str(found.group()[1:])
        said = held.env.get(name, str(found.group()))
        grown += len(said)
        if name in held.unsure or grown > LONGEST:
            unsure.append(name)
            return str(found.group())
        return said

    done = _KUBERNETES.sub(value, text)
    return Word(done, where, known=not unsure, why=f"$({cut(unsure[0])}) is not known ({where})" if unsure else "")


def _list(section: Any) -> list[Any]:
    return section if isinstance(section, list) else [] if section is None else [section]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _place(value: Any, where: str) -> str:
    line = getattr(value, "line", None)
    return where if line is None else f"{where}:{line}"
