"""Layers that share attention metadata agree on backend, KV spec and query heads; target and draft never share."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, GroupedLayer, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """One value of each part of the key per group."""
    if not facts.groups:
        return unproven("no attention group was recorded")
    verdicts = [_group(layers) for layers in facts.groups]
    bad = next((v for v in verdicts if v), "")
    if bad:
        return broken(bad)
    if any(None in (x.backend, x.kv_spec, x.q_heads, x.draft) for layers in facts.groups for x in layers):
        return unproven("a layer's backend, KV spec, query heads or model (target or draft) was not recorded")
    layers = sum(len(g) for g in facts.groups)
    return holds(f"{layers} layers in {len(facts.groups)} groups, one backend, KV spec and query-head count in each")


def _group(layers: tuple[GroupedLayer, ...]) -> str:
    parts: dict[str, set[object]] = {
        "backends": {x.backend for x in layers},
        "KV specs": {x.kv_spec for x in layers},
        "query-head counts": {x.q_heads for x in layers},
    }
    for word, seen in parts.items():
        known = sorted(str(value) for value in seen - {None})
        if len(known) > 1:
            return f"{layers[0].layer} and {len(layers) - 1} more share a group with {len(known)} {word}: {', '.join(known)}"
    if {x.draft for x in layers} >= {True, False}:
        target = next(x.layer for x in layers if x.draft is False)
        draft = next(x.layer for x in layers if x.draft)
        return f"{draft} of the draft shares a group with {target} of the target"
    return ""


GATE = Gate(
    title="attention-group key holds backend, KV spec and query heads",
    question="Does any layer run on attention metadata that was built for another kind of layer?",
    check=check,
    facts="KVCacheConfig groups, each layer's impl (backend, num_heads), draft_attn_layer_names",
    trap="a key without the query-head count: crash at init, or metadata of a wrong GQA ratio when an MHA draft "
    "(64 KV heads) sits beside the GQA target (vLLM PR 45564, 43543)",
)
