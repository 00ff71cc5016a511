"""In which phase the gain sits, by what the client saw: before the first token, or after it."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.bench import ITL, TPOT, TTFT
from m3probe.model.compare_bench import GainPlace, MetricPair, MetricVerdict

BETTER, WORSE, SAME = MetricVerdict.BETTER, MetricVerdict.WORSE, MetricVerdict.SAME
_OF = ("mean", "median")
_RATES = ("output_per_gpu", "output", "total_per_gpu", "total")


def place(pairs: Sequence[MetricPair]) -> GainPlace | None:
    """Prefill where TTFT is better and time per token is not, decode the other way round; None without either.

    Where nobody measured the time per token, tokens a second at the lowest concurrency stand in for it: there a decode
    gain shows most, for hardly anything else takes time.
    """
    ttft = _latency(pairs, TTFT)
    tpot = _latency(pairs, TPOT) or _latency(pairs, ITL)
    rate = _lowest_rate(pairs)
    if not ttft and not tpot:
        return None
    first, after = _effect(ttft), _effect(tpot) if tpot else _rate_effect(rate)
    if first is BETTER and after is BETTER and effect(_lowest(tpot)) is SAME:
        after = SAME  # only where prefill chunks share the steps of decode
    phase = _phase(first, after)
    unsure = any(_unknown(pair) for pair in (*ttft, *tpot, *([rate] if rate and not tpot else [])))
    told = [
        _told(ttft, "TTFT") if ttft else "TTFT is not known",
        _told(tpot, "time per token") if tpot else _stand_in(rate),
    ]
    note = "; the noise is not known, so that this is what the bare figures say" if unsure else ""
    return GainPlace(phase, f"{', '.join(told)}: {_words(phase, first, after)}{note}")


_WORDS = {
    "prefill": "the gain sits before the first token, in prefill (and in what waits for it); nothing shows a gain of decode "
    "steps, but for a path that takes many rows only, which a trace would show",
    "decode": "the gain sits after the first token, in decode steps; nothing shows a gain of prefill",
    "both": "prefill and decode both gain: one change need not be the reason of both",
    "none": "neither phase gains",
    "unproven": "these figures do not tell the phase",
}


def _words(phase: str, first: MetricVerdict | None, after: MetricVerdict | None) -> str:
    if after is BETTER and first is None:
        return "decode gains; whether prefill does is not known"
    if first is BETTER and after is None:
        return "prefill gains, or what waits for it; whether decode does is not known"
    return _WORDS[phase]


def _phase(first: MetricVerdict | None, after: MetricVerdict | None) -> str:
    if first is BETTER and after is BETTER:
        return "both"
    if first is BETTER:
        return "unproven" if after is None else "prefill"
    if after is BETTER:
        return "unproven" if first is None else "decode"
    return "unproven" if first is None or after is None else "none"


def effect(pair: MetricPair) -> MetricVerdict:
    """The verdict, or what the bare figures say where the noise is not known."""
    return pair.direction if _unknown(pair) else pair.verdict


def _unknown(pair: MetricPair) -> bool:
    return pair.verdict is MetricVerdict.UNPROVEN


def _latency(pairs: Sequence[MetricPair], metric: str) -> list[MetricPair]:
    """By point, means if there are any."""
    for of in _OF:
        found = [pair for pair in pairs if (pair.metric, pair.of) == (metric, of)]
        if found:
            return found
    return []


def _effect(pairs: Sequence[MetricPair]) -> MetricVerdict | None:
    """Better at some point and worse at none; None without pairs, or where points contradict each other."""
    seen = {effect(pair) for pair in pairs}
    if not seen or {BETTER, WORSE} <= seen:
        return None
    return BETTER if BETTER in seen else WORSE if WORSE in seen else SAME


def _lowest(pairs: Sequence[MetricPair]) -> MetricPair:
    return min(pairs, key=lambda pair: pair.point.concurrency or 0)


def _lowest_rate(pairs: Sequence[MetricPair]) -> MetricPair | None:
    for metric in _RATES:
        found = [pair for pair in pairs if pair.metric == metric and pair.point.concurrency]
        if found:
            return _lowest(found)
    return None


def _rate_effect(rate: MetricPair | None) -> MetricVerdict | None:
    """Flat tokens a second show that decode is what it was; more of them can come from prefill too."""
    return SAME if rate is not None and effect(rate) is SAME else None


def _told(pairs: Sequence[MetricPair], word: str) -> str:
    changes = sorted(pair.ratio - 1 for pair in pairs)
    at = [pair.point.concurrency for pair in pairs if pair.point.concurrency]
    where = (
        f" at concurrency {min(at):,}"
        if len(set(at)) == 1
        else f" at concurrency {min(at):,} to {max(at):,}"
        if at
        else ""
    )
    span = f"{changes[0]:+.1%}" if len(changes) == 1 else f"{changes[0]:+.1%} to {changes[-1]:+.1%}"
    return f"{word} changes by {span}{where}"


def _stand_in(rate: MetricPair | None) -> str:
    if rate is None:
        return "time per token is not known"
    at = rate.point.concurrency
    flat = "no effect" if effect(rate) is SAME else "which either phase can give"
    return f"time per token is not known, tokens/s at concurrency {at:,} go x{rate.ratio:.4f}, {flat}"
