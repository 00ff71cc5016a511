"""An evaluation with drafts accepted them by the target's own judgement, on real text."""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven


def check(facts: GateFacts) -> GateVerdict:
    """rejection_sample_method != synthetic, and prompts are no random tokens, whenever tokens were drafted."""
    run = facts.run
    if run is None or run.speculative is None:
        return unproven("whether the evaluated server drafted tokens was not recorded")
    if not run.speculative:
        return holds("the evaluated server drafted no tokens")
    if run.rejection_method is None:
        return unproven("tokens were drafted; rejection_sample_method was not recorded")
    if run.rejection_method == "synthetic":
        return broken("rejection_sample_method is synthetic: drafts were accepted by rate, the score means nothing")
    if run.dataset == "random":
        return broken("prompts are random tokens: acceptance was 11.96 % on them where real text gave 51.86 %")
    return holds(f"rejection_sample_method is {run.rejection_method}")


GATE = Gate(
    title="eval not run with synthetic acceptance",
    question="Were drafted tokens accepted by the model, or by a configured rate?",
    check=check,
    facts="speculative_config.rejection_sample_method and the dataset in the evaluation's artefact",
    trap="synthetic acceptance left on during an evaluation (SemiAnalysisAI/InferenceX PR 2487); random tokens break "
    "acceptance figures (vLLM PR 53906)",
)
