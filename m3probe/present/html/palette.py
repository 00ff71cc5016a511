"""Colours of the figures: every one readable on white and on #111, and never the only sign of what it stands for.

Each has a contrast of at least 3 to both papers (the least that WCAG 2.2, 1.4.11, asks of a graphic). Such a band of
lightness has no room for eighteen colours that a colour-blind reader tells apart: families that do alike work share one of six
hues, and a pattern tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.schema.verdicts import Family, PathVerdict, Phase

BLUE, ORANGE, GREEN, SKY, PINK, RED = "#2f78c8", "#d1720f", "#17886a", "#3f9dc9", "#c05a9a", "#c63d2f"
GREY = "#7b7f86"
HUES = (BLUE, ORANGE, GREEN, SKY, PINK, RED)

FAMILY: Mapping[str, tuple[str, str]] = {
    Family.GEMM: (BLUE, ""),
    Family.QUANT: (BLUE, "/"),
    Family.MOE_GEMM: (ORANGE, ""),
    Family.MOE_ROUTE: (ORANGE, "/"),
    Family.ACTIVATION: (ORANGE, "x"),
    Family.ATTENTION: (GREEN, ""),
    Family.SPARSE_ATTENTION: (GREEN, "/"),
    Family.INDEXER: (GREEN, "x"),
    Family.ROPE_KV: (PINK, ""),
    Family.KV_WRITE: (PINK, "/"),
    Family.COMM: (RED, ""),
    Family.NORM: (SKY, ""),
    Family.ELEMENTWISE: (SKY, "/"),
    Family.SAMPLING: (SKY, "x"),
    Family.COPY: (GREY, "/"),
    Family.MEMORY: (GREY, "x"),
    Family.OTHER: (GREY, "."),
    Family.UNKNOWN: (GREY, "+"),
}
"""family -> (colour, pattern in plotly's words)."""
IDLE = ("rgba(123,127,134,0.28)", "")
"""Time in which nothing ran: fainter than any work."""
PHASE: Mapping[str, str] = {Phase.PREFILL: ORANGE, Phase.DECODE: BLUE, Phase.MIXED: PINK}
"""Phases that are no work of a request (warm-up, capture, empty) are grey."""
SYMBOL: Mapping[str, str] = {Phase.PREFILL: "square", Phase.DECODE: "circle", Phase.MIXED: "diamond"}
CONFIDENCE: Mapping[str, tuple[str, str]] = {
    "high": (BLUE, ""),
    "medium": (SKY, "/"),
    "low": (GREY, "x"),
    "untrusted": (GREY, "."),
}
VERDICT: Mapping[str, str] = {
    PathVerdict.EXECUTED: GREEN,
    PathVerdict.MISSED: RED,
    PathVerdict.REFUSED_AT_START: RED,
    PathVerdict.UNEXPECTED: ORANGE,
    PathVerdict.DECLINED: BLUE,
    PathVerdict.UNPROVEN: "rgba(123,127,134,0.28)",
    PathVerdict.OFF: "rgba(123,127,134,0.12)",
}
"""Absence of evidence and what nobody asked for are faint: they must not look like a pass."""
PLANE: Mapping[str, str] = {"compute": BLUE, "state": PINK, "comm": RED}
COUNTS = ((0.0, "#cfe1f4"), (0.5, "#8bb9e8"), (1.0, "#1f5596"))
"""Few to many: lightness falls all the way, so that a printed page and every eye keep the order."""


def filled(look: tuple[str, str]) -> dict[str, Any]:
    """A bar's marker in plotly's words; the pattern lies over its colour, and the edge parts equal neighbours."""
    colour, pattern = look
    drawn: dict[str, Any] = {"color": colour, "line": {"width": 0}}
    if pattern:
        drawn["pattern"] = {
            "shape": pattern,
            "fillmode": "overlay",
            "fgcolor": "rgba(255,255,255,0.75)",
            "size": 6,
            "solidity": 0.3,
        }
    return drawn


def family(name: str) -> dict[str, Any]:
    """The marker of a family of kernels; of a word that is none, that of ``unknown``."""
    return filled(FAMILY.get(name, FAMILY[Family.UNKNOWN]))


def phase(name: str) -> str:
    """The colour of a phase."""
    return PHASE.get(name, GREY)
