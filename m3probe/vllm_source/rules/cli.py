"""The command line of ``vllm serve``: every flag, and which of them take no value.

Read from the calls of ``add_argument`` in ``engine/arg_utils.py`` and in the file that ``entrypoints/cli/serve.py``
takes its parser from (it lay in three places by 0.33), and from the dataclass fields that vLLM makes flags of.
argparse's own ``--help`` is left out: it starts no server.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.vllm_source.look import Function, Moved, bindings, calls
from m3probe.vllm_source.rules._fields import fields_of, is_switch
from m3probe.vllm_source.tree import Found, Source, Tree

ENGINE, SERVE, PARSER = "vllm/engine/arg_utils.py", "vllm/entrypoints/cli/serve.py", "vllm/utils/argparse_utils.py"
ENGINE_CLASSES = ("EngineArgs", "AsyncEngineArgs")
_SWITCHES = ("store_true", "store_false", "store_const", "count")


@dataclass(frozen=True, slots=True)
class _Flag:
    names: tuple[str, ...]
    switch: bool


def flags(tree: Tree) -> Found:
    """Every flag and short form, sorted."""
    found = _flags(tree)
    return _place(tree, {name for flag in found for name in flag.names} | _rewritten(tree))


def switches(tree: Tree) -> Found:
    """Those without a value, sorted."""
    return _place(tree, {name for flag in _flags(tree) if flag.switch for name in flag.names})


def _place(tree: Tree, names: set[str]) -> Found:
    source = tree.source(ENGINE)
    return source.found(source.defined("EngineArgs.add_cli_args"), sorted(names))


def _flags(tree: Tree) -> list[_Flag]:
    engine, front = tree.source(ENGINE), tree.source(_front_file(tree))
    makes = front.function("make_arg_parser")
    found = list(_added(tree, makes))
    for call in calls(makes, "add_cli_args"):
        owner = ast.unparse(call.func).removesuffix(".add_cli_args")
        if owner not in ENGINE_CLASSES:
            found += _front_fields(tree, front, owner)
    for owner in ENGINE_CLASSES:
        found += _added(tree, engine.function(f"{owner}.add_cli_args"))
    return found


def _front_file(tree: Tree) -> str:
    for node in ast.walk(tree.source(SERVE).module):
        if isinstance(node, ast.ImportFrom) and any(name.name == "make_arg_parser" for name in node.names):
            return f"{(node.module or '').replace('.', '/')}.py"
    raise Moved(f"{SERVE}: its parser comes from elsewhere")


def _added(tree: Tree, function: Function) -> Iterator[_Flag]:
    """Flags of the ``add_argument`` calls of one function."""
    for call in calls(function, "add_argument"):
        names = tuple(_text(argument) for argument in call.args)
        if not all(name.startswith("-") for name in names):
            if any(name.startswith("-") for name in names) or len(names) != 1:
                raise Moved(f"an argument of names {names}")
            continue  # the positional model
        yield _Flag(names, _takes_none(tree, function, call.keywords))


def _text(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise Moved(f"a flag that is no text: {ast.unparse(node)}")
    return node.value


def _takes_none(tree: Tree, function: Function, keywords: list[ast.keyword]) -> bool:
    named = {keyword.arg: keyword.value for keyword in keywords}
    if "action" in named:
        return _is_switch_action(named["action"])
    return any(_unpacked(tree, function, value) for key, value in named.items() if key is None)


def _is_switch_action(action: ast.expr) -> bool:
    if isinstance(action, ast.Constant):
        return action.value in _SWITCHES
    return ast.unparse(action).rpartition(".")[2] == "BooleanOptionalAction"


def _unpacked(tree: Tree, function: Function, node: ast.expr, depth: int = 0) -> bool:
    """Whether ``**node`` makes a switch: ``kwargs_of_a_config["field"]``, a name bound to that, or a dict of it."""
    local = bindings(function)
    match node:
        case ast.Subscript(value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=config)]), slice=field):
            return is_switch(tree, config, _text(field))
        case ast.Subscript(value=ast.Name(id=name), slice=field) if depth < 9 and name in local:
            return _unpacked(tree, function, ast.Subscript(local[name], field), depth + 1)
        case ast.Name(id=name) if depth < 9 and name in local:
            return _unpacked(tree, function, local[name], depth + 1)
        case ast.Dict():
            inner = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
            changed = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(inner) == 1 and not changed & {"action", "nargs"}:
                return _unpacked(tree, function, inner[0], depth + 1)
    raise Moved(f"arguments made in another way: {ast.unparse(node)}")


def _front_fields(tree: Tree, front: Source, owner: str) -> Iterator[_Flag]:
    """Flags that vLLM makes of a dataclass: ``--`` and the field's name with dashes."""
    for name, source in fields_of(front, owner).items():
        if any(isinstance(n, ast.Constant) and n.value == "flags" for n in ast.walk(source.defined(owner))):
            raise Moved(f"{front.name}: {owner} adds other names")
        yield _Flag((f"--{name.replace('_', '-')}",), is_switch(tree, owner, name, source))


def _rewritten(tree: Tree) -> set[str]:
    """Short forms that the parser itself turns into a flag: ``-O3`` is ``--optimization-level 3``."""
    source = tree.source(PARSER)
    found = {
        part.value
        for part in ast.walk(source.defined("FlexibleArgumentParser"))
        if isinstance(part, ast.Constant) and part.value == "-O"
    }
    return {str(name) for name in found}


READERS = {"cli_flags": flags, "cli_switches": switches}
