"""Where the change of a step's time went: sums worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, step, write_trace
from runs_kit import two
from steps import ATTEND, EXPERTS, GEMM, SWIGLU

from m3probe.comparing import AskedRun
from m3probe.model.compare_report import Pair, Part, PhaseChange

OTHER_TILE = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
Work = Sequence[tuple[str, float]]


def events(work: Work, *, period: float, number: int = 4, rows: int = 8, **how: Any) -> list[dict[str, Any]]:
    """Equal decode steps, one each ``period`` us; kernels follow one another without a gap, each in its own launch."""
    made: list[dict[str, Any]] = []
    for i in range(number):
        at, first = period * i, 100 * (i + 1)
        made.append(step(at, period - 10, f"execute_context_0(0)_generation_{rows}({rows})"))
        begin = at + 1.0
        for j, (name, dur) in enumerate(work):
            made.append(launch(at + j, first + j))
            beside = how.get("beside") and j == len(work) - 1
            made.append(kernel(at + 1.0 if beside else begin, dur, first + j, name, stream=9 if beside else 0))
            begin += dur
    return made


def run(tmp_path: Path, name: str, made: list[dict[str, Any]]) -> AskedRun:
    folder = tmp_path / name
    folder.mkdir()
    return AskedRun((write_trace(folder / "trace.pt.trace.json", made),), name)


def held(tmp_path: Path, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Pair:
    return two(run(tmp_path, "before", before), run(tmp_path, "after", after))[1]


def only(pair: Pair) -> PhaseChange:
    (change,) = pair.phases
    return change


def named(parts: Sequence[Part], name: str) -> Part:
    return next(part for part in parts if part.name == name)


def test_a_change_is_made_of_kernels_and_idle_time(tmp_path: Path) -> None:
    """1,000 us with 170 of work against 900 us with 110: 60 us of kernels and 40 us of idle time, together all of it."""
    before = events([(GEMM, 100), (ATTEND, 50), (SWIGLU, 20)], period=1000)
    after = events([(OTHER_TILE, 60), (ATTEND, 50)], period=900)
    change = only(held(tmp_path, before, after))
    assert (change.phase, change.rows, change.steps_before, change.steps_after) == ("decode", 8, 3, 3)
    assert (change.before_ns, change.after_ns, change.delta_ns) == (1_000_000, 900_000, -100_000)
    assert change.ratio == pytest.approx(0.9)
    assert change.verdict == "better"
    assert (change.idle_before, change.idle_after) == (pytest.approx(0.83), pytest.approx(790 / 900))
    assert (change.launches_before, change.launches_after) == (3, 2)
    assert change.ns_per_token_before == pytest.approx(1_000_000 / 8)
    families = {part.name: part.delta_ns for part in change.families}
    assert families == {"gemm": -40_000, "activation": -20_000, "sparse_attention": 0}
    assert named(change.parts, "idle").delta_ns == pytest.approx(-40_000)
    assert named(change.parts, "idle").share == pytest.approx(0.4)
    assert change.explained == pytest.approx(1.0)
    assert change.arithmetic == ("((-60,000 ns) + (0 ns) + (-40,000 ns)) / (-100,000 ns)",)


def test_kernels_are_matched_by_name_then_by_family_and_the_rest_is_named(tmp_path: Path) -> None:
    before = events([(GEMM, 100), (ATTEND, 50), (SWIGLU, 20)], period=1000)
    after = events([(OTHER_TILE, 60), (ATTEND, 50)], period=900)
    rows = {part.match: part for part in only(held(tmp_path, before, after)).kernels}
    assert (rows["same"].name, rows["same"].delta_ns) == (ATTEND, 0)
    assert (rows["replaced"].name, rows["replaced"].name_after) == (GEMM, OTHER_TILE)
    assert (rows["replaced"].delta_ns, rows["replaced"].share) == (-40_000, pytest.approx(0.4))
    assert (rows["only before"].name, rows["only before"].after_ns, rows["only before"].count_after) == (SWIGLU, 0, 0)


def test_the_largest_change_stands_first(tmp_path: Path) -> None:
    before = events([(ATTEND, 50), (SWIGLU, 20), (GEMM, 100)], period=1000)
    after = events([(ATTEND, 50), (OTHER_TILE, 60)], period=900)
    change = only(held(tmp_path, before, after))
    assert [part.delta_ns for part in change.kernels] == [-40_000, -20_000, 0]


def test_another_template_of_one_function_is_a_variant(tmp_path: Path) -> None:
    one, other = (f"void vllm::act_and_mul_kernel<{kind}>({kind})" for kind in ("half", "float"))
    change = only(held(tmp_path, events([(one, 30)], period=100), events([(other, 10)], period=80)))
    (row,) = change.kernels
    assert (row.match, row.name, row.name_after, row.delta_ns) == ("variant", one, other, -20_000)


def shaped(tile: str, dur: float) -> list[dict[str, Any]]:
    """Decode steps with one GEMM of 8 x 1536 x 6144 each, inside its operator."""
    made = events([(tile, dur), (ATTEND, 5)], period=100)
    ops = [op(100.0 * i - 0.5, 1.0, "aten::mm", [[8, 6144], [6144, 1536]], ["c10::BFloat16"] * 2) for i in range(4)]
    return [*made, *ops]


def test_kernels_of_one_shape_replace_each_other(tmp_path: Path) -> None:
    pair = held(tmp_path, shaped(GEMM, 20), shaped(OTHER_TILE, 15))
    row = named(only(pair).kernels, GEMM)
    assert (row.match, row.name_after, row.delta_ns) == ("replaced", OTHER_TILE, -5_000)
    (shape,) = pair.shapes
    assert (shape.phase, shape.shape, shape.per_step_before, shape.per_step_after) == (
        "decode",
        "8 x 1536 x 6144",
        1,
        1,
    )
    assert (shape.call_before_ns, shape.call_after_ns, shape.ratio) == (20_000, 15_000, 0.75)


def test_what_streams_do_side_by_side_is_left_unexplained_and_told(tmp_path: Path) -> None:
    """100 us of experts beside 100 us of GEMM against one after the other: kernels and idle time are what they were."""
    before = events([(GEMM, 100), (EXPERTS, 100)], period=1000, beside=True)
    after = events([(GEMM, 100), (EXPERTS, 100)], period=1100)
    change = only(held(tmp_path, before, after))
    assert change.delta_ns == 100_000
    assert change.explained == pytest.approx(0.0)
    overlap = named(change.parts, "side by side")
    assert (overlap.before_ns, overlap.after_ns, overlap.share) == (-100_000, 0, pytest.approx(1.0))


def test_steps_of_other_rows_are_in_no_comparison_and_the_mix_is_told(tmp_path: Path) -> None:
    pair = held(tmp_path, events([(GEMM, 100)], period=1000, rows=2), events([(GEMM, 100)], period=1000, rows=8))
    assert pair.phases == ()
    assert pair.mix == (
        "decode steps that before alone had: 3 of 2 rows; they are in no comparison",
        "decode steps that after alone had: 3 of 5 to 8 rows; they are in no comparison",
    )


def test_without_kernels_of_a_graph_counts_and_times_are_not_made_up(tmp_path: Path) -> None:
    """Graph launches without kernels: nothing tells what ran, so there is nothing to hold against anything."""
    before = events([(GEMM, 100)], period=1000)
    bare = [e for e in before if e["cat"] != "kernel"]
    for event in bare:
        event["name"] = "hipGraphLaunch" if event["cat"] == "cuda_runtime" else event["name"]
    pair = held(tmp_path, before, [*bare, *events([(GEMM, 100)], period=1000, number=1, rows=1)])
    assert [c for c in pair.phases if c.after_ns is not None and c.rows == 8] == []


def test_equal_steps_are_the_same_and_nothing_is_explained(tmp_path: Path) -> None:
    made = events([(GEMM, 100)], period=1000)
    change = only(held(tmp_path, made, made))
    assert (change.verdict, change.ratio, change.explained) == ("same", 1.0, None)


def test_one_step_on_a_side_is_no_proof(tmp_path: Path) -> None:
    change = only(held(tmp_path, events([(GEMM, 100)], period=1000), events([(GEMM, 90)], period=900, number=2)))
    assert (change.steps_after, change.ratio, change.error_ns, change.verdict) == (1, 0.9, None, "unproven")
