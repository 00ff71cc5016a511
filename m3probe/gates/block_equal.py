"""A KV block is one sparse block of 128 tokens."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven

BLOCK = 128


def check(facts: GateFacts) -> GateVerdict:
    """KV block == sparse block == 128."""
    blocks = facts.blocks
    if blocks is None or blocks.kv is None or blocks.sparse is None:
        return unproven("the KV block or the sparse block was not recorded")
    said = f"KV block {blocks.kv}, sparse block {blocks.sparse}"
    return holds(said) if blocks.kv == blocks.sparse == BLOCK else broken(f"{said}; both must be {BLOCK} tokens")


GATE = Gate(
    title="KV block = sparse block = 128",
    question="Does a chosen block id name the 128 tokens that the selector scored?",
    check=check,
    facts="cache_config.block_size as resolved, sparse_attention_config.sparse_block_size",
    trap="with another page size the top 16 blocks become 16 other pieces of the context, without an error "
    "(sglang-jax issue 1376)",
)
