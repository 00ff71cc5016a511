"""Two recordings over M: curves recounted by hand, crossings in log-log, gates of vLLM, and gates on a histogram."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, recording, step
from comm_kit import env
from m3_setups import setup
from published_kit import row
from recording_kit import linear, read, replayed
from recording_kit import steps as counted_steps
from shapes_kit import call
from steps import ATTEND, FLASH, SCORE, one_step
from sweep_kit import gemm_trace, tpots
from tree import shared_or_skip

from m3probe.analyzers._compare.crossing import crossing, crossing_of
from m3probe.analyzers._compare.curves import OpKey, curves
from m3probe.analyzers._compare.gate import ABOVE, BELOW, Gate, placed, simulate
from m3probe.analyzers._compare.metrics import metrics
from m3probe.model.compare_bench import Crossing, OpCrossing
from m3probe.model.recording import Recording
from m3probe.present._compare_bench import crossing_block
from m3probe.present._page import Page
from m3probe.schema.setup import Setup
from m3probe.sources import open_recording


def at_setup(rec: Recording, made: Setup) -> Recording:
    return replace(rec, meta=replace(rec.meta, setup=made))


def ops(found: Crossing | None) -> dict[str, OpCrossing]:
    assert found is not None
    return {" ".join(word for word in (op.op, op.shape, op.phase) if word): op for op in found.ops}


# --- curves ------------------------------------------------------------------------------------------------


def test_a_gemm_is_timed_by_call_and_m(tmp_path: Path) -> None:
    found = curves(gemm_trace(tmp_path, {16: [10.0, 12.0], 64: [40.0]})).by_op[OpKey("gemm", 2560, 6144)]
    assert found.timed == {16: [22_000, 2], 64: [40_000, 1]}
    assert found.mean_ns() == {16: 11_000.0, 64: 40_000.0}


def test_both_gemms_of_an_expert_layer_are_one_call(tmp_path: Path) -> None:
    dims = [[8, 6144], [128, 1536, 6144], [128, 6144, 768], [8, 4], [8, 4]]
    events = call(1.0, 1, "vllm::rocm_aiter_fused_moe", dims, kernels=("fused_moe_kernel",) * 2)
    found = curves(recording(tmp_path, events)).by_op
    assert {key: curve.timed for key, curve in found.items()} == {
        OpKey("grouped gemm", 1536, 6144, 128): {8: [20_000, 1]}
    }


def test_attention_is_timed_by_step_and_its_rows(tmp_path: Path) -> None:
    two = [*one_step(1000.0, 10, [FLASH, ATTEND, FLASH], dur_us=3.0), *one_step(2000.0, 20, [FLASH, SCORE], dur_us=5.0)]
    found = curves(recording(tmp_path, two)).by_op
    assert found[OpKey("attention", phase="decode")].timed == {2: [11_000, 2]}  # 3 + 3 and 5 us
    assert found[OpKey("sparse_attention", phase="decode")].timed == {2: [3_000, 1]}
    assert found[OpKey("indexer", phase="decode")].timed == {2: [5_000, 1]}
    # the second step is the last: how long the device waits after it is not known
    assert found[OpKey("whole step", phase="decode")].timed == {2: [1_000_000, 1]}


def test_calls_without_a_time_are_counted_and_not_timed(tmp_path: Path) -> None:
    events = [op(1.0, 20.0, "aten::mm", [[8, 64], [64, 32]]), launch(2.0, 1), kernel(0, 0, 1, "Cijk_A")]
    found = curves(recording(tmp_path, events)).by_op.get(OpKey("gemm", 32, 64))
    assert found is None or not found.timed


# --- crossings ---------------------------------------------------------------------------------------------


def test_two_gemm_curves_cross_in_the_middle_of_a_log_scale(tmp_path: Path) -> None:
    a = gemm_trace(tmp_path / "a", {16: [10.0], 64: [40.0], 256: [100.0]})
    b = gemm_trace(tmp_path / "b", {16: [20.0], 64: [20.0], 512: [60.0]})
    one = ops(crossing(a, b))["gemm N 2,560 K 6,144"]
    assert [(p.M, p.a_ns, p.b_ns, p.ratio) for p in one.points] == [
        (16, 10_000, 20_000, 2.0),
        (64, 40_000, 20_000, 0.5),
    ]
    assert (one.only_a, one.only_b) == ((256,), (512,))
    (at,) = one.crossovers
    assert (at.low, at.high, at.b_faster_above) == (16, 64, True)
    assert at.at == pytest.approx(32.0)  # ratio 2 at 16 and 1/2 at 64: half way, sqrt(16 x 64)
    assert one.claim == "They cross: B is the faster one from between M 16 and 64 (about 32)"


def test_an_uneven_crossing_lies_nearer_to_the_smaller_difference(tmp_path: Path) -> None:
    # ln 4 above at 1 and ln 2 below at 8: two thirds of three octaves
    a = gemm_trace(tmp_path / "a", {1: [10.0], 8: [20.0]})
    b = gemm_trace(tmp_path / "b", {1: [40.0], 8: [10.0]})
    (at,) = ops(crossing(a, b))["gemm N 2,560 K 6,144"].crossovers
    assert at.at == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("b", "words"),
    [
        ({16: [8.0], 64: [20.0]}, "B is faster at 2 values of M from 16 to 64 (x0.500 to x0.800)"),
        ({16: [12.0], 64: [80.0]}, "B is slower at 2 values of M from 16 to 64"),
        ({16: [10.05], 64: [40.0]}, "As fast in both"),
        ({16: [10.05], 64: [20.0]}, "B is no slower"),
        ({64: [20.0]}, "B is faster at M 64 (x0.500)"),
    ],
)
def test_no_crossing_is_claimed_where_none_was_measured(b: dict[int, Any], words: str, tmp_path: Path) -> None:
    a = gemm_trace(tmp_path / "a", {16: [10.0], 64: [40.0]})
    one = ops(crossing(a, gemm_trace(tmp_path / "b", b)))["gemm N 2,560 K 6,144"]
    assert one.crossovers == ()
    assert one.claim.startswith(words)
    assert one.simulated is None


def test_without_a_common_m_or_shape_there_is_nothing_to_cross(tmp_path: Path) -> None:
    a = gemm_trace(tmp_path / "a", {16: [10.0]})
    assert crossing(a, gemm_trace(tmp_path / "b", {64: [40.0]})) is None
    assert crossing(a, gemm_trace(tmp_path / "c", {16: [10.0]}, N=1536)) is None


@pytest.mark.parametrize("id_", ["d65", "d69"])
def test_published_times_of_kernels(id_: str, tmp_path: Path) -> None:
    published = row(id_)
    a, b = (gemm_trace(tmp_path / text, {1: [float(text)]}) for text in (published.before, published.after))
    (point,) = ops(crossing(a, b))["gemm N 2,560 K 6,144"].points
    assert f"{point.ratio:.3f}" == published.ratio


def test_what_was_kept_of_a_recording_is_enough(tmp_path: Path) -> None:
    a, b = gemm_trace(tmp_path / "a", {16: [10.0], 64: [40.0]}), gemm_trace(tmp_path / "b", {16: [20.0], 64: [20.0]})
    assert crossing_of(curves(a), curves(b)) == crossing(a, b)


# --- gates of vLLM -----------------------------------------------------------------------------------------


def test_the_router_gemm_has_a_gate_at_32_rows(tmp_path: Path) -> None:
    a = gemm_trace(tmp_path / "a", {16: [20.0], 32: [20.0], 48: [20.0], 128: [20.0]}, N=128)
    b = gemm_trace(tmp_path / "b", {16: [5.0], 32: [10.0], 48: [12.0], 128: [40.0]}, N=128)
    one = ops(crossing(a, at_setup(b, setup("0.33.0"))))["gemm N 128 K 6,144"]
    (gate,) = one.gates
    assert (gate.threshold, gate.verdict) == (32, "too_low")  # the kernel wins at 48 too
    assert "keeps B out at M 48" in gate.claim
    assert one.simulated is not None
    assert one.simulated.current is not None
    assert one.simulated.best is not None
    # one call each: up to 32 by B 5 + 10, then by A 20 + 20; up to 48 by B 27 and by A 20
    assert one.simulated.current.total_ns == 55_000
    assert (one.simulated.best.threshold, one.simulated.best.side, one.simulated.best.total_ns) == (48, BELOW, 47_000)
    assert one.simulated.gain_over_current == pytest.approx(8 / 55)


def test_a_build_without_that_kernel_has_no_gate(tmp_path: Path) -> None:
    a, b = (gemm_trace(tmp_path / name, {16: [us], 64: [us]}, N=128) for name, us in (("a", 20.0), ("b", 10.0)))
    assert ops(crossing(a, at_setup(b, setup("0.25.1"))))["gemm N 128 K 6,144"].gates == ()
    assert ops(crossing(a, b))["gemm N 128 K 6,144"].gates == ()  # nothing says which build


REDUCE = "void vllm::cross_device_reduce_2stage<c10::BFloat16, 4>"


def prefills(tmp_path: Path, times_us: dict[int, float]) -> Recording:
    """A prefill step of one all-reduce for each number of rows."""
    events: list[dict[str, Any]] = []
    for number, (rows, us) in enumerate(times_us.items(), start=1):
        at = 10_000.0 * number
        events += [step(at, 900.0, f"execute_context_1({rows})_generation_0(0)"), launch(at, number)]
        events.append(kernel(at + 1, us, number, REDUCE))
    tmp_path.mkdir()
    return recording(tmp_path, events)


def test_the_smallest_payload_of_quick_reduce_is_a_gate_in_rows(tmp_path: Path) -> None:
    # BF16, TP4, INT4 without the cast: 16 MiB of 12,288 B rows = 1,366 rows
    made = setup("0.33.0", tp=4, env=env("INT4", "0"))
    a = prefills(tmp_path / "a", {512: 50.0, 1024: 100.0, 2048: 200.0})
    b = prefills(tmp_path / "b", {512: 80.0, 1024: 60.0, 2048: 100.0})
    (gate,) = ops(crossing(a, at_setup(b, made)))["comm prefill"].gates
    assert (gate.threshold, gate.verdict) == (1366, "too_high")
    assert "16,777,216 B" in gate.gate
    assert "keeps B out at M 1,024" in gate.claim
    off = ops(crossing(a, at_setup(b, setup("0.33.0", tp=4))))["comm prefill"]
    assert off.gates == ()


def test_a_crossing_is_held_against_the_nearest_edge_of_the_tile_selector(tmp_path: Path) -> None:
    made = setup("0.33.0")
    mxfp8 = replace(made, model=replace(made.model, linear_quant="mxfp8"))
    # N 2,560, K 6,144: another tile from 65 rows on
    a = gemm_trace(tmp_path / "a", {32: [10.0], 128: [40.0]})
    b = gemm_trace(tmp_path / "b", {32: [20.0], 128: [20.0]})
    (gate,) = ops(crossing(a, at_setup(b, mxfp8)))["gemm N 2,560 K 6,144"].gates
    assert (gate.threshold, gate.verdict) == (65, "at")
    older = replace(mxfp8, build=setup("0.32.0").build)
    assert ops(crossing(a, at_setup(b, older)))["gemm N 2,560 K 6,144"].gates == ()


# --- a gate beside points ----------------------------------------------------------------------------------

UP = [(16.0, 2.0), (64.0, 0.5)]
"""B is slower at 16 and faster at 64."""


@pytest.mark.parametrize(
    ("gate", "points", "verdict"),
    [
        (Gate("g", 64, ABOVE), UP, "at"),
        (Gate("g", 17, ABOVE), UP, "at"),
        (Gate("g", 16, ABOVE), UP, "too_low"),
        (Gate("g", 65, ABOVE), UP, "too_high"),
        (Gate("g", 32, BELOW), UP, "wrong_side"),
        (Gate("g", 32, BELOW), [(16.0, 0.5), (64.0, 2.0)], "at"),
        (Gate("g", 64, BELOW), [(16.0, 0.5), (64.0, 2.0)], "too_high"),
        (Gate("g", 8, BELOW), [(16.0, 0.5), (64.0, 2.0)], "too_low"),
        (Gate("g", 32, ABOVE), [(16.0, 1.0), (64.0, 0.5)], "unproven"),  # alike where it keeps out
        (Gate("g", 32, ABOVE), [(64.0, 0.5)], "unproven"),
        (Gate("g", 32, ABOVE), [(16.0, 2.0)], "unproven"),
    ],
)
def test_where_a_gate_sits(gate: Gate, points: list[tuple[float, float]], verdict: str) -> None:
    assert placed(gate, points).verdict == verdict


# --- a gate on a histogram ---------------------------------------------------------------------------------

A_NS, B_NS = {16: 10.0, 64: 40.0}, {16: 20.0, 64: 20.0}


def test_the_best_threshold_of_a_histogram() -> None:
    # three calls of 16 and two of 64: A 30 + 80, B 60 + 40, B from 64 on 30 + 40
    found = simulate({16: 3, 64: 2}, A_NS, B_NS)
    assert found is not None
    assert (found.always_a_ns, found.always_b_ns, found.covered, found.calls) == (110, 100, 5, 5)
    assert found.best is not None
    assert (found.best.side, found.best.threshold, found.best.total_ns) == (ABOVE, 64, 70)
    assert found.best.gain == pytest.approx(0.3)
    assert found.proven
    assert (found.current, found.gain_over_current) == (None, None)


def test_the_gate_in_force_is_held_against_the_best() -> None:
    found = simulate({16: 3, 64: 2}, A_NS, B_NS, current=Gate("g", 128, ABOVE))
    assert found is not None
    assert found.current is not None
    assert found.current.total_ns == 110  # it never opens
    assert found.gain_over_current == pytest.approx(40 / 110)
    assert simulate({16: 3, 64: 2}, A_NS, B_NS, current=Gate("g", 64, ABOVE)).gain_over_current == 0  # type: ignore[union-attr]


def test_always_one_way_needs_no_gate() -> None:
    found = simulate({16: 3, 64: 2}, A_NS, {16: 5.0, 64: 20.0})
    assert found is not None
    assert found.best is None
    assert "no threshold beats always B" in found.claim


def test_calls_at_other_sizes_are_not_covered() -> None:
    found = simulate({16: 3, 64: 2, 96: 5}, A_NS, B_NS)
    assert found is not None
    assert (found.covered, found.calls, found.proven) == (5, 10, False)
    assert "unproven for the recording: 50.0 % of its calls are at other sizes" in found.claim
    assert simulate({96: 5}, A_NS, B_NS) is None
    assert simulate({}, A_NS, B_NS) is None


def test_counted_steps_of_a_live_recording_are_the_histogram(tmp_path: Path) -> None:
    live = read(
        tmp_path,
        linear("model.layers.0.mlp.gate_up_proj", 2560, 6144),
        linear("model.layers.1.mlp.gate_up_proj", 2560, 6144),
        counted_steps(replayed(1, 30, 16, 16), replayed(2, 20, 60, 64)),
    )
    found = curves(live)
    # two layers: 60 calls of 16 rows and 40 of 64
    assert found.histogram(OpKey("gemm", 2560, 6144)) == {16: 60, 64: 40}
    a = replace(curves(gemm_trace(tmp_path / "a", {16: [10.0], 64: [40.0]})), counted=found.counted)
    one = ops(crossing_of(a, curves(gemm_trace(tmp_path / "b", {16: [20.0], 64: [20.0]}))))["gemm N 2,560 K 6,144"]
    assert one.simulated is not None
    # in us: A 600 + 1,600, B 1,200 + 800, B from 64 on 600 + 800
    assert (one.simulated.calls, one.simulated.always_a_ns, one.simulated.always_b_ns) == (100, 2_200_000, 2_000_000)
    assert one.simulated.best is not None
    assert one.simulated.best.total_ns == 1_400_000


# --- the client's gain beside the traces -------------------------------------------------------------------


def decode_steps(tmp_path: Path, attend_us: float, flash_us: float = 100.0) -> Recording:
    """Two steps of two rows, each 1,000 us after the other."""
    events: list[dict[str, Any]] = []
    for number in (1, 2):
        at = 1000.0 * number
        events += [step(at, 900.0, "execute_context_0(0)_generation_2(2)"), launch(at, 10 * number)]
        events += [launch(at + 2, 10 * number + 1), kernel(at + 3, flash_us, 10 * number, FLASH)]
        events.append(kernel(at + 4 + flash_us, attend_us, 10 * number + 1, ATTEND))
    tmp_path.mkdir()
    return recording(tmp_path, events)


@pytest.mark.parametrize(
    ("tpot", "needs", "word"),
    [
        # 200 of 1,000 us are halved: a tenth of the step, 10 ms -> 9 ms
        (9.0, "need 20.0 % of the step", "which agrees"),
        (8.0, "need 40.0 % of the step", "something else gained too"),
        (9.5, "need 10.0 % of the step", "did not reach every step"),
    ],
)
def test_the_share_that_a_gain_needs_is_held_against_the_traced_one(
    tpot: float, needs: str, word: str, tmp_path: Path
) -> None:
    over_rows = crossing(decode_steps(tmp_path / "a", 200.0), decode_steps(tmp_path / "b", 100.0))
    found = metrics(tpots({2: 10.0}), tpots({2: tpot}), crossing=over_rows)
    said = found.notes[0]
    assert said.startswith("sparse_attention takes 50.0 % less of a decode step of 2 rows.")
    assert needs in said
    assert "traced it had 20.0 %" in said
    assert word in said


def test_without_a_gain_or_a_step_of_that_size_no_share_is_told(tmp_path: Path) -> None:
    over_rows = crossing(decode_steps(tmp_path / "a", 200.0), decode_steps(tmp_path / "b", 100.0))
    for a, b in (({2: 10.0}, {2: 10.0}), ({2: 10.0}, {2: 11.0}), ({8: 10.0}, {8: 9.0})):
        notes = metrics(tpots(a), tpots(b), crossing=over_rows).notes
        assert not any("decode step" in note for note in notes)
    slower = crossing(decode_steps(tmp_path / "c", 100.0), decode_steps(tmp_path / "d", 200.0))
    assert not any("decode step" in note for note in metrics(tpots({2: 10.0}), tpots({2: 9.0}), crossing=slower).notes)


# --- real traces and the page ------------------------------------------------------------------------------


def test_eager_and_graph_samples_cross_nowhere() -> None:
    a, b = (
        open_recording([shared_or_skip(f"traces/h200-m3/h200-m3-tp4rank-{mode}.pt.trace.json.gz")])
        for mode in ("eager", "graph")
    )
    found = ops(crossing(a, b))
    assert all(not op.crossovers for op in found.values())
    assert found["whole step decode"].points[0].M == 8
    assert found["gemm N 2,560 K 6,144"].points[0].M == 4000  # replays have no shapes here: prefill alone


def shown(found: Crossing | None) -> str:
    assert found is not None
    page = Page(110)
    crossing_block(page, found, explain=True)
    return page.text()


def test_a_crossing_has_its_table_and_the_rest_a_line(tmp_path: Path) -> None:
    a, b = gemm_trace(tmp_path / "a", {16: [10.0], 64: [40.0]}), gemm_trace(tmp_path / "b", {16: [20.0], 64: [20.0]})
    text = shown(crossing(a, b))
    assert "They cross: B is the faster one from between M 16 and 64 (about 32)" in text
    assert ["M", "64", "40.0", "1", "20.0", "1", "0.500"] in [line.split() for line in text.splitlines()]
    flat = shown(crossing(a, gemm_trace(tmp_path / "c", {16: [9.0], 64: [30.0]})))
    assert "No operation crosses at what both measured" in flat
    assert "16 to 64" in flat
    single = shown(crossing(a, gemm_trace(tmp_path / "d", {16: [9.0]})))
    assert "timed at more than one M by both: where they would cross is not known" in " ".join(single.split())
    page = Page(80)
    crossing_block(page, Crossing(), explain=True)
    assert page.text() == ""


def test_a_gate_that_is_asked_about_is_tried_on_the_recorded_calls(tmp_path: Path) -> None:
    # A: one call of 32 rows at 10 us and one of 128 at 40; B takes 20 for either; from 128 rows on B: 10 + 20 of 10 + 40
    a = gemm_trace(tmp_path / "a", {32: [10.0], 128: [40.0]})
    b = gemm_trace(tmp_path / "b", {32: [20.0], 128: [20.0]})
    found = crossing_of(curves(a), curves(b), asked=100)
    assert found is not None
    (op,) = found.ops
    assert op.simulated is not None
    assert op.simulated.current is not None
    assert (op.simulated.current.threshold, op.simulated.current.total_ns) == (100, 30_000)
    assert "the gate asked about (M >= 100) is as good" in op.simulated.claim
    assert op.gates[0].verdict == "at"
    low = crossing_of(curves(a), curves(b), asked=1)  # always B: 40 us where 30 are enough
    assert low is not None
    assert low.ops[0].simulated is not None
    assert "the gate asked about (M >= 1) 0.040 ms, 25.0 % more than the best needs" in low.ops[0].simulated.claim
