"""A request's blocks are freed only after all of its scheduled writes were sealed and completed."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """scheduled == sealed == completed at the moment of the free, per request."""
    if not facts.writes:
        return unproven("no transfer write was recorded")
    for w in facts.writes:
        if w.freed and not w.scheduled == w.sealed == w.completed:
            return broken(
                f"request {w.request}: freed at {w.completed} completed of {w.sealed} sealed and {w.scheduled} scheduled"
            )
    open_ = [w for w in facts.writes if not w.freed]
    if open_:
        w = open_[0]
        return unproven(
            f"{len(open_)} of {len(facts.writes)} requests were not freed yet: {w.request} has {w.completed} of "
            f"{w.scheduled} writes completed"
        )
    return holds(
        f"{len(facts.writes)} requests freed after {sum(w.scheduled for w in facts.writes):,} completed writes"
    )


GATE = Gate(
    title="writes scheduled = sealed = completed before free",
    question="Is a block ever given back while a transfer still reads it?",
    check=check,
    facts="MoRIIOWriter.schedule_write, seal_pending_transfers, _finalize_if_complete",
    trap="blocks freed before the last write: rare corruption under load (vLLM PR 46290)",
)
