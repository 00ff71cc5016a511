"""The recipe's page by a report written by hand: what stands where, at which width, in which characters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from m3probe.model.recipe_report import (
    AtPoint,
    BackendRange,
    BuildLine,
    FloorLine,
    FloorsLine,
    MemoryLine,
    NeedLine,
    PathLine,
    RecipeReport,
    Segment,
    SetupLine,
    ShapeLine,
    Warned,
    WorkPoint,
)
from m3probe.present.recipe_text import recipe_text

DECODE = WorkPoint("decode", 512, 128, "decode, 128 requests x 4 rows")
SETUP = SetupLine(
    model="a/model",
    is_minimax_m3=True,
    linear_quant="mxfp8",
    moe_quant="mxfp8",
    gpu="MI355X",
    gfx="gfx950",
    units=256,
    tp=4,
    pp=1,
    dp=1,
    ep=1,
    nodes=1,
    spec_tokens=3,
)
PREFILL = WorkPoint("prefill", 32768, 4, "prefill, 32,768 rows")


def need(held: str, text: str) -> NeedLine:
    return NeedLine("a need", held, text, "call")


def path(name: str, decode: str, prefill: str, reason: str = "12 < 16") -> PathLine:
    """A path with one reason wherever it is not eligible."""
    at = tuple(
        AtPoint(point, state, (need("yes" if state == "eligible" else "no", reason),), {"fast": 57})
        for point, state in ((DECODE, decode), (PREFILL, prefill))
    )
    worst = "refused" if "refused" in (decode, prefill) else decode
    segments = {"decode": (Segment(1, 168, "refused", ("a",)), Segment(169, 1024, "eligible"))}
    return PathLine(
        name,
        f"Path {name}",
        worst,
        f"FLAG_{name}=1",
        segments,
        at,
        "the other",
        ("eval_file",),
        names_from_source=False,
    )


def report(**more: object) -> RecipeReport:
    made: dict[str, object] = {
        "build": BuildLine("0.33.0", "bundled table", "0.33.0", "", {"bundled": 30, "absent": 9}, ()),
        "setup": SETUP,
        "points": (DECODE, PREFILL),
        "stops": (),
        "paths": (path("mixed", "refused", "eligible"), path("good", "eligible", "eligible")),
        "all_reduce": (
            BackendRange(1, 682, "custom", "< 8,388,608 B", (DECODE.label,)),
            BackendRange(683, 1365, "rccl", "dead zone"),
            BackendRange(1366, None, "quick_reduce", "INT4", (PREFILL.label,)),
        ),
        "shapes": (
            ShapeLine("qkv_sparse", 57, 2560, 6144, None, None, {DECODE.label: "64 x 64 x 512, 8 warps, 2 stages"}),
        ),
        "memory": MemoryLine(15360, 14592, 110_700_000_000, 284_500_000_000, 5_803_520),
        "floors": FloorsLine(
            8704,
            "fp8",
            "bf16",
            2048.0,
            (
                FloorLine(
                    DECODE.label, 128, 130_360_000_000, 108_230_000_000, 16, 4, 17_486_000, 16_295_000, "moe_w13", 8
                ),
            ),
            ("router by its bytes alone (no fp32 peak of MI355X)",),
        ),
        "warnings": (Warned("no_effect", "VLLM_X does nothing", "serve.sh:4"),),
        "assumed": ("the GPU is an MI355X",),
        "untold": ("TP comes from outside",),
    }
    return RecipeReport(**(made | more))  # type: ignore[arg-type]


def text(width: int = 120, **more: object) -> str:
    return recipe_text(report(**more), width, color=False)


def flat(**more: object) -> str:
    return " ".join(text(**more).split())


def test_a_mixed_path_is_partly_eligible_and_says_where_it_is_not() -> None:
    found = flat()
    assert "○ partly eligible Path mixed FLAG_mixed=1" in found
    assert "decode, 128 requests x 4 rows: refused: 12 < 16" in found
    assert "prefill, 32,768 rows: eligible: 57 x fast expected per step" in found
    # three drafted tokens: 168 rows are 42 requests, and the 43rd makes 172
    assert "decode requests: 1 to 42 refused; 43 to 256 eligible" in found
    assert "instead: the other" in found


def test_steps_of_which_the_same_is_said_share_a_line() -> None:
    assert "every step: eligible: 57 x fast expected per step" in flat()


def test_what_stops_the_engine_stands_above_the_paths() -> None:
    page = text(stops=("4 KV heads over TP2 = 2 per rank",))
    assert page.index("the engine does not start: 4 KV heads") < page.index("fast paths")


def test_warnings_name_their_place_and_assumptions_stand_last() -> None:
    page = text()
    assert "! VLLM_X does nothing (serve.sh:4)" in page
    assert page.index("local shapes") < page.index("caches") < page.index("the GPU is an MI355X")
    assert "? TP comes from outside" in page


def test_the_map_draws_each_backend_once_and_marks_the_workload() -> None:
    lines = text().splitlines()
    bars = [line for line in lines if "█" in line]
    assert [line.split()[0] for line in bars] == ["custom", "rccl", "quick_reduce"]
    starts = [line.index("█") for line in bars]
    assert starts == sorted(starts), "more rows are further right"
    axis = next(line for line in lines if "▲" in line and "workload" in line)
    assert axis.count("▲") == 3, "one in the caption, two steps"
    assert "683 to 1,365" in text()
    assert "1,366 and more" in text()


def test_the_decode_floor_stands_below_the_caches() -> None:
    shown = flat()
    assert "the least time of a step at 8,704 tokens a request" in shown
    assert "130.36 108.23" in shown
    assert "17.486" in shown
    assert "index bf16, KV fp8: the index reads at least what the sparse attend reads from 2,048 tokens on" in shown
    assert "? router by its bytes alone (no fp32 peak of MI355X)" in shown
    assert "decode floor" not in flat(floors=None)


def test_caches_add_up_in_the_text() -> None:
    assert "15,360 + 14,592 = 29,952 B per token" in flat()
    assert "index keys are 49%" in flat()
    assert "at most 5,803,520 tokens: 284.5 GB for vLLM - 110.7 GB of weights" in flat()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(len, text(width).splitlines())) <= width


def test_a_terminal_of_ascii_gets_ascii_and_colour_only_when_asked() -> None:
    plain = recipe_text(report(), 100, color=False, ascii_only=True)
    assert plain.isascii()
    assert "\x1b" not in plain
    assert "\x1b" in recipe_text(report(), 100, color=True)


def test_an_unknown_build_says_what_to_give() -> None:
    assert "a vLLM of unknown version: no source of it and no table" in flat(build=BuildLine(None, "none"))
    assert "vLLM nightly: no source of it and no table of exactly this release" in flat(
        build=BuildLine(None, "none", "nightly")
    )


def test_lost_rules_are_named() -> None:
    lost = BuildLine("0.33.1", "source tree", "", "/x", {"confirmed": 38, "moved": 1}, ("tile_selector",))
    assert "38 of 39 rules read from this build's source" in flat(build=lost)
    assert "rules that are not known here: tile_selector" in flat(build=lost)


def test_required_paths_say_whether_they_hold() -> None:
    found = flat(required=(("good", True, "eligible at 2 points"), ("mixed:decode", False, "12 < 16")))
    assert "● required good: eligible at 2 points" in found
    assert "✗ required mixed:decode: 12 < 16" in found


def test_foreign_text_is_escaped() -> None:
    page = text(setup=replace(SETUP, model="evil\x1b[31m"))
    assert "\x1b" not in page
    assert "\\x1b" in page
