"""What a report says of benchmark runs: key ``bench`` of ``analyze --json`` (docs/report.schema.json)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One run as its client saw it; None is not known, never 0.

    ``request_rate`` is None where it was not said or was ``inf``, which ``closed_loop`` tells apart. Throughputs are
    per second and of all GPUs; ``total_per_gpu`` is tokens a second, in and out. ``ttft_of`` and ``tpot_of``: ``mean``
    or ``median``, which of them is shown and counted with. ``waiting``, ``decoding`` and ``in_flight`` are requests, by
    Little's law; ``measured_in_flight`` is the run's own sum of latencies over its duration. ``consistent``: whether
    ``in_flight`` is within 10 % of what the client kept in flight (``expected``).
    """

    name: str
    file: str
    backend: str
    model: str
    completed: int | None
    failed: int | None
    comparable: bool
    max_concurrency: int | None
    request_rate: float | None
    closed_loop: bool
    num_gpus: int | None
    prefill_gpus: int | None
    decode_gpus: int | None
    mean_input_tokens: float | None
    mean_output_tokens: float | None
    request_throughput: float | None
    output_throughput: float | None
    total_token_throughput: float | None
    total_per_gpu: float | None
    ttft_ms: float | None
    ttft_of: str
    ttft_p99_ms: float | None
    tpot_ms: float | None
    tpot_of: str
    waiting: float | None
    decoding: float | None
    in_flight: float | None
    measured_in_flight: float | None
    expected: int | None
    consistent: bool | None


@dataclass(frozen=True, slots=True)
class SweepStep:
    """From one concurrency to the next of a sweep; gain and TTFT ratio are those of a doubling.

    Args:
        gain: total token throughput, share by which it rises (0.05 = 5 %).
        ttft_ratio: time to first token, times what it was; None where it is not known of both.
        knee: gain below 5 % while TTFT more than doubles.
    """

    low: str
    high: str
    low_concurrency: int
    high_concurrency: int
    gain: float
    ttft_ratio: float | None
    knee: bool


@dataclass(frozen=True, slots=True)
class BenchSection:
    """Runs in the order they were read, and the steps of the sweeps that they make."""

    runs: tuple[BenchRow, ...]
    steps: tuple[SweepStep, ...]
