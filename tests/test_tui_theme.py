"""Colours: readable on every ground they may stand on, none without NO_COLOR's leave, none in a screen's own file."""

from __future__ import annotations

import re

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import Theme
from tree import ROOT

from m3probe.tui.theme import INKS, THEMES, Ascii, NoHue


def luminance(colour: str) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ink", INKS)
@pytest.mark.parametrize("ground", ["background", "surface", "panel"])
def test_every_text_is_readable_on_every_ground(theme: Theme, ink: str, ground: str) -> None:
    assert contrast(theme.variables[ink], getattr(theme, ground)) >= 4.5


def test_no_screen_and_no_widget_names_a_colour() -> None:
    files = [path for path in (ROOT / "tui").rglob("*") if path.suffix in {".py", ".tcss"} and path.name != "theme.py"]
    assert len(files) > 15
    assert {path.name for path in files if re.search(r"#[0-9a-fA-F]{6}\b", path.read_text())} == set()


def test_without_colour_nothing_but_weight_is_left() -> None:
    style = Style(color="red", bgcolor="#123456", bold=True, reverse=True)
    (found,) = NoHue().apply([Segment("x", style)], Color(0, 0, 0))
    assert (found.style.color, found.style.bgcolor, found.style.bold, found.style.reverse) == (None, None, True, True)


def test_ascii_is_the_last_thing_that_happens_to_a_row() -> None:
    (found,) = Ascii().apply([Segment("┌─● µs", None)], Color(0, 0, 0))
    assert found.text.isascii()
    assert len(found.text) == 6
