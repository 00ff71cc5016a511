"""Questions about code's shape: what it names, in which order, and whether it is a known shape.

A shape is names, constants and operators in their order. Comments, docstrings, annotations, log calls, prose (text with
spaces in it, f-strings) and line breaks do not count, and it is the same on every Python that parses the file.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator

from m3probe.vllm_source.look import Function, Moved

# What one Python's parser adds and another's does not, or what says nothing about the code's work.
_SKIPPED = ("ctx", "type_comment", "type_params", "kind", "annotation", "returns", "lineno", "col_offset")


def fingerprint(node: ast.AST, read: Iterable[ast.AST] = ()) -> str:
    """Sixteen hex digits of a node's shape.

    Args:
        node: a function or a statement.
        read: nodes inside whose content a rule reads: they may change without changing the shape.
    """
    return hashlib.sha256(" ".join(_words(node, {id(part) for part in read})).encode()).hexdigest()[:16]


def _words(node: ast.AST, read: set[int]) -> Iterator[str]:
    if id(node) in read or isinstance(node, ast.JoinedStr):
        yield "#"
        return
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name in _SKIPPED:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                if not _is_silent(part):
                    yield from _words(part, read)
            elif part is not None:
                yield f"{name}={'#' if isinstance(part, str) and ' ' in part else repr(part)}"
    yield "."


def _is_silent(node: ast.AST) -> bool:
    """A docstring or a call of the logger."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func).startswith("logger.")


# node -> the field that holds an identifier
_NAMED: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.alias: "name",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.arg: "arg",
    ast.ImportFrom: "module",
}


def identifiers(node: ast.AST) -> Iterator[str]:
    """Every name, attribute, imported or defined name inside; no comments, no strings."""
    for part in ast.walk(node):
        field = _NAMED.get(type(part))
        if field is not None:
            yield getattr(part, field) or ""


def speaks_of(node: ast.AST, *pieces: str) -> bool:
    """Whether some identifier inside holds one of these pieces, case left out.

    What a build does not speak of by such a wide word is absent; what it speaks of in another shape has moved.
    """
    return any(piece in name.lower() for name in identifiers(node) for piece in pieces)


def branches(node: ast.AST, *names: str) -> list[ast.If]:
    """Conditions inside whose test names all of these, in the order of the file."""
    found = [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.If) and set(names) <= (set(identifiers(part.test)) | set(_constants(part.test)))
    ]
    return sorted(found, key=lambda branch: branch.lineno)


def branch(node: ast.AST, *names: str) -> ast.If:
    """The one condition whose test names all of these; Moved when there is none or more than one."""
    found = branches(node, *names)
    if len(found) != 1:
        raise Moved(f"{len(found)} conditions on {', '.join(names)}, not 1")
    return found[0]


def _constants(node: ast.AST) -> Iterator[str]:
    return (p.value for p in ast.walk(node) if isinstance(p, ast.Constant) and isinstance(p.value, str))


def raises(statements: list[ast.stmt]) -> bool:
    """Whether these statements raise, at their own level."""
    return any(isinstance(statement, ast.Raise) for statement in statements)


def comparison(node: ast.AST, left: str, operator: type[ast.cmpop]) -> ast.expr:
    """The right side of the one comparison with this left side (as source text) and operator.

    Raises:
        Moved: there is none, or several with different right sides.
    """
    found = [
        part.comparators[0]
        for part in ast.walk(node)
        if isinstance(part, ast.Compare)
        and len(part.ops) == 1
        and isinstance(part.ops[0], operator)
        and ast.unparse(part.left) == left
    ]
    if not found or len({ast.unparse(right) for right in found}) != 1:
        raise Moved(f"{len(found)} comparisons {left} {operator.__name__}, not 1")
    return found[0]


def returned(statements: list[ast.stmt]) -> ast.expr:
    """What the last of these statements returns; Moved when it returns nothing."""
    last = statements[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        raise Moved("the branch does not end in a return of a value")
    return last.value


def is_true(node: ast.expr) -> bool:
    """Whether an expression is the constant True."""
    return isinstance(node, ast.Constant) and node.value is True


def called(function: Function) -> set[str]:
    """Last names of everything that a function calls."""
    return {
        part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
        for part in ast.walk(function)
        if isinstance(part, ast.Call)
    }
