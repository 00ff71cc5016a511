"""YAML as plain data, within bounds: PyYAML's safe loader, no bomb of aliases or merge keys, no traceback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from m3probe.errors import UnreadableInput

MOST_CHARACTERS = 1024 * 1024  # PyYAML takes about a microsecond a character
MOST_NODES = 50_000  # about 25 microseconds each; also what aliases may grow to
DEEPEST = 100
MOST_DIGITS = 100  # str() of an int of over 4,300 digits raises, and a sexagesimal one of thousands takes minutes
# What PyYAML's constructors raise on !!int "", !!bool x and !!timestamp x.
_FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class Text(str):
    """A scalar and the line it starts in (the text of a block scalar starts one below its ``|``)."""

    __slots__ = ("line",)
    line: int


def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


class _Bounded(yaml.SafeLoader):
    """Nodes are counted while they are composed: two million of them are 1.5 GB.

    Merge keys copy what they merge, so ``<<: [*a, *a]`` over ten levels would fill any memory.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.merged = 0
        self.nodes = 0
        self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        self.depth += 1
        if self.nodes > MOST_NODES or self.depth > DEEPEST:
            what = f"{MOST_NODES:,} values" if self.nodes > MOST_NODES else f"{DEEPEST} levels inside each other"
            raise _refused(f"more than {what}", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MOST_NODES:
            raise _refused(f"merge keys grow beyond {MOST_NODES:,} entries", node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """As PyYAML does, with the line of a value that its tag does not fit."""
        try:
            return super().construct_object(node, deep=deep)
        except _FAULTS as error:
            tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")[:40]
            said = f" {node.value[:40]!r}" if isinstance(node.value, str) else ""
            raise _refused(f"{tag}{said} is no such value", node.start_mark) from error


def _number(loader: _Bounded, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    if len(text) > MOST_DIGITS:
        raise _refused(f"a number of {len(text):,} characters", node.start_mark)
    whole = node.tag == "tag:yaml.org,2002:int"
    return loader.construct_yaml_int(node) if whole else loader.construct_yaml_float(node)


_Bounded.add_constructor("tag:yaml.org,2002:int", _number)
_Bounded.add_constructor("tag:yaml.org,2002:float", _number)


class _Written(_Bounded):
    """Scalars as they are written, with their lines: 0800 and 1_000 stay text; null, true and false are YAML 1.2's."""


def _text(loader: _Written, node: yaml.ScalarNode) -> Text:
    value = Text(loader.construct_scalar(node))
    value.line = node.start_mark.line + (2 if node.style in ("|", ">") else 1)
    return value


_Written.yaml_implicit_resolvers = {}
_Written.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Written.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)
_Written.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
_Written.add_constructor("tag:yaml.org,2002:str", _text)


def load_like_vllm(text: str, where: str) -> Any:
    """One document as ``yaml.safe_load`` reads it (``load_config_file`` of vLLM does).

    Raises:
        UnreadableInput: not YAML, or more than ``MOST_NODES`` nodes.
    """
    return _one(_Bounded, text, where)[0]


def load_written(text: str, where: str) -> list[Any]:
    """Every document, scalars as they are written.

    Raises:
        UnreadableInput: not YAML, or beyond one of the bounds.
    """
    return _one(_Written, text, where)


def _one(loader: type[_Bounded], text: str, where: str) -> list[Any]:
    if len(text) > MOST_CHARACTERS:
        raise UnreadableInput(f"YAML of more than {MOST_CHARACTERS // 1024**2} MiB", where=where)
    try:
        documents = list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, *_FAULTS) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or (str(error) if isinstance(error, yaml.YAMLError) else "")
        said = f": {problem.splitlines()[0][:200]}" if problem else ""
        raise UnreadableInput(f"no YAML that can be read{at}{said}", where=where, next_move="Correct it") from error
    return documents or [None]


def plain(value: Any, where: str) -> Any:
    """A copy without aliases.

    Raises:
        UnreadableInput: more than ``MOST_NODES`` nodes once every alias is written out, or one inside itself.
    """
    left = [MOST_NODES]

    def copy(node: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > DEEPEST:
            said = f"more than {MOST_NODES:,} values or {DEEPEST} levels once its aliases are written out"
            raise UnreadableInput(said, where=where, next_move="Write it without aliases")
        if isinstance(node, Mapping):
            return {str(key): copy(item, depth + 1) for key, item in node.items()}
        if isinstance(node, list | tuple):
            return [copy(item, depth + 1) for item in node]
        return node

    return copy(value, 0)
