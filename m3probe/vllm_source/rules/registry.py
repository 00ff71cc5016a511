"""The environment variables that vLLM itself knows, and which of their values keep an engine from starting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from m3probe.vllm_source.look import Function, Moved, calls, defined, evaluate, parameter_default, texts
from m3probe.vllm_source.rules._env import FILE, registered
from m3probe.vllm_source.shape import raises
from m3probe.vllm_source.tree import Found, Tree

ENGINE = "vllm/v1/engine/core.py"
# Helpers of envs.py -> what they call on the text that is set; each is looked into before it is believed.
_HELPERS = {"maybe_convert_int": "int", "maybe_convert_bool": "int"}
_CHOICES = {"env_with_choices": False, "env_list_with_choices": True, "env_set_with_choices": True}


def env_registry(tree: Tree) -> Found:
    """Every VLLM_* name; others in the same table (CUDA_HOME, NO_COLOR) belong to other programs too."""
    names = sorted(name for name in registered(tree) if name.startswith("VLLM_"))
    if not names:
        raise Moved(f"{FILE}: no VLLM_* name")
    source = tree.source(FILE)
    return source.found(source.bound("environment_variables"), names)


def env_int(tree: Tree) -> Found:
    """Variables of the whole table whose text goes through ``int``, ``bool(int(...))`` included."""
    return _converted(tree, "int")


def env_float(tree: Tree) -> Found:
    """The same with ``float``."""
    return _converted(tree, "float")


def _converted(tree: Tree, kind: str) -> Found:
    source, start = tree.source(FILE), _read_at_start(tree)
    for helper, converts in _HELPERS.items():
        last = source.function(helper).body[-1]
        if not isinstance(last, ast.Return) or not list(calls(last, converts)):
            raise Moved(f"{FILE}: {helper} does not end in {converts}()")
    return source.found(start, sorted(n for n, read in registered(tree).items() if kind in _kinds(tree, n, read)))


def _read_at_start(tree: Tree) -> Function:
    """The function that reads every variable of the table once, which the engine calls when it is set up."""
    start = tree.source(FILE).function("enable_envs_cache")
    for part in ast.walk(start):
        if isinstance(part, ast.For) and ast.unparse(part.iter) == "environment_variables":
            if not any(call.args and ast.unparse(call.args[0]) == "key" for call in calls(part, "__getattr__")):
                break
            setup = tree.source(ENGINE).function("EngineCore.__init__")
            if not list(calls(setup, "enable_envs_cache")):
                raise Moved(f"{ENGINE}: the engine does not read every variable")
            return start
    raise Moved(f"{FILE}: enable_envs_cache does not read every variable")


def _kinds(tree: Tree, name: str, reader: ast.expr) -> set[str]:
    """What a variable's own text is converted by; a text that only another variable's reader converts is left out."""
    found: set[str] = set()
    for scope in _scopes(tree, reader):
        held = {ast.unparse(t): n.value for n in ast.walk(scope) if isinstance(n, ast.Assign) for t in n.targets}
        for call in ast.walk(scope):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
                continue
            kind = _HELPERS.get(call.func.id, call.func.id)
            if kind in ("int", "float") and _reads(held.get(ast.unparse(call.args[0]), call.args[0]), name):
                found.add(kind)
    return found


def _scopes(tree: Tree, reader: ast.expr) -> Iterator[ast.AST]:
    """The reader, and the function of the same file that it is or calls without arguments."""
    yield reader
    body = reader.body if isinstance(reader, ast.Lambda) else reader
    called = body.func if isinstance(body, ast.Call) and not body.args else body
    module = tree.source(FILE).module
    if isinstance(called, ast.Name) and any(isinstance(n, Function) and n.name == called.id for n in module.body):
        yield defined(module, called.id)


def _reads(node: ast.expr, name: str) -> bool:
    """``os.getenv(NAME, ...)``, ``os.environ.get(NAME, ...)`` or ``os.environ[NAME]``, nothing around it."""
    match node:
        case ast.Call(func=func, args=[ast.Constant(value=said), *_]):
            return said == name and ast.unparse(func) in ("os.getenv", "os.environ.get")
        case ast.Subscript(value=value, slice=ast.Constant(value=said)):
            return said == name and ast.unparse(value) == "os.environ"
    return False


def env_choices(tree: Tree) -> Found:
    """Variables with a closed list of words: {"words": [...], "case": whether it counts, "many": joined by commas}."""
    source, start = tree.source(FILE), _read_at_start(tree)
    for helper in ("env_with_choices", "env_list_with_choices"):
        if not any(isinstance(n, ast.If) and raises(n.body) for n in ast.walk(source.function(helper))):
            raise Moved(f"{FILE}: {helper} raises nothing")
    found: dict[str, dict[str, Any]] = {}
    for name, reader in registered(tree).items():
        if isinstance(reader, ast.Call) and ast.unparse(reader.func) in _CHOICES:
            found[name] = _choice(source.function(ast.unparse(reader.func)), reader)
    return source.found(start, dict(sorted(found.items())))


def _choice(helper: Function, reader: ast.Call) -> dict[str, Any]:
    given = dict(zip([arg.arg for arg in helper.args.args], reader.args, strict=False))
    given |= {word.arg: word.value for word in reader.keywords if word.arg}
    if "choices" not in given:
        raise Moved(f"{FILE}: {ast.unparse(reader)} names no choices")
    case = evaluate(given.get("case_sensitive") or parameter_default(helper, "case_sensitive"))
    return {"words": texts(given["choices"]), "case": bool(case), "many": _CHOICES[helper.name]}


READERS = {"env_registry": env_registry, "env_int": env_int, "env_float": env_float, "env_choices": env_choices}
