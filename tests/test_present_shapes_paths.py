"""Questions 1 and 4 in the terminal: what is marked, what is said in one line, what is said once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import kernel, launch, recording, step
from tree import shared_or_skip

from m3probe.analyzers import paths, shapes, trust
from m3probe.model.findings import Finding
from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.report import Answer, ShapeRow, ShapesSection
from m3probe.present._page import Page
from m3probe.present._paths import paths as write_paths
from m3probe.present._shapes import shapes as write_shapes
from m3probe.sources import open_recording

ROW = ShapeRow(
    phase="decode", op="aten::mm", M=8, N=1536, K=6144, count=54, predicted=True, module="shared_gate_up", dtype="bf16",
    tile="64x8x64, name; 16x16x1024 (MXFP8 selector would); 96 programs, 6 K loops", programs=24, units=132, k_loops=96,
    grid=(4, 33, 1), evidence="kernels",
)  # fmt: skip
NOTHING = PathRow(
    "sparse_attention", "sparse attention", "unproven", "", {"calls": 0, "steps": 3, "executed": 0, "steps_hidden": 0},
    "unknown", "unknown", ("no kernel of a known variant in 3 of 3 decode steps", "a trace does not say"),
    ("names read in source only: MSA",), names_from_source=False, by_phase={"decode": "unproven"},
)  # fmt: skip
RAN = replace(
    NOTHING, id="graph_replay", title="graph replay", verdict="executed", variant="FULL",
    counts={"calls": 3, "steps": 3, "executed": 3}, reasons=("a trace does not say",), evidence=("3 launches",),
    by_phase={"decode": "executed"},
)  # fmt: skip


def shapes_text(*rows: ShapeRow, width: int = 100) -> str:
    page = Page(width)
    write_shapes(page, ShapesSection(rows, None))
    return page.text()


def paths_text(*rows: PathRow, width: int = 100) -> str:
    page = Page(width)
    write_paths(page, PathsSection(rows))
    return page.text()


@pytest.mark.parametrize(
    ("programs", "grid", "shown"),
    [
        (24, (4, 33, 1), " 132/132"),  # split-K fills the device whatever the tile gives
        (600, (2, 33, 1), "! 66/132"),  # a persistent kernel starts fewer workgroups than the tile has programs
        (96, None, "! 96/132"),
        (None, (128, 1, 1), " 128/132"),  # more than three quarters: no loss worth a mark
        (None, None, "—"),
    ],
)
def test_the_mark_rests_on_what_was_recorded(programs: int | None, grid: tuple[int, ...] | None, shown: str) -> None:
    line = shapes_text(replace(ROW, programs=programs, grid=grid)).splitlines()[3]
    assert line.endswith(shown)
    assert ("!" in line) is ("!" in shown)


def test_the_tile_shown_is_the_one_that_ran() -> None:
    text = shapes_text(ROW, width=80)
    assert "64x8x64, name" in text
    assert "selector" not in text
    assert "16x16x1024 (MXFP8 selector would)" in shapes_text(replace(ROW, tile=ROW.tile.split("; ", 1)[1]))


@pytest.mark.parametrize("kind", ["graph", "eager"])
def test_shapes_of_the_h200_traces_are_whole_at_80_columns(kind: str) -> None:
    rec = open_recording([shared_or_skip(f"traces/h200-m3/h200-m3-tp4rank-{kind}.pt.trace.json.gz")])
    section = shapes.ANALYZER.judge(rec, trust.ANALYZER.judge(rec, Answer())).section(ShapesSection)
    page = Page(80)
    write_shapes(page, section)
    lines = [line for line in page.lines if "name" in line]
    assert lines
    assert not [line for line in lines if "…" in line]


def test_what_the_histogram_is_without_stands_under_it() -> None:
    claim = "the GEMMs of 9 graph launches are unknown: the histogram is without them"
    lost = Finding("shapes.unproven", "shapes", "unproven", claim, "decode", (), "")
    page = Page(100)
    write_shapes(page, ShapesSection((ROW,), None), (replace(lost, id="shapes.layout"), lost))
    assert [line for line in page.lines if "?" in line] == [f"  ? {claim}"]


def test_a_path_without_any_sign_is_one_line() -> None:
    text = paths_text(RAN, NOTHING)
    assert (
        "  ? unproven  sparse attention: no kernel of a known variant in 3 of 3 decode steps\n"
        "  all: a trace does not say"
    ) in text
    assert "steps without" not in text.split("sparse attention")[1]


def test_two_paths_without_a_sign_of_which_the_same_is_to_be_said_share_the_line() -> None:
    other = replace(NOTHING, id="moe_backend", title="MoE backend")
    text = paths_text(RAN, other, NOTHING)
    assert "? unproven  MoE backend, sparse attention: no kernel of a known variant in 3 of 3 decode steps" in text
    assert text.count("no kernel of a known variant") == 1


def test_names_from_source_alone_stay_said() -> None:
    text = paths_text(RAN, replace(NOTHING, names_from_source=True))
    assert "3 of 3 decode steps; kernel names known from source only" in " ".join(text.split())


@pytest.mark.parametrize("sign", [{"calls": 2}, {"calls_outside_steps": 1}], ids=lambda sign: next(iter(sign)))
def test_a_path_with_any_sign_is_told_at_length(sign: dict[str, int]) -> None:
    text = paths_text(RAN, replace(NOTHING, counts={**NOTHING.counts, **sign}))
    assert "decode ? unproven" in text


def test_kernels_of_no_known_variant_are_a_sign() -> None:
    strangers = (*NOTHING.reasons, "sparse_attention kernels of no known variant: nsa_fwd")
    assert "nsa_fwd" in paths_text(RAN, replace(NOTHING, reasons=strangers))
    assert "decode ? unproven" in paths_text(RAN, replace(NOTHING, reasons=strangers))


def test_a_reason_of_some_paths_is_said_once_with_their_names() -> None:
    hidden = {**NOTHING.counts, "steps_hidden": 3}
    lost = replace(NOTHING, counts=hidden, reasons=("graph launches show no kernels in 3 of 3 decode steps", "x"))
    other = replace(lost, id="moe_backend", title="MoE backend")
    text = paths_text(replace(RAN, reasons=("x",)), other, lost)
    assert text.count("graph launches show no kernels") == 1
    assert "steps hidden" not in text, "twenty paths of which a lost graph leaves the same to say are one line"
    assert "MoE backend, sparse attention: graph launches show no kernels in 3 of 3 decode steps" in text
    assert "all: x" in text


def test_a_dense_model_is_told_in_one_line_that_nothing_sparse_was_seen(tmp_path: Path) -> None:
    events = [step(100, 90, "execute_context_0(0)_generation_8(8)"), launch(101, 1), kernel(105, 2.0, 1, "flash_fwd_x")]
    rec = recording(tmp_path, events)
    section = paths.ANALYZER.judge(rec, trust.ANALYZER.judge(rec, Answer())).section(PathsSection)
    page = Page(120)
    write_paths(page, section)
    text = " ".join(" ".join(page.lines).split())
    assert "? unproven graph replay: no graph launch in 1 of 1 decode steps: eager" in text
    assert "MoE backend" in text
    assert "sparse attention" in text
    assert len(page.lines) <= 16, "paths without a sign share their lines"
