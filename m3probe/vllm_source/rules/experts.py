"""MoE backends: the order of ``auto``, what ``--moe-backend`` names become, what AITER's MXFP8 experts ask."""

from __future__ import annotations

import ast

from m3probe.vllm_source.look import Absent, Moved, bindings, bound, evaluate, members, texts
from m3probe.vllm_source.rules._known import same_shape
from m3probe.vllm_source.rules._platform import mx_archs
from m3probe.vllm_source.shape import branches, identifiers, speaks_of
from m3probe.vllm_source.tree import Found, Source, Tree

ROOM = "vllm/model_executor/layers/fused_moe"
MXFP8, MXFP4 = f"{ROOM}/oracle/mxfp8.py", f"{ROOM}/oracle/mxfp4.py"
AITER = f"{ROOM}/experts/aiter_mxfp8_moe.py"
CLASS = "AiterMxfp8Experts"
CONFIG = "vllm/config/kernel.py"


def order(tree: Tree) -> Found:
    """Members in the order that ``auto`` asks them on ROCm, those included that only another platform supports."""
    source = tree.source(MXFP8)
    table = source.bound("_SUPPORTED_BACKENDS")
    return source.found(
        table, {"mxfp8": members(evaluate(table), "Fp8MoeBackend") + _rocm_mxfp8(source), "mxfp4": _mxfp4_order(tree)}
    )


def _rocm_mxfp8(source: Source) -> list[str]:
    """0.24 and 0.25.1 try these after the table, by ``supports_mx``; later ones have them in the table."""
    choice = source.function("select_mxfp8_moe_backend")
    same_shape(source, choice, "select_mxfp8_moe_backend")
    if not branches(choice, "is_rocm"):
        if speaks_of(choice, "rocm"):
            raise Moved(f"{MXFP8}: ROCm is asked for in another way")
        return []
    last = source.function("_select_rocm_mxfp8_backend")
    same_shape(source, last, "_select_rocm_mxfp8_backend")
    return _returned_members(last, "Fp8MoeBackend")


def _returned_members(function: ast.AST, enum: str) -> list[str]:
    found = []
    for part in ast.walk(function):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple):
            name = ast.unparse(part.value.elts[0])
            if name.startswith(f"{enum}."):
                found.append((part.lineno, name.removeprefix(f"{enum}.")))
    if not found:
        raise Moved(f"no member of {enum} is returned")
    return [name for _, name in sorted(found)]


def _mxfp4_order(tree: Tree) -> list[str]:
    source = tree.source(MXFP4)
    choice = source.function("select_mxfp4_moe_backend")
    if "_get_priority_backends_for_gpt_oss" not in set(identifiers(choice)):
        raise Moved(f"{MXFP4}: auto takes its order from elsewhere")
    same_shape(source, choice, "select_mxfp4_moe_backend")
    same_shape(source, source.function("_filter_by_activation"), "_filter_by_activation")
    listed = bound(source.function("_get_priority_backends_for_gpt_oss"), "_AVAILABLE_BACKENDS")
    return members(evaluate(listed), "Mxfp4MoeBackend") + _rocm_mxfp4(choice)


def _rocm_mxfp4(choice: ast.AST) -> list[str]:
    """0.24 and 0.25.1: the one that is taken on ROCm when nothing of the list is supported."""
    return [
        members(evaluate(part.value), "Mxfp4MoeBackend")[0]
        for test in branches(choice, "is_rocm")
        for part in test.body
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "backend"
    ]


def names(tree: Tree) -> Found:
    """What each ``--moe-backend`` name becomes; a name that is missing here is refused at start."""
    source = tree.source(MXFP8)
    table = source.bound("_BACKEND_NAME_MAP")
    mxfp4 = tree.source(MXFP4)
    families = bound(mxfp4.function("map_mxfp4_backend"), "mapping")
    value = {
        "mxfp8": {
            name: members(held, "Fp8MoeBackend") for name, held in evaluate(table, bindings(source.module)).items()
        },
        "mxfp4": {
            name: members(held, "Mxfp4MoeBackend") for name, held in evaluate(families, bindings(mxfp4.module)).items()
        },
    }
    return source.found(table, value)


def words(tree: Tree) -> Found:
    """The closed list of ``--moe-backend``: the command line refuses any other word, whatever the checkpoint."""
    source = tree.source(CONFIG)
    choices = source.bound("MoEBackend")
    if not isinstance(choices, ast.Subscript) or ast.unparse(choices.value) != "Literal":
        raise Moved(f"{CONFIG}: MoEBackend is no Literal")
    return source.found(choices, texts(choices.slice))


def mxfp8_aiter(tree: Tree) -> Found:
    """What AITER's MXFP8 experts ask of the GPU, the environment, AITER and the activation."""
    tree.source(MXFP8).function("select_mxfp8_moe_backend")
    if not speaks_of(tree.source(MXFP8).module, "aiter"):
        raise Absent(f"{MXFP8}: no AITER backend")
    source = tree.source(AITER)
    experts = source.defined(CLASS)
    device = set(identifiers(source.function(f"{CLASS}._supports_current_device")))
    config = source.function(f"{CLASS}.is_supported_config")
    if "supports_mx" not in device:
        raise Moved(f"{AITER}: the GPU is asked for in another way")
    asked = set(identifiers(config))
    alpha, beta = _constants(source, config)
    same_shape(source, source.function(f"{CLASS}._supports_current_device"), "_supports_current_device")
    same_shape(source, config, "mxfp8_is_supported_config")
    value = {
        "archs": mx_archs(tree).value,
        "aiter_env": "is_fused_moe_enabled" in device,
        "gate_mode": "fused_moe_supports_gate_mode" in device,
        "alpha": alpha,
        "beta": beta,
        "activation_checked": "MoEActivation" in asked,
    }
    return source.found(experts, value)


def _constants(source: Source, config: ast.AST) -> tuple[float | None, float | None]:
    asked = [name for name in ("_AITER_SWIGLU_ALPHA", "_AITER_SWIGLU_BETA") if name in set(identifiers(config))]
    if not asked:
        if speaks_of(config, "alpha", "beta"):
            raise Moved(f"{AITER}: alpha and beta are asked for in another way")
        return None, None
    alpha, beta = (evaluate(source.bound(name)) for name in asked)
    return float(alpha), float(beta)


READERS = {
    "moe_backend_order": order,
    "moe_backend_names": names,
    "moe_backend_words": words,
    "mxfp8_moe_aiter": mxfp8_aiter,
}
