"""Dark, light and no colour at all; every colour of the viewer stands here, screens name variables only.

Contrast is at least 4.5:1 for every text on every ground it may stand on, dimmed text too (tests/test_tui_theme.py).
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from m3probe.tui.looks import to_ascii

GROUND, RAISED, CURSOR = "background", "surface", "panel"
INKS = ("ink", "ink-dim", "ink-good", "ink-bad", "ink-warn", "ink-accent")
"""Variables of every theme that text is drawn in."""


def _theme(name: str, grounds: tuple[str, str, str], inks: tuple[str, ...], rule: str, *, dark: bool) -> Theme:
    ink, _dim, good, bad, warn, accent = inks
    variables = dict(zip(INKS, inks, strict=True)) | {"rule": rule, "foreground": ink}
    return Theme(
        name=name, primary=accent, secondary=accent, accent=accent, success=good, error=bad, warning=warn,
        foreground=ink, background=grounds[0], surface=grounds[1], panel=grounds[2], dark=dark, variables=variables,
    )  # fmt: skip


DARK = _theme(
    "m3probe-dark",
    ("#14171c", "#1d222a", "#2b3442"),
    ("#e4e7eb", "#a9b2bd", "#7fd491", "#ff9d96", "#f0c35e", "#8fc4ff"),
    "#4a5462",
    dark=True,
)
LIGHT = _theme(
    "m3probe-light",
    ("#fbfbf9", "#f0f1ee", "#dfe6f0"),
    ("#1b1f24", "#4a525c", "#0b6128", "#a3161f", "#744d00", "#0a4d96"),
    "#a5acb5",
    dark=False,
)
THEMES = (DARK, LIGHT)


class NoHue(LineFilter):
    """No colour code at all: what is bold, reversed or underlined stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """The same text in the terminal's own colours."""
        return [Segment(text, None if style is None else _plain(style), control) for text, style, control in segments]


class Ascii(LineFilter):
    """Whatever is drawn, borders and foreign names too, leaves without a byte above 0x7f."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """The same cells in ASCII."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


def _plain(style: Style) -> Style:
    return Style(bold=style.bold, reverse=style.reverse, underline=style.underline)
