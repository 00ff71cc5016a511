"""An accuracy figure was read, with its noise, and it is that of a healthy server."""

from math import sqrt

from m3probe.schema.gates import EvalRun, Gate, GateFacts, GateVerdict, Score, broken, holds, unproven

HEALTHY = 0.94
"""GSM8K of healthy MiniMax M3 servers: 0.94 to 0.966 in the threads read."""
RUINED = 0.01
"""GSM8K of servers with a broken KV layout or dtype: 0.0008 and 0.0099."""
Z = 1.96
WIDEST = 0.02
"""A 95 % band wider than this cannot tell 0.95 from 0.93: too few questions."""


def stderr(score: Score) -> float | None:
    """The file's standard error, or sqrt(p (1 - p) / n); None without either."""
    if score.stderr is not None:
        return score.stderr
    return sqrt(score.value * (1 - score.value) / score.n) if score.n else None


def noise(one: Score, other: Score) -> float | None:
    """Differences below this are noise: 1.96 x sqrt(s1^2 + s2^2). At n = 1,319 and 0.95 about 0.017."""
    first, second = stderr(one), stderr(other)
    return None if first is None or second is None else Z * sqrt(first**2 + second**2)


def check(facts: GateFacts) -> GateVerdict:
    """Not below its baseline by more than noise; without a baseline, GSM8K in the healthy band."""
    run = facts.run
    if run is None or run.score is None:
        return unproven("no evaluation file was read")
    if run.measured_on and run.serving and run.measured_on != run.serving:
        return unproven(f"the score is of {run.measured_on}, the server runs {run.serving}")
    if run.score.task.startswith("gsm8k") and run.score.value <= RUINED:
        return broken(f"{_said(run.score)}: as low as a broken KV layout (0.0008) or FP8 flavour (0.0099)")
    return _against(run, run.baseline) if run.baseline else _alone(run.score)


def _said(score: Score) -> str:
    n = f", n = {score.n:,}" if score.n else ""
    return f"{score.task} {score.value:.4f}{n}"


def _against(run: EvalRun, baseline: Score) -> GateVerdict:
    score = run.score
    if score is None or score.task != baseline.task or score.metric != baseline.metric:
        return unproven("score and baseline are not of one task and metric")
    band = noise(score, baseline)
    if band is None:
        return unproven(f"{_said(score)} against {baseline.value:.4f}: no n and no standard error, so no noise band")
    change = score.value - baseline.value
    said = f"{_said(score)} against {baseline.value:.4f}: {change:+.4f}, noise below {band:.4f}"
    return broken(said) if change < -band else holds(said)


def _alone(score: Score) -> GateVerdict:
    if not score.task.startswith("gsm8k"):
        return unproven(f"{_said(score)}: no baseline to hold it against")
    error = stderr(score)
    if error is None:
        return unproven(f"{_said(score)}: no n and no standard error, so no noise band")
    band = Z * error
    if band > WIDEST:
        return unproven(f"{_said(score)} +- {band:.4f}: too few questions")
    if score.value + band < HEALTHY:
        return unproven(f"{_said(score)} +- {band:.4f}: below every healthy run read ({HEALTHY} to 0.966), no baseline")
    return holds(f"{_said(score)} +- {band:.4f}: in the healthy band (from {HEALTHY})")


GATE = Gate(
    title="evaluation file read, within noise of healthy",
    question="Is the model's accuracy what it should be, by more than chance?",
    check=check,
    facts="results JSON of lm-eval, or of vLLM's GSM8K script, and of a baseline under the same prompts",
    trap="GSM8K 0.0008 with healthy throughput (vLLM PR 46039); degenerate output of AITER on TP only: accuracy belongs "
    "to a parallelism and its flags, not to a model (InferenceX PR 1946)",
)
