"""Published effects of fast paths (effects.toml), and which of them was measured nearest to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import log2
from types import MappingProxyType
from typing import Any

HIGH = 32
"""Requests from which on a run is held against what was published for "high" concurrency."""
_UNKNOWN = 0.5
"""Distance of a condition that either side does not state: between equal (0) and different (1)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Where an effect was measured, or the run it is held against; None is not known."""

    quant: str | None = None
    tp: int | None = None
    concurrency: float | None = None
    isl: float | None = None
    osl: float | None = None
    concurrency_word: str = ""

    def text(self) -> str:
        """``MXFP8, TP4, 128 requests, 8,192 in and 1,024 out``; what is not known is left out."""
        told = [
            self.quant.upper() if self.quant else "",
            f"TP{self.tp}" if self.tp else "",
            f"{self.concurrency:,.0f} requests" if self.concurrency is not None else "",
            f"{self.concurrency_word} requests" if self.concurrency_word[:1].isdigit() else "",
            "high concurrency" if self.concurrency_word == "high" else "",
            f"{self.isl:,.0f} tokens in" if self.isl is not None else "",
            f"{self.osl:,.0f} out" if self.osl is not None else "",
        ]
        return ", ".join(part for part in told if part) or "a run that is not described"


@dataclass(frozen=True, slots=True)
class Published:
    """One A/B. ``low`` and ``high``: shares of time that were won, below 0 where the path was slower.

    ``worked``: their arithmetic, for low and high. ``both``: what else ran in both runs.
    """

    path: str
    source: str
    metric: str
    run: Run
    low: float
    high: float
    worked: tuple[str, str]
    both: str = ""

    def where(self) -> str:
        """``MXFP4, TP4, 256 requests, both with index reuse``."""
        return f"{self.run.text()}, both with {self.both}" if self.both else self.run.text()


@cache
def published() -> Mapping[str, tuple[Published, ...]]:
    """Effects by path, read once from the package's file when first asked for."""
    import tomllib

    data = tomllib.loads(files(__package__).joinpath("effects.toml").read_text(encoding="utf-8"))
    found: dict[str, list[Published]] = {}
    for row in data["effect"]:
        found.setdefault(row["path"], []).append(_effect(row))
    return MappingProxyType({path: tuple(rows) for path, rows in found.items()})


def _effect(row: Mapping[str, Any]) -> Published:
    run = Run(**{name: row[name] for name in Run.__dataclass_fields__ if name in row})
    ends = [_won(row["metric"], *_sides(row, key)) for key in ("low" if "low" in row else "ratio", "ratio")]
    (low, low_text), (high, high_text) = ends
    return Published(
        row["path"], row["source"], row["metric"], run, low, high, (low_text, high_text), row.get("both", "")
    )


def _sides(row: Mapping[str, Any], key: str) -> tuple[float, float]:
    """(before, after); a published ratio is after over 1."""
    return (row["before"], row["after"]) if "before" in row else (1.0, row[key])


def _won(metric: str, before: float, after: float) -> tuple[float, str]:
    """The share of time: a throughput g times as high takes 1/g of the time."""
    top, under = (after, before) if metric in ("tpot", "ttft") else (before, after)
    return 1 - top / under, f"(1 - {top:g} / {under:g})"


def nearest(effects: Sequence[Published], run: Run) -> tuple[Published, ...]:
    """Those measured nearest: by quantisation, TP, concurrency, then prompt and answer; several where they are equally near."""
    by = {effect: _distance(effect.run, run) for effect in effects}
    least = min(by.values(), default=())
    return tuple(effect for effect, distance in by.items() if distance == least)


def _distance(at: Run, run: Run) -> tuple[float, ...]:
    return (
        _differs(at.quant, run.quant),
        _differs(at.tp, run.tp),
        _requests(at, run.concurrency),
        _apart(at.isl, run.isl),
        _apart(at.osl, run.osl),
    )


def _differs(one: object, other: object) -> float:
    return _UNKNOWN if one is None or other is None else float(one != other)


def _apart(one: float | None, other: float | None) -> float:
    """Doublings between two sizes, in whole ones: 7,354 tokens of a nominal 8,192 are no distance."""
    return _UNKNOWN if not one or not other else float(round(abs(log2(one / other))))


def _requests(at: Run, mine: float | None) -> float:
    if at.concurrency_word == "high" and mine is not None:
        return _UNKNOWN if mine >= HIGH else _apart(HIGH, mine) + _UNKNOWN
    return _apart(at.concurrency, mine)
