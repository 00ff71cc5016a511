"""A rank's expert mask marks its own experts, not all, and together the ranks hold each expert once."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """Popcount == E_local on each rank; the sum over ranks == E."""
    if not facts.masks:
        return unproven("no expert mask was recorded")
    for mask in facts.masks:
        if mask.marked != mask.local:
            return broken(
                f"rank {mask.rank}: the mask marks {mask.marked} experts as local, the rank holds {mask.local}"
            )
    total = sum(mask.marked for mask in facts.masks)
    if facts.experts is None:
        return unproven(f"each mask marks what its rank holds, {total} in all; the model's experts were not recorded")
    if total > facts.experts:
        return broken(f"{len(facts.masks)} ranks mark {total} experts, the model has {facts.experts}")
    if total < facts.experts:
        return unproven(f"{len(facts.masks)} ranks mark {total} of {facts.experts} experts: a rank is missing")
    return holds(f"{len(facts.masks)} ranks mark {total} of {facts.experts} experts, each what it holds")


GATE = Gate(
    title="expert-mask popcount = E_local, and the sum over shards = E",
    question="Does each expert-parallel rank compute its own experts only?",
    check=check,
    facts="expert map and mask tensors of every EP rank",
    trap="AITER read vLLM's map as a mask: all 128 experts looked local, cosine 0.527 instead of 1.0, GSM8K fell only "
    "with EP and AITER both on (vLLM PR 47158)",
)
