"""A live figure in words: one text and unit on every page that shows it."""

from __future__ import annotations

from m3probe.model.view import Absent, Gauge
from m3probe.present._numbers import decimals_for, fixed
from m3probe.present.sheets._told import scaled


def figure(gauge: Gauge) -> tuple[str, str]:
    """(figure, unit): a range where a histogram's bucket is all that is known, the word of its absence where nothing is."""
    if gauge.value is None:
        return (gauge.absent or Absent.NOT_MEASURED).value, gauge.unit
    value, unit = scaled(gauge.value, gauge.unit)
    size = gauge.value / value if value else 1.0
    low, high = gauge.between or (None, None)
    if low is not None and high is not None and low < high:
        ends = [low / size, high / size]
        return "–".join(fixed(end, decimals_for(ends) and 1) for end in ends), unit
    shown = fixed(value, decimals_for([value]) and 1)
    return f"> {shown}" if low is not None and high is None else shown, unit
