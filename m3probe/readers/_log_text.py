"""Python's own ``repr`` in a log line -> plain data, by its syntax tree alone: nothing is evaluated or imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from m3probe.schema.secrets import hides

HIDDEN = "(set)"
"""Stands for a value whose name may be a key's, as guests write it."""
MOST_TEXT = 256 * 1024
"""Of one value; a whole engine configuration of vLLM is 6 to 12 KB."""
MOST_DEPTH = 40
_OBJECT = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|<(?P<inner>[^<>]*)>")
_MEMBER = re.compile(r"(?:\w+\.)+(\w+):.*", re.DOTALL)
_PART = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|(?P<open>[(\[{<])|(?P<close>[)\]}>])|, (?P<key>\w+)=")


class NoLiteral(ValueError):
    """Text that is no plain value."""


def literal(text: str) -> Any:
    """A value as Python prints it; enum members are their names, objects of a class are ``{"class": ..., field: ...}``.

    Raises:
        NoLiteral: it is something else, cut, or nested too deep.
    """
    if len(text) > MOST_TEXT:
        raise NoLiteral("too long")
    try:
        tree = ast.parse(_OBJECT.sub(_as_text, text).strip(), mode="eval")
        return _value(tree.body, MOST_DEPTH)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NoLiteral(str(error)) from error


def plain(text: str) -> Any:
    """The value, or the text itself where it is none (``openai/gpt-oss-120b`` stands without quotes)."""
    try:
        return literal(text)
    except NoLiteral:
        return text.strip()


def assignments(text: str) -> dict[str, Any]:
    """``model='m', dtype=torch.bfloat16, ...``: how vLLM prints its configuration. Values of keys are hidden."""
    return {key: kept(key, plain(value)) for key, value in _parts(text)}


def kept(name: str, value: Any) -> Any:
    """A value without what may be a key, at any depth."""
    if hides(name, value):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): kept(str(key), inner) for key, inner in value.items()}
    return value


def _as_text(found: re.Match[str]) -> str:
    """``<CUDAGraphMode.FULL: 2>`` -> ``'FULL'``; any other ``<...>`` becomes the text of it."""
    inner = found["inner"]
    if inner is None:
        return found[0]
    member = _MEMBER.fullmatch(inner)
    return repr(member[1] if member else found[0])


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """(name, value as written); a comma inside of brackets or quotes parts nothing."""
    depth, start, key = 0, 0, ""
    for found in _PART.finditer(f", {text}"):
        if found["open"]:
            depth += 1
        elif found["close"]:
            depth -= 1
        elif found["key"] and depth <= 0:
            if key:
                yield key, f", {text}"[start : found.start()]
            key, start = found["key"], found.end()
    if key:
        yield key, f", {text}"[start:]


def _value(node: ast.expr, depth: int) -> Any:
    if depth == 0:
        raise NoLiteral("nested too deep")
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | int | float | None) else str(node.value)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(part, depth - 1) for part in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(k, depth): _value(v, depth - 1) for k, v in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, depth - 1)
        if isinstance(inner, int | float):
            return -inner
    if isinstance(node, ast.Call):
        fields = {k.arg: _value(k.value, depth - 1) for k in node.keywords if k.arg}
        return {"class": _name(node.func), **fields}
    return _name(node)


def _key(node: ast.expr | None, depth: int) -> str:
    if node is None:
        raise NoLiteral("unpacking")
    return str(_value(node, depth - 1))


def _name(node: ast.expr) -> str:
    """``auto``, ``torch.bfloat16``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    raise NoLiteral(type(node).__name__)
