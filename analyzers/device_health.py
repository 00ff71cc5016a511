"""Is every GPU as fast and as sound as the others? Clock, power, throttling, errors, partition, mapped to ranks.

A GPU is held against the others of the same readings; without a load a low clock is no fault, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._basis import basis
from m3probe.analyzers._device_ranks import of_gpu, wait_sentence
from m3probe.analyzers._device_state import BUSY, CLOCK, Gpu, gpus
from m3probe.model.findings import Bound, Finding, evidence, figure
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer

QUESTION = "device_health"
GPU_TIME = "the slow GPU's time"
"""What a clock's bound is a share of where no step was timed."""
_NEAR_CAP = 0.97
_ERRORS = {
    "ecc_uncorrected": ("uncorrected memory error(s)", "Drain this GPU and reset or replace it: results may be wrong."),
    "xgmi_errors": ("error(s) of its XGMI links", "Check the link and the riser: collectives retry over it."),
    "pcie_replays": ("PCIe replay(s)", "Check the slot: transfers to the host are repeated."),
}


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Findings per GPU; none where no tool's readings were given."""
    return Answer(findings=tuple(_findings(rec, gpus(rec))))


ANALYZER = Analyzer(title="Is every GPU healthy?", order=64, judge=judge)


def _findings(rec: Recording, all_: list[Gpu]) -> Iterator[Finding]:
    for gpu in all_:
        peers = [other for other in all_ if other is not gpu and other.file == gpu.file and other.name == gpu.name]
        yield from _slow(rec, gpu, peers)
        yield from _throttled(rec, gpu)
        for column, (what, advice) in _ERRORS.items():
            count = gpu.most(column)
            if count:
                yield _finding(rec, gpu, column, "broken", f"has {count:,.0f} {what} since its counter began", advice)
    yield from _partitions(rec, all_)


def _finding(
    rec: Recording, gpu: Gpu, word: str, verdict: str, claim: str, advice: str, bound: Bound | None = None
) -> Finding:
    return Finding(
        id=f"{QUESTION}.{word}.{gpu.gpu}",
        question=QUESTION,
        verdict=verdict,
        claim=f"GPU {gpu.gpu}{of_gpu(rec, gpu.gpu)} {claim}",
        where=rec.files[gpu.file].path,
        evidence=(evidence("device_samples", gpu.rows, f"{len(gpu.rows):,} reading(s)"),),
        advice=advice,
        bound=bound,
    )


def _slow(rec: Recording, gpu: Gpu, peers: list[Gpu]) -> Iterator[Finding]:
    """Below the median of the others while all of them work."""
    clocks = sorted(peer.clock for peer in peers if peer.clock is not None)
    if gpu.clock is None or not clocks:
        return
    middle = (
        clocks[len(clocks) // 2] if len(clocks) % 2 else (clocks[len(clocks) // 2 - 1] + clocks[len(clocks) // 2]) / 2
    )
    short = 1 - gpu.clock / middle
    if short < CLOCK:
        return
    claim = (
        f"runs at {gpu.clock:,.0f} MHz while the others run at {middle:,.0f} ({short:.0%} lower, all at least {BUSY:.0f} % busy)"
        f"{_why(gpu)}; {wait_sentence(rec, gpu.gpu)}"
    )
    advice = "Compare its power cap, cooling and partition with the others' before any kernel: the group waits for it."
    base = basis(rec)
    name = base.name if base else GPU_TIME
    worked = f"1 - {figure(gpu.clock, 'MHz')} / {figure(middle, 'MHz')}"
    formula = (
        "1 - its clock / the others' median clock, if all its time went with the clock (what waits for memory does not)"
    )
    yield _finding(rec, gpu, "slow_clock", "slow", claim, advice, Bound(0.0, short, formula, name, (worked,)))


def _why(gpu: Gpu) -> str:
    if gpu.reasons:
        return f"; held back by {gpu.reasons}"
    if gpu.power is not None and gpu.cap and gpu.power >= _NEAR_CAP * gpu.cap:
        return f"; at its power cap ({gpu.power:,.0f} of {gpu.cap:,.0f} W)"
    return "; why is not told" if gpu.throttled is None else "; the tool names no throttling"


def _throttled(rec: Recording, gpu: Gpu) -> Iterator[Finding]:
    if not gpu.throttled:
        return
    heat = f", {gpu.junction:,.0f} C at its hottest" if gpu.junction is not None else ""
    power = f", {gpu.power:,.0f} W" if gpu.power is not None else ""
    cap = f" of {gpu.cap:,.0f}" if gpu.power is not None and gpu.cap else ""
    claim = f"is held back in {gpu.throttled:.0%} of its readings: {gpu.reasons or 'the tool names no reason'}{power}{cap}{heat}"
    yield _finding(
        rec, gpu, "throttled", "throttled", claim, "Power cap: raise it or accept it on every GPU alike; heat: cool it."
    )


def _partitions(rec: Recording, all_: list[Gpu]) -> Iterator[Finding]:
    modes: dict[str, list[Gpu]] = {}
    for gpu in all_:
        if gpu.partition:
            modes.setdefault(gpu.partition, []).append(gpu)
    if len(modes) < 2:
        return
    odd = min(modes.values(), key=len)
    told = "; ".join(f"{mode}: GPU {', '.join(str(gpu.gpu) for gpu in group)}" for mode, group in modes.items())
    advice = "Set one partition mode on every GPU of a server: units and memory differ between modes."
    claim = f"is in another partition mode than the others ({told})"
    yield _finding(rec, odd[0], "partition", "differs", claim, advice)
