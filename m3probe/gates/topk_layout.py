"""The layout of the top-k buffer is said beside it, not guessed from its shape."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """Buffer tag == reader tag; equal dims without tags are ambiguous."""
    seen = facts.topk
    if seen is None:
        return unproven("the top-k buffer was not recorded")
    if seen.buffer is None or seen.reader is None:
        if seen.heads is not None and seen.heads == seen.tokens:
            return unproven(f"no layout tag, and heads = tokens = {seen.heads}: the shape cannot tell")
        return unproven("the layout of the buffer or of its reader was not recorded")
    if seen.buffer != seen.reader:
        return broken(f"the buffer is {seen.buffer}, its reader takes {seen.reader}")
    return holds(f"buffer and reader are {seen.buffer}")


GATE = Gate(
    title="the layout tag travels with the top-k buffer",
    question="Do writer and reader of the chosen block ids agree on head-major or token-major?",
    check=check,
    facts="topk_indices_buffer and the attend that reads it: [heads, tokens, k] on ROCm, [tokens, heads, k] elsewhere",
    trap="head-major and token-major were told apart by shape; with equal dims the wrong blocks were read (vLLM PR 48929)",
)
