"""A change of the block selector or of KV transfer is evaluated beyond the length at which every block is selected."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven

ALL_SELECTED = 16 * 128
"""Tokens: top-k 16 blocks of 128. Up to here a wrong selector selects the same blocks."""
SELECTING = ("indexer", "index_reuse", "aiter_sparse_pa", "spec_sparse_pa", "kv_transfer")


def check(facts: GateFacts) -> GateVerdict:
    """Every context > 2,048 tokens when something that selects or moves blocks changed."""
    run = facts.run
    if run is None or run.changed is None:
        return unproven("what changed against the baseline was not recorded")
    touched = [name for name in run.changed if name in SELECTING]
    if not touched:
        return holds("nothing that selects or moves blocks changed")
    if run.context_tokens is None:
        return unproven(f"{', '.join(touched)} changed; the evaluation's context lengths were not recorded")
    shortest, longest = run.context_tokens
    said = f"{', '.join(touched)} changed; contexts of {shortest:,} to {longest:,} tokens"
    if longest <= ALL_SELECTED:
        return broken(f"{said}: up to {ALL_SELECTED:,} every block is selected, so the score tests nothing")
    if shortest <= ALL_SELECTED:
        return unproven(f"{said}: only those above {ALL_SELECTED:,} test the selection")
    return holds(f"{said}, all above {ALL_SELECTED:,}")


GATE = Gate(
    title="eval context > 2,048 tokens when indexer, reuse or KV transfer changed",
    question="Could the evaluation have noticed a wrong selection of blocks?",
    check=check,
    facts="prompt and answer lengths in the evaluation's samples; the two configurations",
    trap="index keys were not transferred and GSM8K passed (ROCm/ATOM PR 1368); index reuse halved long-context scores "
    "that GSM8K called equal (sglang PR 34583)",
)
