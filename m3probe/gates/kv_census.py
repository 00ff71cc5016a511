"""Every cache of every layer is transferred: 3 dense and 57 sparse KV caches and 57 index-key caches, to the byte."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """Registered caches by kind == the model's layers; bytes sent == bytes of the specs, layer by layer."""
    wrong = _census(facts) or _bytes(facts)
    if wrong:
        return broken(wrong)
    c = facts.caches
    if c is None or None in (c.dense, c.sparse, c.index, c.dense_layers, c.sparse_layers):
        return unproven("registered caches by kind, or the model's layers: not recorded")
    said = f"{c.dense} + {c.sparse} + {c.index} caches registered"
    if not facts.sent:
        return unproven(f"{said}; bytes sent per layer were not recorded")
    total = sum(s.sent_bytes for s in facts.sent)
    return holds(f"{said}; {total:,} B sent in {len(facts.sent)} layers, as their specs say")


def _census(facts: GateFacts) -> str:
    c = facts.caches
    if c is None:
        return ""
    kinds = (
        ("dense KV", c.dense, c.dense_layers),
        ("sparse KV", c.sparse, c.sparse_layers),
        ("index-key", c.index, c.sparse_layers),
    )
    for kind, seen, layers in kinds:
        if seen is not None and layers is not None and seen != layers:
            return f"{seen} {kind} caches are registered for {layers} layers"
    return ""


def _bytes(facts: GateFacts) -> str:
    for s in facts.sent or ():
        if s.sent_bytes != s.spec_bytes:
            return f"{s.layer}: {s.sent_bytes:,} B sent, its spec says {s.spec_bytes:,} B"
    return ""


GATE = Gate(
    title="KV census 3 + 57 + 57, and bytes sent = sum of the layers' specs",
    question="Does a transfer move every layer's cache by its own geometry, index keys included?",
    check=check,
    facts="KVCacheConfig groups, layers and byte counts that the connector registered and sent",
    trap="layer 0's geometry taken for all: transfers complete, throughput healthy, GSM8K 0.0008 (vLLM PR 46039); index "
    "keys not registered: GSM8K passes, long contexts are wrong (ROCm/ATOM PR 1368)",
)
