"""Attention of the draft model: what it takes from the target, per runner."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Moved, calls, evaluate
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.shape import branch, called, speaks_of
from m3probe.vllm_source.tree import Found, Source, Tree

SPECULATIVE, PROPOSER = "vllm/config/speculative.py", "vllm/v1/spec_decode/llm_base_proposer.py"
EAGLE = "vllm/v1/worker/gpu/spec_decode/eagle/utils.py"


def draft_backend(tree: Tree) -> Found:
    """Whether the draft takes the target's attention backend, per runner, and whether its own is heard at V2."""
    inherits, override, place = _v2(tree)
    return Found({"v1_inherits": _v1(tree), "v2_inherits": inherits, "v2_override": override}, place)


def _v1(tree: Tree) -> bool:
    source = tree.source(PROPOSER)
    functions = [
        node
        for node in ast.walk(source.module)
        if isinstance(node, ast.FunctionDef) and node.name == "_create_draft_vllm_config"
    ]
    if len(functions) != 1:
        raise Moved(f"{PROPOSER}: {len(functions)} ways to make the draft's config")
    for statement in functions[0].body:
        for call in calls(statement, "replace"):
            for keyword in call.keywords:
                if keyword.arg == "backend" and ast.unparse(keyword.value).endswith(".attention_backend"):
                    # under a condition an unset backend would leave the target's in place
                    return isinstance(statement, ast.If)
    raise Moved(f"{PROPOSER}: the draft's attention backend is set in another way")


def _v2(tree: Tree) -> tuple[bool, bool, str]:
    """(inherits, override is heard, where)."""
    source = tree.source(EAGLE)
    loads = source.function("load_eagle_model")
    if "get_model" not in called(loads) or speaks_of(loads, "attention_config", "attention_backend"):
        raise Moved(f"{source.where(loads)}: the draft is loaded in another way")
    if "apply_draft_overrides" not in called(loads):
        if speaks_of(loads, "override"):
            raise Moved(f"{source.where(loads)}: overrides by another name")
        return True, False, source.where(loads)
    return _overrides(tree.source(SPECULATIVE))


def _overrides(source: Source) -> tuple[bool, bool, str]:
    table = source.bound("_DRAFT_VLLM_CONFIG_OVERRIDES")
    heard = ("attention_backend", "attention_config", "backend") in [tuple(entry) for entry in evaluate(table)]
    applies = source.function("SpeculativeConfig.apply_draft_overrides")
    only_set = branch(applies, "value")
    if ast.unparse(comparison_of(only_set.test)) != "None":
        raise Moved(f"{source.where(applies)}: unset overrides are applied too")
    same_shape(source, applies, "apply_draft_overrides")
    return True, heard, source.where(table)


def comparison_of(test: ast.expr) -> ast.expr:
    """The right side of ``... is not None``; Moved for another test."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.IsNot):
        raise Moved("a test that is no `is not None`")
    return test.comparators[0]


READERS = {"draft_backend": draft_backend}
