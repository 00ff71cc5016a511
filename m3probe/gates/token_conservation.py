"""Rows over all experts are the rows that came in, times the experts each was sent to."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """sum(rows per expert) == M x top-k in every recorded layer (top-k 5 with the fused shared expert)."""
    if not facts.routed:
        return unproven("no routing histogram was recorded")
    for seen in facts.routed:
        sent = seen.rows * seen.top_k
        if seen.counted != sent:
            return broken(
                f"{seen.layer}: {seen.counted:,} rows over its experts, {seen.rows:,} x {seen.top_k} = {sent:,} were sent"
            )
    return holds(f"rows are conserved in {len(facts.routed)} recorded layers")


GATE = Gate(
    title="sum(rows per expert) = M x top-k",
    question="Does every routed row reach an expert, once?",
    check=check,
    facts="top-k ids of the router, histogrammed by expert",
    trap="moe_align put the fused shared expert's id (128 of 128 routed ones) into a wrong bin (vLLM PR 46545)",
)
