"""The page's colours: text on its grounds is 4.5:1 or more in both themes, worked out as WCAG 2.2 does."""

import re

import pytest

from m3probe.present.html._assets import own

TEXTS = ("ink", "dim", "accent", "good", "bad", "warn")
GROUNDS = ("ground", "panel", "over")


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r"\{([^{}]*--ground: [^{}]*)\}", own("style.css"))
    assert len(blocks) == 3
    light, by_system, by_button = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", text)) for text in blocks)
    assert by_system == by_button
    return {"light": light, "dark": by_system}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2.2, definition)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(theme: str) -> None:
    colours = themes()[theme]
    weak = {
        (text, ground): round(contrast(colours[text], colours[ground]), 2)
        for text in TEXTS
        for ground in GROUNDS
        if contrast(colours[text], colours[ground]) < 4.5
    }
    assert weak == {}
