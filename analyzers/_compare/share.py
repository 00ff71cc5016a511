"""Amdahl backwards: the share of the step that a kernel must have had, from its own gain and the whole's.

With s times the kernel's speed and a rate of 1 + e after, f (1 - 1/s) of the time is saved and that is 1 - 1/(1 + e).
"""

from __future__ import annotations

from enum import StrEnum

from m3probe.analyzers._view import percent
from m3probe.model.compare_bench import ShareInterval

ROOM = 0.02
"""By how much of the interval's ends a measured share may miss it: published gains have two or three digits."""


class Reading(StrEnum):
    """What "a gain of 48.9 %" of a kernel means."""

    TIME = "time saved"
    RATE = "rate gained"
    UNKNOWN = "unknown"


def share_interval(
    kernel_gain: float, e2e_gain: float, reading: Reading = Reading.UNKNOWN, *, measured: float | None = None
) -> ShareInterval:
    """The share of step time that the kernel had before.

    Args:
        kernel_gain: 0.489 for 48.9 %; above 0. As time saved it must be below 1.
        e2e_gain: of the whole's rate, 0.033 for +3.3 %; 0 or more.
        measured: its share in a recording of A, 0 to 1, to hold against the interval.

    Raises:
        ValueError: gains that no speed-up has.
    """
    if kernel_gain <= 0 or e2e_gain < 0:
        raise ValueError(f"a kernel's gain above 0 and a gain of the whole from 0 on, not {kernel_gain} and {e2e_gain}")
    if reading is Reading.TIME and kernel_gain >= 1:
        raise ValueError(f"no kernel saves {percent(kernel_gain)} of its time: it is a gain of rate")
    saved = f"(1 - 1 / {1 + e2e_gain:.6g})"
    won = 1 - 1 / (1 + e2e_gain)
    low = (won / kernel_gain, f"{saved} / {kernel_gain:.6g}")
    high = (won * (1 + kernel_gain) / kernel_gain, f"{saved} / (1 - 1 / {1 + kernel_gain:.6g})")
    if reading is Reading.TIME:
        high = low
    elif reading is Reading.RATE or kernel_gain >= 1:
        low = high
    return _judged(low, high, measured)


def share_of_times(
    before_ns: float, after_ns: float, e2e_gain: float, *, measured: float | None = None
) -> ShareInterval:
    """The same, exact: from a kernel's times per step in two recordings.

    Raises:
        ValueError: times that are no gain.
    """
    if not 0 < after_ns < before_ns:
        raise ValueError(f"{before_ns:,.0f} ns -> {after_ns:,.0f} ns is no gain of a kernel")
    return share_interval(1 - after_ns / before_ns, e2e_gain, Reading.TIME, measured=measured)


def rate_gain(time_change: float) -> float:
    """The gain of a rate whose time changes by a share: -0.10 (a tenth less time) is +0.111.

    Raises:
        ValueError: no time is left.
    """
    if time_change <= -1:
        raise ValueError(f"a time that changes by {time_change:.0%} is none")
    return 1 / (1 + time_change) - 1


def _judged(low: tuple[float, str], high: tuple[float, str], measured: float | None) -> ShareInterval:
    possible = low[0] <= 1 + ROOM
    verdict = "" if measured is None else _side(low[0], high[0], measured)
    arithmetic = (low[1],) if low == high else (low[1], high[1])
    return ShareInterval(
        low=low[0],
        high=high[0],
        arithmetic=arithmetic,
        possible=possible,
        claim=_claim(low[0], high[0], possible=possible) + _measured(measured, verdict),
        measured=measured,
        verdict=verdict,
    )


def _side(low: float, high: float, measured: float) -> str:
    if measured < low * (1 - ROOM):
        return "below"
    return "above" if measured > high * (1 + ROOM) else "inside"


def _claim(low: float, high: float, *, possible: bool) -> str:
    if not possible:
        return (
            f"The kernel must have had {percent(low)} of the step for this gain, which none has: something else gained too, "
            "or the figures are not of one workload"
        )
    if low == high:
        return f"The kernel had {percent(low)} of the step"
    return f"The kernel had {percent(low)} of the step (its gain as time saved) to {percent(high)} (as rate gained)"


def _measured(measured: float | None, verdict: str) -> str:
    if measured is None:
        return ""
    said = f"; in A's recording it has {percent(measured)}"
    return (
        said
        + {
            "inside": ", which agrees",
            "below": ": too little for the whole's gain, so that something else gained too or the contexts differ",
            "above": ": it should have given more, so that its gain was less there, was overlapped, or did not reach every call",
        }[verdict]
    )
