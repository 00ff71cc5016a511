"""Small views on a parsed source file: find a definition, evaluate a constant, read a sentence.

Nothing here runs foreign code: ``evaluate`` knows literals, arithmetic on numbers and names bound to those.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Moved(Exception):
    """The source holds something else than expected: the rule's value is unknown on this build."""


class Absent(Exception):
    """This build has no such thing; the message says what was looked for and where."""


class Name(str):
    """A dotted name that stands for itself (a class, an enum's member, a dtype)."""

    __slots__ = ()

    @property
    def last(self) -> str:
        """``Fp8MoeBackend.MARLIN`` -> ``MARLIN``."""
        return self.rpartition(".")[2]


Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Scope = ast.Module | Definition
Names = Mapping[str, ast.expr]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
}


def defined(scope: Scope, dotted: str) -> Definition:
    """The function or class of this name; ``Class.method`` looks inside.

    Raises:
        Moved: there is none.
    """
    found: Scope = scope
    for part in dotted.split("."):
        inner = [n for n in found.body if isinstance(n, Definition) and n.name == part]
        if not inner:
            raise Moved(f"no definition {dotted}")
        found = inner[-1]
    assert isinstance(found, Definition)
    return found


def bindings(scope: Scope) -> dict[str, ast.expr]:
    """Names that plain assignments of this scope bind (the first one wins: later ones are device switches)."""
    bound: dict[str, ast.expr] = {}
    for node in scope.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            bound.setdefault(node.target.id, node.value)
    return bound


def bound(scope: Scope, name: str) -> ast.expr:
    """The expression a name is bound to in this scope.

    Raises:
        Moved: it is not.
    """
    found = bindings(scope).get(name)
    if found is None:
        raise Moved(f"no assignment of {name}")
    return found


def evaluate(node: ast.expr, names: Names | None = None, depth: int = 0) -> Any:
    """A literal, arithmetic on whole numbers, or a collection of those; unbound names stand for themselves.

    Sets come back as lists in the order written.

    Raises:
        Moved: the expression is anything else.
    """
    if depth > 50:
        raise Moved("an expression that is nested too deeply")

    def inner(part: ast.expr) -> Any:
        return evaluate(part, names, depth + 1)

    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Set() | ast.Tuple() | ast.Dict():
            return _collected(node, inner)
        case ast.UnaryOp(op=ast.USub()):
            return -_number(inner(node.operand))
        case ast.BinOp():
            return _computed(node, inner)
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple" | "list"), args=[only]):
            return inner(only)
        case ast.Name() | ast.Attribute():
            return _named(node, names or {}, inner)
    raise Moved(f"{type(node).__name__} is no constant")


def _collected(node: ast.List | ast.Set | ast.Tuple | ast.Dict, inner: Callable[[ast.expr], Any]) -> Any:
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise Moved("a dictionary with unpacking")
        return {inner(k): inner(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    items = [inner(item) for item in node.elts]
    return tuple(items) if isinstance(node, ast.Tuple) else items


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Moved(f"{value!r} is no number")
    return value


def _computed(node: ast.BinOp, inner: Callable[[ast.expr], Any]) -> int | float:
    compute = _ARITHMETIC.get(type(node.op))
    if compute is None:
        raise Moved(f"{type(node.op).__name__} is not computed")
    result: int | float = compute(_number(inner(node.left)), _number(inner(node.right)))
    return result


def _named(node: ast.Name | ast.Attribute, names: Names, inner: Callable[[ast.expr], Any]) -> Any:
    dotted = ast.unparse(node)
    expression = names.get(dotted.removeprefix("cls.").removeprefix("self."))
    return Name(dotted) if expression is None else inner(expression)


def integer(node: ast.expr, names: Names | None = None) -> int:
    """A whole number; anything else is Moved."""
    value = evaluate(node, names)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Moved(f"{value!r} is no whole number")
    return value


def words(node: ast.expr, names: Names | None = None) -> list[str]:
    """A collection of strings or names as plain strings, a name without its module or enum."""
    value = evaluate(node, names)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise Moved(f"{value!r} is no list of words")
    return [item.last if isinstance(item, Name) else item for item in value]


def texts(node: ast.expr, names: Names | None = None) -> list[str]:
    """A collection of string constants; a name that is bound to nothing is Moved."""
    value = evaluate(node, names)
    if not isinstance(value, list | tuple) or not value or not all(_is_text(item) for item in value):
        raise Moved(f"{value!r} is no list of texts")
    return list(value)


def text(node: ast.expr, names: Names | None = None) -> str:
    """A string constant; a name that is bound to nothing is Moved."""
    value = evaluate(node, names)
    if not _is_text(value):
        raise Moved(f"{value!r} is no text")
    return str(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Name)


def members(value: object, enum: str) -> list[str]:
    """An evaluated member of an enum, or a list of them, by their own names.

    Raises:
        Moved: something else is among them.
    """
    found = value if isinstance(value, list | tuple) else [value]
    names = [item for item in found if isinstance(item, Name) and item.startswith(f"{enum}.")]
    if not names or len(names) != len(found):
        raise Moved(f"{value!r} is no member of {enum}")
    return [name.last for name in names]


def sentence(node: ast.AST) -> str | None:
    """A string's text; the fields of an f-string stand as ``{name}``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            source = ast.unparse(part.value)
            parts.append("{cls}" if source.startswith("type(") else f"{{{source}}}")
        else:
            parts.append(sentence(part) or "")
    return "".join(parts)


def sentences(node: ast.AST) -> Iterator[str]:
    """Every string inside, docstrings and pieces of f-strings too."""
    return (text for part in ast.walk(node) if (text := sentence(part)) is not None)


def calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a function or method by its last name."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if called == name:
                yield part


def mentions(node: ast.AST, name: str) -> bool:
    """Whether a name, an attribute or a string constant inside is exactly this word."""
    return any(
        getattr(part, "id", None) == name
        or getattr(part, "attr", None) == name
        or (isinstance(part, ast.Constant) and part.value == name)
        for part in ast.walk(node)
    )


def parameters(function: Definition) -> list[str]:
    """Names of a function's parameters."""
    if isinstance(function, ast.ClassDef):
        raise Moved(f"{function.name} is a class")
    return [arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def parameter_default(function: Definition, name: str) -> ast.expr:
    """The default of one parameter.

    Raises:
        Moved: there is no such parameter, or it has no default.
    """
    if isinstance(function, ast.ClassDef):
        raise Moved(f"{function.name} is a class")
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    # defaults belong to the last positional parameters
    pairs = dict(zip([a.arg for a in positional[len(positional) - len(args.defaults) :]], args.defaults, strict=True))
    pairs |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    if name not in pairs:
        raise Moved(f"no parameter {name} with a default in {function.name}")
    return pairs[name]
