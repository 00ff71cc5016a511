"""Colours of figures: readable on both papers, and told apart by eyes that lack a cone."""

import itertools
import math

import pytest

from m3probe.present.html import palette
from m3probe.schema.verdicts import FAMILIES, Family, PathVerdict

# Machado, Oliveira and Fernandes 2009, tables of severity 1.0, in linear RGB
SEEN = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
LEAST_APART = 15.0
"""CIE76: some 2.3 are just seen side by side; a legend is farther away."""
SOLID = (*palette.HUES, palette.GREY)


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def lab(colour: str, seen: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    red, green, blue = (
        min(max(sum(a * b for a, b in zip(row, linear(colour), strict=True)), 0.0), 1.0) for row in seen
    )
    whole = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in whole)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("colour", SOLID)
@pytest.mark.parametrize("paper", ["#ffffff", "#111111"])
def test_colours_stand_out_from_the_paper(colour: str, paper: str) -> None:
    low, high = sorted((luminance(colour), luminance(paper)))
    assert (high + 0.05) / (low + 0.05) >= 3.0


@pytest.mark.parametrize("eye", SEEN)
def test_hues_are_told_apart(eye: str) -> None:
    close = {
        (one, other): round(math.dist(lab(one, SEEN[eye]), lab(other, SEEN[eye])), 1)
        for one, other in itertools.combinations(palette.HUES, 2)
    }
    assert {pair: apart for pair, apart in close.items() if apart < LEAST_APART} == {}


def test_every_family_has_a_look_of_its_own() -> None:
    assert set(palette.FAMILY) == set(FAMILIES)
    assert len(set(palette.FAMILY.values())) == len(FAMILIES)
    assert palette.family("no such") == palette.family(Family.UNKNOWN)
    assert {colour for colour, _ in palette.FAMILY.values()} <= set(SOLID)


def test_every_verdict_has_a_colour_and_absence_is_faint() -> None:
    assert set(palette.VERDICT) == set(PathVerdict)
    faint = {word for word, colour in palette.VERDICT.items() if colour.startswith("rgba")}
    assert faint == {PathVerdict.UNPROVEN, PathVerdict.OFF}


def test_counts_grow_darker_all_the_way() -> None:
    steps = [luminance(colour) for _, colour in palette.COUNTS]
    assert steps == sorted(steps, reverse=True)
