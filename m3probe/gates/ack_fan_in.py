"""A producer rank waits for as many acknowledgements as consumer ranks read from it."""

from m3probe.schema.gates import Acks, Gate, GateFacts, GateVerdict, broken, holds, unproven


def expected_acks(producer_tp: int, consumer_tp: int) -> int | None:
    """max(1, D_tp / P_tp); None where neither is a multiple (vLLM refuses the pair).

    Source: ``get_moriio_expected_ack_count``, moriio_connector.py, the same in 0.25.1, 0.32 and 0.33; absent in 0.24.
    """
    if consumer_tp <= producer_tp:
        return 1
    return consumer_tp // producer_tp if consumer_tp % producer_tp == 0 else None


def check(facts: GateFacts) -> GateVerdict:
    """Acks received before the free == max(1, D_tp / P_tp) per producer rank."""
    if not facts.acks:
        return unproven("no acknowledgement was counted")
    return next((v for v in map(_wrong, facts.acks) if v), None) or holds(
        f"{len(facts.acks)} producer ranks freed after "
        f"{expected_acks(facts.acks[0].producer_tp, facts.acks[0].consumer_tp)} acknowledgements each"
    )


def _wrong(a: Acks) -> GateVerdict | None:
    pair = f"P TP{a.producer_tp}, D TP{a.consumer_tp}"
    expected = expected_acks(a.producer_tp, a.consumer_tp)
    if expected is None:
        return broken(f"{pair}: {a.consumer_tp} is no multiple of {a.producer_tp}")
    if a.received != expected:
        return broken(f"{pair}: rank {a.producer_rank} freed after {a.received} of {expected} acknowledgements")
    return None


GATE = Gate(
    title="acks = D_tp / P_tp per producer rank",
    question="Does a producer wait for every consumer rank that reads its blocks?",
    check=check,
    facts="the connector's notification counts per transfer id",
    trap="prefill TP4 and decode TP8: one ack freed blocks that a second rank still read (vLLM PR 46332, issue 41211)",
)
