"""Whether the attributes that the probe stands on are there in a vLLM source tree, and have the parameters it reads.

Read by ``ast`` and never imported: class bodies, base classes, re-exports, and definitions under ``if`` and ``try``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from m3probe.vllm_source.look import Function, Moved
from m3probe.vllm_source.tree import Source, Tree

_DEEPEST = 20


class Wanted(Protocol):
    """What is looked for: ``Class.method`` or a function in a dotted module, and parameters of it."""

    @property
    def module(self) -> str: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def needs(self) -> tuple[str, ...]: ...  # noqa: D102


class SeamState(StrEnum):
    """As at run time: ``changed`` is there and lacks a parameter, so it is not hooked."""

    PRESENT = "present"
    CHANGED = "changed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class SeamFound:
    """A seam in one tree. ``where``: ``vllm/v1/worker/gpu_worker.py:1334``; empty when it is absent."""

    state: SeamState
    where: str = ""
    text: str = ""


def check(tree: Tree, seams: Mapping[str, Wanted]) -> dict[str, SeamFound]:
    """Every seam of a table in one tree."""
    return {name: check_one(tree, wanted) for name, wanted in seams.items()}


def check_one(tree: Tree, wanted: Wanted) -> SeamFound:
    """One seam."""
    try:
        source, node = _resolved(tree, wanted.module, wanted.name.split("."), 0)
    except Moved as moved:
        return SeamFound(SeamState.ABSENT, text=str(moved))
    where = source.where(node)
    missing = [name for name in wanted.needs if name not in _parameters(tree, source, node)]
    if missing:
        return SeamFound(SeamState.CHANGED, where, f"no parameter {', '.join(missing)}")
    return SeamFound(SeamState.PRESENT, where)


_Node = Function | ast.ClassDef | ast.expr


def _file(tree: Tree, module: str) -> str:
    path = module.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if tree.has(name):
            return name
    raise Moved(f"no module {module}")


def _resolved(tree: Tree, module: str, path: list[str], depth: int) -> tuple[Source, _Node]:
    """A dotted name of a module, through re-exports and base classes."""
    if depth > _DEEPEST:
        raise Moved(f"{module}: imports in a circle")
    source = tree.source(_file(tree, module))
    head, *rest = path
    why = Moved(f"{module} has no {head}")
    for found in reversed(_bound(source.module, head)):  # the last one wins; a fallback stands where its import fails
        try:
            if not isinstance(found, ast.ImportFrom):
                return _inside(tree, module, (source, found), rest, depth)
            original = next(a.name for a in found.names if (a.asname or a.name) == head)
            return _resolved(tree, _absolute(module, source, found), [original, *rest], depth + 1)
        except Moved as moved:
            why = moved
    raise why


def _inside(tree: Tree, module: str, at: tuple[Source, _Node], rest: list[str], depth: int) -> tuple[Source, _Node]:
    if not rest:
        return at
    source, node = at
    if not isinstance(node, ast.ClassDef):
        raise Moved(f"{module}: {getattr(node, 'name', '?')} is no class")
    own = [found for found in _bound(node, rest[0]) if not isinstance(found, ast.ImportFrom)]
    if own:
        return _inside(tree, module, (source, own[-1]), rest[1:], depth)
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(plain, ast.Name):
            try:
                return _resolved(tree, module, [plain.id, *rest], depth + 1)
            except Moved:
                continue
    raise Moved(f"{module}: {node.name} has no {rest[0]}")


def _bound(scope: ast.Module | ast.ClassDef, name: str) -> list[_Node | ast.ImportFrom]:
    """What a name is bound to in a scope, in order: definitions, values, imports."""
    found: list[_Node | ast.ImportFrom] = []
    for node in _statements(scope.body):
        if isinstance(node, Function | ast.ClassDef | ast.ImportFrom):
            names = [a.asname or a.name for a in node.names] if isinstance(node, ast.ImportFrom) else [node.name]
            found += [node] if name in names else []
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            found.append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            found += [node.value] if node.value is not None else []
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """A body with what stands under ``if``, ``try`` and ``with``; what only type checkers see is left out."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            if ast.unparse(node.test) not in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
                yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            for part in (*[h.body for h in node.handlers], node.body, node.orelse, node.finalbody):
                yield from _statements(part)
        elif isinstance(node, ast.With):
            yield from _statements(node.body)


def _absolute(module: str, source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module if source.name.endswith("__init__.py") else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _parameters(tree: Tree, source: Source, node: _Node) -> set[str]:
    if isinstance(node, ast.ClassDef):
        module = source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            _, made = _inside(tree, module, (source, node), ["__init__"], 0)
        except Moved:
            return set()
        return _parameters(tree, source, made) - {"self"}
    if not isinstance(node, Function):
        return set()
    args = node.args
    return {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)} | {
        a.arg for a in (args.vararg, args.kwarg) if a is not None
    }
