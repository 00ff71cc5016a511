"""The environment variables that a build knows (``envs.py``) and what an on/off one is when unset."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, calls, evaluate
from m3probe.vllm_source.tree import Found, Tree

FILE = "vllm/envs.py"


def registered(tree: Tree) -> dict[str, ast.expr]:
    """Name -> reader of every variable in ``environment_variables``, in its order.

    Raises:
        Moved: the table is no plain dictionary of string keys.
    """
    table = tree.source(FILE).bound("environment_variables")
    if not isinstance(table, ast.Dict):
        raise Moved(f"{FILE}: environment_variables is no dictionary")
    found: dict[str, ast.expr] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise Moved(f"{FILE}: a key of environment_variables is no text")
        found[key.value] = value
    return found


def default_of(tree: Tree, name: str) -> Found:
    """An on/off variable when unset: ``os.getenv(NAME, DEFAULT).lower() in ("true", "1")``.

    Raises:
        Moved: it is unknown or read in another way.
    """
    reader = registered(tree).get(name)
    if not isinstance(reader, ast.Lambda) or not isinstance(reader.body, ast.Compare):
        raise Moved(f"{FILE}: {name} is not read as on or off")
    test = reader.body
    read = list(calls(test.left, "getenv"))
    if len(read) != 1 or not isinstance(test.ops[0], ast.In) or not list(calls(test.left, "lower")):
        raise Moved(f"{FILE}: {name} is not read as on or off")
    asked, default = (evaluate(argument) for argument in read[0].args)
    on = evaluate(test.comparators[0])
    if asked != name or not isinstance(default, str):
        raise Moved(f"{FILE}: {name} is read from {asked}")
    return tree.source(FILE).found(reader, default.lower() in on)
