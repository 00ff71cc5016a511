"""YAML as plain data, within bounds: PyYAML's safe loader, no bomb of aliases or merge keys, no traceback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from m3probe.errors import UnreadableInput

MOST_NODES = 200_000  # expanded; a compose file of 4 MiB has fewer
# What PyYAML's constructors raise on !!int "", !!bool x, !!timestamp x and on a few thousand brackets in a row.
_FAULTS = (
    yaml.YAMLError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class Text(str):
    """A scalar and the line it starts in (the text of a block scalar starts one below its ``|``)."""

    __slots__ = ("line",)
    line: int


class _Bounded(yaml.SafeLoader):
    """Merge keys copy what they merge, so ``<<: [*a, *a]`` over ten levels would fill any memory."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MOST_NODES:
            raise yaml.YAMLError(f"merge keys grow beyond {MOST_NODES:,} entries")


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
        UnreadableInput: not YAML, or merge keys without bounds.
    """
    return _one(_Written, text, where)


def _one(loader: type[_Bounded], text: str, where: str) -> list[Any]:
    try:
        documents = list(yaml.load_all(text, Loader=loader))
    except _FAULTS as error:
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or (str(error) if isinstance(error, yaml.YAMLError) else "")
        said = f": {problem.splitlines()[0][:200]}" if problem else ""
        raise UnreadableInput(f"no YAML that can be read{at}{said}", where=where) from error
    return documents or [None]


def plain(value: Any, where: str) -> Any:
    """A copy without aliases.

    Raises:
        UnreadableInput: more than ``MOST_NODES`` nodes once every alias is written out, or one inside itself.
    """
    left = [MOST_NODES]

    def copy(node: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > 100:
            raise UnreadableInput(f"aliases grow beyond {MOST_NODES:,} nodes or 100 levels", where=where)
        if isinstance(node, Mapping):
            return {str(key): copy(item, depth + 1) for key, item in node.items()}
        if isinstance(node, list | tuple):
            return [copy(item, depth + 1) for item in node]
        return node

    return copy(value, 0)
