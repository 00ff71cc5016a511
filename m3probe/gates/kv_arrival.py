"""A request whose remote KV arrived runs."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """Requests that ran == requests whose KV was received, once traffic has ended."""
    seen = facts.arrivals
    if seen is None or not seen.received:
        return unproven("no arrival of remote KV was recorded")
    said = f"{seen.ran} of {seen.received} requests whose remote KV arrived ran"
    return holds(said) if seen.ran == seen.received else broken(f"{said}; the others wait for ever")


GATE = Gate(
    title="requests received = requests run",
    question="Is any request stranded in WAITING_FOR_REMOTE_KVS with its KV already here?",
    check=check,
    facts="finished_recving and the scheduler's later RUNNING, counted after the last arrival",
    trap="a completion told twice stranded requests: 97 of 128 and 113 of 128 finished, no error, the benchmark never "
    "ended (vLLM PR 53549, 57705)",
)
