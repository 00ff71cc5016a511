"""Question 2 in a report: what runs per layer, step, token and request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepeatRow:
    """What one family repeats in one phase.

    ``per_step`` is the mean over non-empty steps, ``per_layer`` divides by the layers that launch it
    (None where layers are unknown); ns are kernel time, None where kernels of the phase are missing.
    """

    phase: str
    family: str
    per_step: float
    per_layer: float | None
    ns_per_output_token: float | None
    ns_per_step: float | None
    evidence: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Share of steps, rows and output tokens of one graph mode (0 to 1); ``steps`` of the engine, not of each rank."""

    graph_mode: str
    steps: int
    step_share: float
    row_share: float | None
    token_share: float | None


@dataclass(frozen=True, slots=True)
class Costs:
    """What output costs in decode; None where it cannot be told.

    ``ns_per_...`` is kernel time, which the requests of a batch share. ``step_ns_per_...`` is wall time: what one request
    waits for a token, and for a response of 1,000.
    """

    ns_per_output_token: float | None
    ns_per_1000_token_response: float | None
    ns_per_active_request: float | None
    decode_tokens_in_mixed_steps: int | None
    mixed_ns_per_decode_token: float | None
    launch_bound: bool | None
    step_ns_per_token: float | None = None
    step_ns_per_1000_token_response: float | None = None


@dataclass(frozen=True, slots=True)
class LayersRow:
    """Layers that ran in a step, counted by kernels that run once per layer; None where none tells."""

    dense_attention: int | None
    sparse_attention: int | None
    moe: int | None


@dataclass(frozen=True, slots=True)
class RepeatsSection:
    """Question 2."""

    repeats: tuple[RepeatRow, ...]
    graph_coverage: tuple[CoverageRow, ...]
    costs: Costs
    layers: LayersRow | None = None
