"""The figures of a run that are held against another's, and each as a sample with its noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from m3probe.analyzers._compare.noise import of_one, of_repeats
from m3probe.model.bench import METRICS, BenchRun, Latency
from m3probe.model.compare_bench import Sample

MEAN, MEDIAN, P99 = "mean", "median", "p99"
_RATES = {
    "output_per_gpu": "output_throughput",
    "output": "output_throughput",
    "total_per_gpu": "total_token_throughput",
    "total": "total_token_throughput",
    "requests": "request_throughput",
    "goodput": "goodput",
    "prefix_hit_rate": "prefix_cache_hit_rate",
}
UNITS = {"requests": "requests/s", "goodput": "requests/s", "prefix_hit_rate": "share"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: its word, and for a latency which of its statistics."""

    name: str
    of: str = ""

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better: latencies are better low."""
        return self.name not in METRICS

    @property
    def unit(self) -> str:
        """Of its values."""
        return UNITS.get(self.name, "tokens/s") if self.higher_is_better else "ms"

    def value(self, run: BenchRun) -> float | None:
        """The run's figure; None where it does not say it, or not of how many GPUs."""
        if not self.higher_is_better:
            latency = run.latencies.get(self.name, Latency())
            found: float | None = getattr(latency, f"{self.of}_ms")
            return found
        rate: float | None = getattr(run, _RATES[self.name])
        if not self.name.endswith("_per_gpu") or rate is None:
            return rate
        return rate / run.num_gpus if run.num_gpus else None

    def sample(self, runs: Sequence[BenchRun]) -> Sample | None:
        """The mean over repeats; None where one of them does not say the figure."""
        values = [self.value(run) for run in runs]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return of_repeats(known) if len(known) > 1 else of_one(runs[0], self.name, self.of, known[0])


def metrics_of() -> Iterator[Metric]:
    """All of them: throughputs first, then each latency by mean, median and 99th percentile."""
    yield from (Metric(name) for name in _RATES)
    yield from (Metric(name, of) for name in METRICS for of in (MEAN, MEDIAN, P99))


TPOTS = (Metric("tpot", MEAN), Metric("tpot", MEDIAN))
TTFTS = (Metric("ttft", MEAN), Metric("ttft", MEDIAN))
