"""Findings on benchmark runs: what must be known before one of their figures is believed or compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._bench_checks import contradictions, little_text
from m3probe.analyzers._bench_sweep import KNEE_GAIN, KNEE_TTFT, differences
from m3probe.analyzers._bench_warmup import SLOWER, first_wave
from m3probe.model.bench import LITTLE_TOLERANCE, BenchRun, LittleLaw, little
from m3probe.model.bench_report import SweepStep
from m3probe.model.findings import Evidence, Finding

FEW_REQUESTS = 5
"""Requests for each place in flight, below which a run's beginning and end weigh much."""
_QUESTION = "queues"


def run_findings(place: int, run: BenchRun) -> Iterator[Finding]:
    """Findings on one run; ``place`` is its row in the report."""
    yield from _not_comparable(place, run)
    yield from _contradicts(place, run)
    yield from _little(place, run)
    yield from _cold(place, run)


def _finding(place: int, run: BenchRun, word: str, verdict: str, claim: str, *, seen: str, advice: str) -> Finding:
    where = run.name or run.path
    rows = (Evidence("bench.runs", (place,), 1, seen),)
    return Finding(f"bench.{word}.{place}", _QUESTION, verdict, claim, where, rows, advice)


def _not_comparable(place: int, run: BenchRun) -> Iterator[Finding]:
    if run.comparable:
        return
    failed, done, lost = run.failed or 0, run.completed or 0, max(run.requests_missing or 0, 0)
    most = next(iter(sorted(run.errors.items(), key=lambda item: -item[1])), None)
    told = f"; {most[1]:,} said {most[0]!r}" if most else ""
    what = (
        "no request succeeded"
        if not done
        else f"{failed + lost:,} of {failed + lost + done:,} requests did not complete"
    )
    yield _finding(
        place,
        run,
        "failed",
        "unproven",
        f"{run.name}: {what}, so that its latencies and throughputs say nothing of this server under that load{told}",
        seen=f"completed {done:,}, failed {failed:,}, neither {lost:,}",
        advice="Look for the first error in the server's log, and for the limits of the client's host (nofile) at this concurrency; "
        "compare nothing with this run",
    )


def _contradicts(place: int, run: BenchRun) -> Iterator[Finding]:
    found = contradictions(run)
    if found:
        yield _finding(
            place,
            run,
            "contradicts",
            "differs",
            f"{run.name} contradicts itself: {found[0]}" + (f", and {len(found) - 1} more" if found[1:] else ""),
            seen="; ".join(found),
            advice="Find out which tool wrote or changed this file before any figure of it is used",
        )


def _little(place: int, run: BenchRun) -> Iterator[Finding]:
    law = little(run)
    if law.consistent is not False or law.waiting is None or law.decoding is None or not law.expected:
        return
    text = little_text(law.waiting, law.decoding, law.expected, law.gap or 0.0)
    yield _finding(
        place,
        run,
        "little",
        "differs",
        f"{run.name}: {text}",
        seen=f"{law.request_throughput:,.3f} requests/s x ({law.ttft_ms:,.1f} ms {law.ttft_of} TTFT + {law.tpot_ms:,.2f} ms "
        f"{law.tpot_of} TPOT x {(run.mean_output_tokens or 1) - 1:,.1f})",
        advice=_little_advice(run, law),
    )


def _little_advice(run: BenchRun, law: LittleLaw) -> str:
    """Which of the usual reasons it can be, told by what the run says."""
    reasons = []
    if "median" in (law.ttft_of, law.tpot_of):
        reasons.append("a median stands in for a mean, and hides the tail: save the means too")
    if run.num_prompts is not None and law.expected and run.num_prompts < FEW_REQUESTS * law.expected:
        reasons.append(
            f"{run.num_prompts:,} requests for {law.expected:,} places: beginning and end are much of the run, send more"
        )
    if (law.gap or 0) < 0:
        reasons.append("time outside the requests: the client itself, tools that an agent calls, a limit below its own")
    else:
        reasons.append("latencies and throughput are not of the same requests, or the limit was not kept")
    return f"Within {LITTLE_TOLERANCE:.0%} a run agrees with itself. Here: " + "; or ".join(reasons)


def _cold(place: int, run: BenchRun) -> Iterator[Finding]:
    wave = first_wave(run)
    if wave is None or not wave.slow:
        return
    yield _finding(
        place,
        run,
        "first_wave",
        "measured",
        f"{run.name}: the {wave.count:,} requests sent before any ended waited {wave.first_ms:,.1f} ms for their first "
        f"token (median), the {wave.later:,} later ones {wave.later_ms:,.1f} ms: the start of the run is in its figures",
        seen=f"mean TTFT {wave.mean_ms:,.1f} ms with them, {wave.mean_without_ms:,.1f} ms without; slow is above {SLOWER:g} x "
        "the later median",
        advice="A cold server compiles and captures, and a burst fills one prefill queue: warm up with requests of the same "
        "lengths (--num-warmups), and run long enough that the first wave weighs little",
    )


def sweep_findings(steps: Sequence[SweepStep], most: float | None) -> Iterator[Finding]:
    """The first knee of a sweep.

    Args:
        most: the sweep's highest total token throughput.
    """
    knee = next((step for step in steps if step.knee), None)
    if knee is None or knee.ttft_ratio is None:
        return
    top = f" (highest {most:,.0f} tokens/s)" if most else ""
    yield Finding(
        id=f"bench.knee.{knee.low_concurrency}_{knee.high_concurrency}",
        question=_QUESTION,
        verdict="measured",
        claim=f"The knee lies at concurrency {knee.low_concurrency:,}: from there to {knee.high_concurrency:,} a doubling gains "
        f"{knee.gain:+.1%} tokens/s while time to first token grows {knee.ttft_ratio:.1f}x{top}",
        where=f"{knee.low} -> {knee.high}",
        evidence=(
            Evidence(
                "bench.steps",
                (steps.index(knee),),
                1,
                f"{knee.gain:+.1%} and {knee.ttft_ratio:.2f}x for a doubling",
                f"gain of {KNEE_GAIN:.0%} or more, or TTFT below {KNEE_TTFT:g}x",
            ),
        ),
        advice="Beyond the knee requests wait and nothing is done faster: admit fewer, or add what the queue waits for (see "
        "which queue grows)",
    )


def unlike(runs: Sequence[BenchRun]) -> Iterator[Finding]:
    """Runs that did not ask the same: no speed-up is claimed between them."""
    if len(runs) < 2:
        return
    first = runs[0]
    other = next((run for run in runs[1:] if differences(first, run)), None)
    if other is None:
        return
    found = differences(first, other)
    pair = (0, runs.index(other))
    yield Finding(
        id="bench.unlike",
        question=_QUESTION,
        verdict="differs",
        claim=f"{first.name} and {other.name} are not of one contract ({'; '.join(found)}): no speed-up is claimed between them",
        where="",
        evidence=(Evidence("bench.runs", pair, 2, "; ".join(found), "equal"),),
        advice="Compare runs of the same GPUs, model and lengths; where GPU counts differ, tokens/s per GPU at one latency is the "
        "only figure that carries over" + _per_gpu(first, other),
    )


def _per_gpu(first: BenchRun, other: BenchRun) -> str:
    figures = [
        f"{run.name} {run.total_token_throughput / run.num_gpus:,.1f}"
        for run in (first, other)
        if run.total_token_throughput and run.num_gpus
    ]
    return f" (here {' and '.join(figures)})" if len(figures) == 2 else ""
