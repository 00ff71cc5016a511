"""Fields of vLLM's config dataclasses, as argparse sees them (``_compute_kwargs`` in ``engine/arg_utils.py``)."""

from __future__ import annotations

import ast
import re

from m3probe.vllm_source.look import Moved, bindings
from m3probe.vllm_source.tree import Source, Tree

CONFIGS = "vllm/config"
_CLASS = r"^class {}\b"


def is_switch(tree: Tree, config: str, field: str, source: Source | None = None) -> bool:
    """Whether vLLM gives this field a ``--no-`` form.

    So it does to every field whose type holds bool, but for exactly ``bool | str | None``, which may stand alone or
    take a value.

    Raises:
        Moved: no such class or field.
    """
    held = source or _source_of(tree, config)
    owner = fields_of(held, config).get(field)
    if owner is None:
        raise Moved(f"{held.name}: {config} has no field {field}")
    kinds = _kinds(_annotation(owner, config, field), bindings(owner.module))
    return "bool" in kinds and kinds != {"bool", "str", "None"}


def _source_of(tree: Tree, config: str) -> Source:
    """The file of ``vllm/config`` that defines a class, found by its text: parsing all forty costs a second."""
    wanted = re.compile(_CLASS.format(re.escape(config)), re.MULTILINE)
    for name in tree.files(CONFIGS):
        if wanted.search(tree.text(name)):
            return tree.source(name)
    raise Moved(f"{CONFIGS}: no class {config}")


def fields_of(source: Source, config: str, depth: int = 0) -> dict[str, Source]:
    """Field -> the file that holds it, bases of the same file first."""
    definition = source.class_(config)
    if depth > 9:
        raise Moved(f"{source.name}: {config} has too many bases")
    found: dict[str, Source] = {}
    for base in definition.bases:
        if isinstance(base, ast.Name) and source.holds(base.id):
            found |= fields_of(source, base.id, depth + 1)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith(("ClassVar", "InitVar")):
            found[ast.unparse(node.target)] = source
    return found


def _annotation(source: Source, config: str, field: str) -> ast.expr:
    definition = source.class_(config)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == field:
            return node.annotation
    for base in definition.bases:
        if isinstance(base, ast.Name) and source.holds(base.id) and field in fields_of(source, base.id):
            return _annotation(source, base.id, field)
    raise Moved(f"{source.name}: {config} has no field {field}")


def _kinds(node: ast.expr, names: dict[str, ast.expr], depth: int = 0) -> set[str]:
    """Members of a union of types, with Annotated and Optional taken off and names of the file followed."""
    if depth > 20:
        raise Moved("a type that is nested too deeply")
    parts = _parts(node, names)
    if parts is None:
        return {ast.unparse(node)}
    kinds: set[str] = {"None"} if ast.unparse(node).startswith("Optional[") else set()
    return kinds.union(*(_kinds(part, names, depth + 1) for part in parts))


def _parts(node: ast.expr, names: dict[str, ast.expr]) -> list[ast.expr] | None:
    """What a type is made of; None for one that stands for itself."""
    match node:
        case ast.BinOp(op=ast.BitOr()):
            return [node.left, node.right]
        case ast.Constant(value=str(text)):
            return [ast.parse(text, mode="eval").body]
        case ast.Subscript(
            value=ast.Name(id="Annotated" | "Optional" | "SkipValidation" | "Union" as kind), slice=inner
        ):
            parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            return parts[:1] if kind == "Annotated" else parts
        case ast.Name(id=name) if name in names:
            return [names[name]]
    return None
