"""Question 5, the client's side: what benchmark runs say, whether they agree with themselves, and where their knee lies."""

from __future__ import annotations

from m3probe.analyzers._bench_findings import run_findings, sweep_findings, unlike
from m3probe.analyzers._bench_sweep import steps, sweeps
from m3probe.model.bench import BenchRun, little
from m3probe.model.bench_report import BenchRow, BenchSection, SweepStep
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """A row for each run, the steps of the sweeps that they make, and what is wrong with either."""
    runs = rec.meta.bench
    if not runs:
        return Answer()
    found: list[Finding] = [one for place, run in enumerate(runs) for one in run_findings(place, run)]
    walked: list[SweepStep] = []
    for group in sweeps(runs):
        walk = list(steps(group))
        most = max((run.total_token_throughput or 0.0 for run in group), default=0.0)
        found += sweep_findings(walk, most or None)
        walked += walk
    found += unlike(runs)
    return Answer((BenchSection(tuple(row(run) for run in runs), tuple(walked)),), tuple(found))


ANALYZER = Analyzer(title="What did the client see?", order=58, judge=judge)


def row(run: BenchRun) -> BenchRow:
    """The run's line in the report."""
    law = little(run)
    ttft, tpot = run.ttft.typical, run.tpot.typical
    total, rate = run.total_token_throughput, run.request_rate
    return BenchRow(
        name=run.name,
        file=run.path,
        backend=run.backend,
        model=run.model,
        completed=run.completed,
        failed=run.failed,
        comparable=run.comparable,
        max_concurrency=run.max_concurrency,
        request_rate=None if rate == float("inf") else rate,
        closed_loop=run.closed_loop,
        num_gpus=run.num_gpus,
        prefill_gpus=run.prefill_gpus,
        decode_gpus=run.decode_gpus,
        mean_input_tokens=run.mean_input_tokens,
        mean_output_tokens=run.mean_output_tokens,
        request_throughput=run.request_throughput,
        output_throughput=run.output_throughput,
        total_token_throughput=total,
        total_per_gpu=total / run.num_gpus if total is not None and run.num_gpus else None,
        ttft_ms=ttft[0] if ttft else None,
        ttft_of=ttft[1] if ttft else "",
        ttft_p99_ms=run.ttft.p99_ms,
        tpot_ms=tpot[0] if tpot else None,
        tpot_of=tpot[1] if tpot else "",
        waiting=law.waiting,
        decoding=law.decoding,
        in_flight=law.in_flight,
        measured_in_flight=law.measured,
        expected=law.expected,
        consistent=law.consistent,
    )
