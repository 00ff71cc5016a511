"""Every slice of every fused parameter was loaded, and the experts run M3's activation."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven

ACTIVATION = (1.702, 1.0, 7.0)
"""SwiGLU-OAI alpha, beta, clamp (transformers_utils/configs/minimax_m3.py)."""


def check(facts: GateFacts) -> GateVerdict:
    """Declared slices == loaded slices, and (alpha, beta, limit) == (1.702, 1.0, 7.0)."""
    for param in facts.fused or ():
        missing = sorted(set(param.declared) - set(param.loaded))
        if missing:
            loaded = len(set(param.declared) & set(param.loaded))
            return broken(
                f"{param.name}: {loaded} of {len(param.declared)} slices were loaded; missing {', '.join(missing)}"
            )
    if facts.activation is not None and facts.activation != ACTIVATION:
        return broken(f"experts run SwiGLU-OAI with (alpha, beta, limit) = {facts.activation}, not {ACTIVATION}")
    if facts.fused is None or facts.activation is None:
        lacking = "loaded slices" if facts.fused is None else "the experts' activation"
        return unproven(f"{lacking}: not recorded")
    if not facts.fused:
        return unproven("no fused parameter was seen while loading")
    return holds(f"all slices of {len(facts.fused)} fused parameters were loaded; activation {ACTIVATION}")


GATE = Gate(
    title="fused parameters loaded whole, expert activation (1.702, 1.0, 7.0)",
    question="Did every slice of the fused weights arrive, and does the activation keep its clamp?",
    check=check,
    facts="packed_modules_mapping, the loader's set of filled slices, the experts' config",
    trap="a fused-parameter map without M3's names dropped slices, and a lost clamp gives garbage in 57 of 60 layers "
    "(vLLM PR 45794, sglang PR 29182)",
)
