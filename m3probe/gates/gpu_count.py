"""The GPUs that a per-GPU figure is divided by are the GPUs that were launched."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """GPUs in the denominator == sum over groups of workers x ranks."""
    if facts.gpus is None or not facts.workers:
        return unproven("the denominator, or the launch commands, were not recorded")
    total = sum(w.workers * w.ranks for w in facts.workers)
    parts = " + ".join(f"{w.workers} x {w.ranks}" for w in facts.workers)
    said = f"launched {parts} = {total} GPUs, divided by {facts.gpus}"
    if total == facts.gpus:
        return holds(said)
    return broken(f"{said}: the per-GPU figure is off by {total / facts.gpus:.2f}" if facts.gpus else said)


GATE = Gate(
    title="GPUs in the denominator = sum(workers x TP)",
    question="Is a per-GPU figure divided by the GPUs that ran?",
    check=check,
    facts="launch commands of every worker, and the benchmark's own GPU count",
    trap="a wrong count halved throughput per GPU (SemiAnalysisAI/InferenceX PR 1914)",
)
