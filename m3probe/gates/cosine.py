"""Outputs of a kernel agree in direction with a float32 reference."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven

LEAST = 0.999


def check(facts: GateFacts) -> GateVerdict:
    """Every recorded cosine > 0.999."""
    if not facts.cosines:
        return unproven("no cosine file was read")
    worst = min(facts.cosines, key=lambda c: c.value)
    said = f"lowest of {len(facts.cosines)} cosines: {worst.value:.4f} ({worst.name})"
    return holds(f"{said} > {LEAST}") if worst.value > LEAST else broken(f"{said}, must be > {LEAST}")


GATE = Gate(
    title="cosine with a float32 reference > 0.999",
    question="Does one layer's output agree with its reference?",
    check=check,
    facts="a JSON file of cosines by name, from a module run beside its reference",
    trap="the sum over expert-parallel shards against the unmasked output: 0.527 with the mask read wrongly, 1.0 when "
    "fixed (vLLM PR 47158)",
)
