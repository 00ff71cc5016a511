"""Communication paths on paper: sizes, worlds, settings and builds, worked out by hand from four releases' source: custom all-reduce; fused all-reduce and norm; calls of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from comm_kit import AITER, CUSTOM, EAGLE, FUSED, INVARIANT, QR, ROW, env, prefill
from m3_setups import M3, NEW, OLD, at, decode, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._all_reduce import backend_of
from m3probe.fastpaths._comm_variants import all_reduces
from m3probe.schema.setup import Held, Point, Setup, State

# --- custom all-reduce ------------------------------------------------------------------------------------------


def test_custom_is_on_by_default_and_refused_with_numbers() -> None:
    assert at(CUSTOM, setup(), decode(128)).state is State.ELIGIBLE
    assert at(CUSTOM, setup(), prefill(682)).state is State.ELIGIBLE
    assert refusal(at(CUSTOM, setup(), prefill(683))) == "8,392,704 B >= 8,388,608 B"
    assert refusal(at(CUSTOM, setup(env=AITER), prefill(5462))) == "67,117,056 B > 67,108,864 B"
    assert at(CUSTOM, setup(flags={"--disable-custom-all-reduce": True})).state is State.OFF
    alone = at(CUSTOM, setup(tp=1))  # nothing is there to take or to refuse
    assert (alone.state, alone.asked) == (State.OFF, "TP1: no all-reduce")
    assert refusal(at(CUSTOM, setup(tp=16))) == "custom: TP16: it serves TP2, TP4, TP6, TP8"


def test_quick_reduce_is_asked_first() -> None:
    found = at(CUSTOM, setup(env=env("INT4") | AITER), prefill(171))
    assert refusal(found) == (
        "QuickReduce takes it first: quick_reduce: 2,101,248 B >= 2,097,152 B: bf16, TP4, INT4, cast on"
    )
    assert at(CUSTOM, setup(env=env("INT4") | AITER), prefill(170)).state is State.ELIGIBLE


# --- fused all-reduce and norm ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(
    ("tp", "last", "said"),
    [
        (2, 80, "81 rows > 80"),
        (4, 21, "270,336 B >= 262,144 B: TP4"),
        (8, 10, "135,168 B >= 131,072 B: TP8"),
    ],
)
def test_fusion_ends_at_80_rows_or_at_the_bytes_of_the_world(version: str, tp: int, last: int, said: str) -> None:
    made = setup(version, tp, env=AITER, flags={"--enforce-eager": True})
    assert at(FUSED, made, decode(last)).state is State.ELIGIBLE
    found = at(FUSED, made, decode(last + 1))
    assert found.state is State.REFUSED
    assert refusal(found) == said


@pytest.mark.parametrize(
    ("tp", "rows", "state"),
    [(4, 16, State.ELIGIBLE), (4, 17, State.REFUSED), (8, 8, State.ELIGIBLE), (8, 9, State.REFUSED)],
)
def test_a_graph_is_judged_by_the_size_it_was_captured_with(tp: int, rows: int, state: State) -> None:
    """17 rows replay 24 (294,912 B), 9 rows replay 16 (196,608 B)."""
    found = at(FUSED, setup(tp=tp, env=AITER), decode(rows))
    assert found.state is state
    if rows == 17:
        assert refusal(found) == "294,912 B >= 262,144 B: TP4 (17 rows run as 24)"
    if rows == 9:
        assert refusal(found) == "196,608 B >= 131,072 B: TP8 (9 rows run as 16)"


@pytest.mark.parametrize(("tp", "last"), [(4, 31), (8, 15)])
def test_the_byte_limit_of_the_fusion_is_exclusive(tp: int, last: int) -> None:
    """Hidden size 4,096: 262,144 B are 32 rows of 8,192 B, 131,072 B are 16."""
    made = setup(tp=tp, env=AITER, model=replace(M3, hidden_size=4096), flags={"--enforce-eager": True})
    assert [at(FUSED, made, decode(n)).state for n in (last, last + 1)] == [State.ELIGIBLE, State.REFUSED]


@pytest.mark.parametrize("version", OLD)
def test_older_builds_fuse_on_nvidia_alone(version: str) -> None:
    found = at(FUSED, setup(version, env=AITER), decode(8))
    assert (found.state, found.asked) == (
        State.OFF,
        f"vLLM {version} has the FlashInfer branch alone, which is NVIDIA's",
    )


def test_fusion_needs_aiters_all_reduce() -> None:
    assert at(FUSED, setup(), decode(8)).state is State.OFF
    assert at(FUSED, setup(env=AITER | INVARIANT), decode(8)).state is State.OFF
    assert at(FUSED, setup(env=AITER, flags={"--disable-custom-all-reduce": True}), decode(8)).state is State.REFUSED
    other = setup(env=AITER, model=replace(M3, is_minimax_m3=False), flags={"--dtype": "bfloat16"})
    assert at(FUSED, other, decode(8)).state is State.OFF, "the Gemma form stands in MiniMax M3's model file"


@pytest.mark.parametrize(("hidden", "state"), [(8192, State.ELIGIBLE), (8200, State.REFUSED), (6148, State.REFUSED)])
def test_a_row_is_at_most_1024_whole_packs(hidden: int, state: State) -> None:
    found = at(FUSED, setup(tp=2, env=AITER, model=replace(M3, hidden_size=hidden)), decode(8))
    assert found.state is state
    if hidden == 8200:
        assert "1,025 packs of 16 B in a row > 1,024" in found.of(Held.NO)


def test_the_fusion_is_asked_before_quick_reduce_of_any_kind() -> None:
    """TP2, MIN_SIZE 0: QuickReduce would take 8 rows, yet attention's 60 all-reduces are fused before it is asked."""
    made = setup("0.33.0", 2, env=env("INT4", MIN_SIZE_BYTES_MB="0") | AITER)
    assert backend_of(made, 8 * ROW)[0] == QR
    assert calls(FUSED, made, decode(8)) == {"AITER one-stage": 60}
    assert calls(QR, made, decode(8))["FlyDSL INT4"] == 61


