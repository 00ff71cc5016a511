"""Gates: a size from which on, or up to which, B's way is taken. Does one sit where the two cross, and what would another give?

Nothing is said of sizes that both sides did not measure: a gate there is unproven, and calls there are not covered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from m3probe.analyzers._compare._laws import TIE
from m3probe.analyzers._view import percent
from m3probe.model.compare_bench import GatePlace, GatePlan, GateRun, WorkloadPoint

ABOVE, BELOW = "above", "below"
COVERED = 0.95
"""Share of the calls that must be at measured sizes before a simulation speaks for the recording."""
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Gate:
    """``above``: B's way for sizes >= threshold; ``below``: for sizes <= threshold.

    Args:
        name: what decides it, in words; foreign text is escaped by the presenter.
        size: what is counted: ``M``, ``concurrency``.
    """

    name: str
    threshold: int
    side: str
    size: str = "M"

    def takes(self, size: float) -> bool:
        """Whether B's way is taken at this size."""
        return size >= self.threshold if self.side == ABOVE else size <= self.threshold

    @property
    def text(self) -> str:
        """``M >= 171``."""
        return f"{self.size} {'>=' if self.side == ABOVE else '<='} {self.threshold:,}"


@dataclass(frozen=True, slots=True)
class WorkloadGate:
    """A deployment's own switch: B's way for prompts of ``least_isl`` tokens or more, from a concurrency on.

    One that is in use: a script that turns the sparse paged attention of MiniMax M3 on for ISL >= 8192 and concurrency
    >= 64 (InferenceX 2187).
    """

    name: str
    concurrency: int
    least_isl: int = 0

    @property
    def gate(self) -> Gate:
        """The gate by concurrency, for workloads that it holds for."""
        return Gate(self.name, self.concurrency, ABOVE, "concurrency")

    def holds(self, point: WorkloadPoint) -> bool:
        """Whether prompts of this point are long enough; not where their length is not known."""
        text = point.isl.replace(",", "")
        return self.least_isl <= int(text) if text.isdecimal() else not self.least_isl


def placed(gate: Gate, points: Sequence[tuple[float, float]], *, tie: float = TIE) -> GatePlace:
    """The gate beside what was measured.

    Args:
        points: (size, time of B over time of A).
    """
    out = [(x, r) for x, r in points if not gate.takes(x)]
    inside = [(x, r) for x, r in points if gate.takes(x)]
    kept_out = [x for x, r in out if r < 1 - tie]
    let_in = [x for x, r in inside if r > 1 + tie]
    verdict, why = _verdict(gate, out, inside, kept_out, let_in, tie)
    return GatePlace(gate.name, gate.threshold, verdict, f"Gate {gate.name} ({gate.text}): {why}")


def _verdict(
    gate: Gate,
    out: Sequence[tuple[float, float]],
    inside: Sequence[tuple[float, float]],
    kept_out: Sequence[float],
    let_in: Sequence[float],
    tie: float,
) -> tuple[str, str]:
    if kept_out and let_in:
        return (
            "wrong_side",
            f"B is slower where it lets it in ({_at(gate, let_in)}) and faster where not ({_at(gate, kept_out)})",
        )
    if kept_out:
        word = "too_high" if gate.side == ABOVE else "too_low"
        return word, f"it keeps B out at {_at(gate, kept_out)}, where B is the faster one"
    if let_in:
        word = "too_low" if gate.side == ABOVE else "too_high"
        return word, f"it lets B in at {_at(gate, let_in)}, where B is the slower one"
    if any(r > 1 + tie for _, r in out) and any(r < 1 - tie for _, r in inside):
        return (
            "at",
            "it sits at the crossing: B is faster at all measured sizes that it takes, and slower at those it does not",
        )
    if not out or not inside:
        side = "keeps out" if not out else "takes"
        return "unproven", f"no size that it {side} was measured by both"
    return "unproven", "on one side of it both take the same time, as where the gate itself chose one way for both"


def _at(gate: Gate, sizes: Sequence[float]) -> str:
    listed = ", ".join(f"{size:,.0f}" for size in sizes[:_SHOWN])
    more = f" and {len(sizes) - _SHOWN} more" if len(sizes) > _SHOWN else ""
    return f"{gate.size} {listed}{more}"


def simulate(
    histogram: Mapping[int, int],
    a_ns: Mapping[int, float],
    b_ns: Mapping[int, float],
    *,
    current: Gate | None = None,
    whose: str = "a",
    called: str = "in force",
) -> GateRun | None:
    """The calls of a histogram under every threshold, and always one way.

    Args:
        histogram: M -> calls.
        a_ns: M -> ns of one call in A; ``b_ns`` in B.
        current: the gate in force, or one that is asked about; ``called``: which of them, in words.
        whose: ``a`` or ``b``: whose recording the histogram is of.

    Returns:
        None without calls, or without one at a size that both measured.
    """
    calls = sum(histogram.values())
    sizes = sorted(m for m, n in histogram.items() if n > 0 and m in a_ns and m in b_ns)
    if not sizes:
        return None
    cost = [(m, histogram[m] * a_ns[m], histogram[m] * b_ns[m]) for m in sizes]
    always_a, always_b = sum(a for _, a, _ in cost), sum(b for _, _, b in cost)
    better = min(always_a, always_b)
    plans = [_plan(Gate("", m, side), cost, better) for side in (ABOVE, BELOW) for m in sizes]
    best = min(plans, key=lambda plan: plan.total_ns)
    now = None if current is None else _plan(current, cost, better)
    lowest = min(best.total_ns, better)
    covered = sum(histogram[m] for m in sizes)
    run = GateRun(
        histogram=whose,
        calls=calls,
        covered=covered,
        always_a_ns=always_a,
        always_b_ns=always_b,
        best=best if best.total_ns < better else None,
        current=now,
        gain_over_current=(now.total_ns - lowest) / now.total_ns if now is not None and now.total_ns else None,
        proven=covered >= COVERED * calls,
        claim="",
    )
    return _worded(run, called)


def _plan(gate: Gate, cost: Sequence[tuple[int, float, float]], better: float) -> GatePlan:
    total = sum(b if gate.takes(m) else a for m, a, b in cost)
    return GatePlan(gate.side, gate.threshold, total, (better - total) / better if better else 0.0)


def _worded(run: GateRun, called: str) -> GateRun:
    head = f"{run.covered:,} of {run.calls:,} calls of {run.histogram.upper()} are at an M that both measured"
    always = f"always A {run.always_a_ns / 1e6:,.3f} ms, always B {run.always_b_ns / 1e6:,.3f} ms"
    parts = [f"{head}: {always}"]
    if run.best is None:
        parts.append(f"no threshold beats always {'A' if run.always_a_ns <= run.always_b_ns else 'B'}")
    else:
        gate = Gate("", run.best.threshold, run.best.side)
        parts.append(
            f"B for {gate.text} {run.best.total_ns / 1e6:,.3f} ms, {percent(run.best.gain)} less than the better of them"
        )
    if run.current is not None and run.gain_over_current is not None:
        now = Gate("", run.current.threshold, run.current.side)
        parts.append(
            f"the gate {called} ({now.text}) {run.current.total_ns / 1e6:,.3f} ms, {percent(run.gain_over_current)} more than the best needs"
            if run.gain_over_current > 0
            else f"the gate {called} ({now.text}) is as good"
        )
    if not run.proven:
        parts.append(
            f"unproven for the recording: {percent(1 - run.covered / run.calls)} of its calls are at other sizes"
        )
    return replace(run, claim="; ".join(parts))