# --- calls of a step ------------------------------------------------------------------------------------------------


def calls(path: str, made: Setup, point: Point) -> dict[str, int | None]:
    return {v.name: v.expected(made, point) for v in fast_paths()[path].variants if v.expected}


def nonzero(path: str, made: Setup, point: Point) -> dict[str, int | None]:
    return {name: count for name, count in calls(path, made, point).items() if count != 0}


def test_a_step_makes_121_all_reduces() -> None:
    """60 after attention, 3 after MLPs and 57 after experts, one after the embedding."""
    assert all_reduces(setup()) == 121
    assert nonzero(CUSTOM, setup(), decode(128)) == {"vLLM": 121}
    assert nonzero(CUSTOM, setup(), prefill(683)) == {"RCCL": 121}
    assert nonzero(QR, setup(env=env("INT4", "0")), prefill(32768)) == {"HIP INT4": 121}
    assert nonzero(QR, setup(env=env("INT4", "0") | AITER), prefill(32768)) == {"FlyDSL INT4": 121}
    assert nonzero(QR, setup("0.32.0", env=env("INT4", "0") | AITER), prefill(32768)) == {"HIP INT4": 121}
    assert nonzero(QR, setup(env=env("INT4", "0") | AITER), decode(128)) == {"AITER": 121}


def test_fused_ones_are_taken_off() -> None:
    made = setup(env=AITER)
    assert nonzero(FUSED, made, decode(16)) == {"AITER one-stage": 60}
    assert nonzero(CUSTOM, made, decode(16)) == {"AITER": 61}
    assert nonzero(FUSED, made, decode(24)) == {}
    assert nonzero(CUSTOM, made, decode(24)) == {"AITER": 121}
    assert nonzero(CUSTOM, setup("0.25.1", env=AITER), decode(16)) == {"AITER": 121}


@pytest.mark.parametrize(
    "more",
    [
        {"pp": 2},
        {"dp": 2},
        {"draft": EAGLE},
        {"flags": {"--monokernel": True}},
        {"model": replace(M3, layers=None)},
        {"model": replace(M3, is_minimax_m3=False)},
    ],
    ids=["pp", "dp", "draft", "monokernel", "layers", "model"],
)
def test_calls_are_not_told_where_something_else_adds_or_takes_some(more: dict[str, Any]) -> None:
    assert all_reduces(setup(**more)) is None
    assert set(calls(CUSTOM, setup(**more), decode(16)).values()) == {None}


def test_one_rank_makes_none_and_an_unknown_build_tells_none() -> None:
    assert all_reduces(setup(tp=1)) == 0
    assert nonzero(CUSTOM, setup(tp=1), decode(16)) == {}
    assert set(calls(CUSTOM, setup(None), decode(16)).values()) == {None}
