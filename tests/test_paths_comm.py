"""Communication paths on paper: sizes, worlds, settings and builds, worked out by hand from four releases' source.

One row of MiniMax M3 is 6,144 x 2 B = 12,288 B, so 1 MiB is 85.33 rows, 8 MiB 682.67, 16 MiB 1,365.33 and 64 MiB 5,461.33.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import recording
from m3_setups import M3, NEW, OLD, VERSIONS, at, decode, refusal, setup
from test_paths import ROCM, eager, rows_of
from tree import ROOT

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._all_reduce import Interval, backend_of, intervals
from m3probe.fastpaths._capture import launched
from m3probe.fastpaths._comm_variants import all_reduces
from m3probe.gates import gates
from m3probe.schema.setup import Held, ModelFacts, Point, Setup, State
from m3probe.schema.verdicts import Phase

QR, CUSTOM, FUSED = "quick_reduce", "custom_all_reduce", "fused_allreduce_norm"
MINE = (QR, CUSTOM, FUSED)
Q = "VLLM_ROCM_QUICK_REDUCE_"
QUANT, CAST, MIN_MB, MAX_MB, KB = (
    f"{Q}QUANTIZATION",
    f"{Q}CAST_BF16_TO_FP16",
    f"{Q}MIN_SIZE_BYTES_MB",
    f"{Q}MAX_SIZE_BYTES_MB",
    f"{Q}QUANTIZATION_MIN_SIZE_KB",
)
AITER = {"VLLM_ROCM_USE_AITER": "1"}
INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}
ROW = 12_288
EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}


def env(codec: str, cast: str | None = None, **more: str) -> dict[str, str]:
    return {QUANT: codec} | ({} if cast is None else {CAST: cast}) | {Q + name: value for name, value in more.items()}


def prefill(rows: int) -> Point:
    """One request's chunk: eager on 0.32 and 0.33, so its rows are what the kernels get."""
    return Point(Phase.PREFILL, rows, 1)


def bands(made: Setup) -> list[tuple[int, int | None, str | None]]:
    return [(i.first_row, i.last_row, i.backend) for i in intervals(made)]


# --- the shelf -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MINE)
def test_a_path_of_this_catalogue_is_whole_and_its_gates_exist(name: str) -> None:
    path = fast_paths()[name]
    assert path.gates == ("eval_file", "cosine")
    assert set(path.gates) <= set(gates())
    assert path.instead
    assert path.functions
    assert path.sources
    assert all(effect.source for effect in path.effects)
    assert all(need.check for need in path.needs), "each need is judged on paper"


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("point", [decode(128), prefill(32768)], ids=["decode", "prefill"])
def test_an_unknown_build_never_makes_a_path_eligible(name: str, point: Point) -> None:
    found = at(name, setup(None, env=env("INT4", "0") | AITER), point)
    assert found.state is State.UNPROVEN


# --- QuickReduce: the size table --------------------------------------------------------------------------------
# (dtype of the column, TP) -> first eligible rows of FP, INT8, INT6, INT4, INT3, by hand from the MiB of the table:
# 1 MiB -> 86, 2 -> 171, 4 -> 342, 8 -> 683, 16 -> 1,366, 64 -> 5,462; 2,048 MiB is the largest size too -> never.

CODECS = ("FP", "INT8", "INT6", "INT4", "INT3")
FIRST_ROWS: dict[tuple[str, int], tuple[int | None, ...]] = {
    ("float16", 2): (86, 171, 171, 86, 86),
    ("float16", 4): (86, 1366, 342, 171, None),
    ("float16", 8): (1366, 342, 342, 171, None),
    ("bfloat16", 2): (171, 683, 683, 683, 683),
    ("bfloat16", 4): (683, 5462, 5462, 1366, None),
    ("bfloat16", 8): (1366, None, None, None, None),
}
CELLS = [(d, tp, c, first) for (d, tp), row in FIRST_ROWS.items() for c, first in zip(CODECS, row, strict=True)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("column", "tp", "codec", "first"), CELLS)
def test_every_cell_of_the_table_at_its_edge(version: str, column: str, tp: int, codec: str, first: int | None) -> None:
    made = setup(version, tp, env=env(codec, "0"), flags={"--dtype": column, "--enforce-eager": True})
    if codec == "INT3" and version == "0.24.0":
        assert at(QR, made, prefill(32768)).state is State.REFUSED_AT_START, "0.24 has no INT3"
        return
    if first is None:
        assert at(QR, made, prefill(174_762)).state is State.REFUSED
        assert at(QR, made, prefill(174_763)).state is State.REFUSED
        return
    assert at(QR, made, prefill(first - 1)).state is State.REFUSED
    assert at(QR, made, prefill(first)).state is State.ELIGIBLE
    assert at(QR, made, prefill(first + 1)).state is State.ELIGIBLE


@pytest.mark.parametrize(("column", "tp", "codec", "first"), [cell for cell in CELLS if cell[0] == "float16"])
def test_the_cast_is_on_by_default_and_takes_the_other_column(
    column: str, tp: int, codec: str, first: int | None
) -> None:
    assert column == "float16"
    for said in (None, "1", "True", "true"):
        made = setup(tp=tp, env=env(codec, said))
        if first is None:
            assert at(QR, made, prefill(32768)).state is State.REFUSED
        else:
            states = [at(QR, made, prefill(rows)).state for rows in (first - 1, first)]
            assert states == [State.REFUSED, State.ELIGIBLE]


@pytest.mark.parametrize("word", ["0", "false", "yes", ""])
def test_any_other_word_turns_the_cast_off(word: str) -> None:
    made = setup(env=env("INT4", word))
    assert [at(QR, made, prefill(n)).state for n in (1365, 1366)] == [State.REFUSED, State.ELIGIBLE]


def test_a_smallest_size_that_is_a_whole_number_of_rows_is_eligible_itself() -> None:
    """Hidden size 4,096: 16 MiB are 2,048 rows of 8,192 B exactly, and the comparison is >=."""
    made = setup(env=env("INT4", "0"), model=replace(M3, hidden_size=4096))
    assert [at(QR, made, prefill(n)).state for n in (2047, 2048)] == [State.REFUSED, State.ELIGIBLE]


def test_bf16_at_tp8_has_one_size_alone_which_no_row_count_of_m3_has() -> None:
    """2,048 MiB is both the smallest and the largest size: 262,144 rows of 8,192 B, and no number of 12,288 B."""
    wide = setup(tp=8, env=env("INT4", "0"), model=replace(M3, hidden_size=4096))
    assert [backend_of(wide, n * 8192)[0] for n in (262_143, 262_144, 262_145)] == ["rccl", QR, "rccl"]
    assert refusal(at(QR, setup(tp=8, env=env("INT4", "0")), prefill(174_762))) == (
        "2,147,475,456 B < 2,147,483,648 B: bf16, TP8, INT4, cast off"
    )
    assert refusal(at(QR, setup(tp=8, env=env("INT4", "0")), prefill(174_763))) == (
        "2,147,487,744 B > 2,147,483,648 B, the largest size"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_gated_recipe_cannot_reach_quick_reduce_in_decode_at_128(version: str) -> None:
    """InferenceX PR 2187: INT4, CAST=0, 256 KB codec threshold, no MIN_SIZE."""
    gated = env("INT4", "0", QUANTIZATION_MIN_SIZE_KB="256")
    found = at(QR, setup(version, env=gated), decode(128))
    assert found.state is State.REFUSED
    assert refusal(found) == "1,572,864 B < 16,777,216 B: bf16, TP4, INT4, cast off"
    assert found.asked == (
        f"{QUANT}=INT4; {KB}=256 (262,144 B) never matters: the smallest payload is 16,777,216 B "
        "(bf16, TP4, INT4, cast off)"
    )
    cast = at(QR, setup(version, env=env("INT4")), decode(128))
    assert refusal(cast) == "1,572,864 B < 2,097,152 B: bf16, TP4, INT4, cast on"
    chunk = at(QR, setup(version, env=gated), prefill(32768))
    assert chunk.state is State.ELIGIBLE
    assert "402,653,184 B >= 16,777,216 B: bf16, TP4, INT4, cast off" in chunk.of(Held.YES)


def test_drafted_tokens_are_rows() -> None:
    """3 drafts: 128 requests are 512 rows = 6 MiB; 43 requests reach 2 MiB, 342 reach 16 MiB."""
    cast, plain = setup(env=env("INT4"), draft=EAGLE), setup(env=env("INT4", "0"), draft=EAGLE)
    assert at(QR, cast, decode(512, 128)).state is State.ELIGIBLE
    assert refusal(at(QR, plain, decode(512, 128))) == "6,291,456 B < 16,777,216 B: bf16, TP4, INT4, cast off"
    bare = setup(env=env("INT4"), draft=EAGLE, flags={"--enforce-eager": True})
    assert [at(QR, bare, decode(4 * n, n)).state for n in (42, 43)] == [State.REFUSED, State.ELIGIBLE]
    assert [at(QR, plain, decode(4 * n, n)).state for n in (341, 342)] == [State.REFUSED, State.ELIGIBLE]


# --- QuickReduce: what keeps it from being built ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tp", "said"),
    [
        (1, "TP1: no all-reduce"),
        (3, "TP3; QuickReduce serves TP2, TP4, TP8"),
        (6, "TP6; QuickReduce serves TP2, TP4, TP8"),
        (16, "TP16; QuickReduce serves TP2, TP4, TP8"),
    ],
)
def test_worlds_without_quick_reduce(tp: int, said: str) -> None:
    found = at(QR, setup(tp=tp, env=env("INT4")), prefill(32768))
    assert found.state is State.REFUSED
    assert said in found.of(Held.NO)


@pytest.mark.parametrize(("tp", "state"), [(2, State.ELIGIBLE), (4, State.REFUSED), (8, State.REFUSED)])
def test_int3_is_for_two_ranks(tp: int, state: State) -> None:
    found = at(QR, setup(tp=tp, env=env("INT3")), prefill(32768))
    assert found.state is state
    if state is State.REFUSED:
        assert f"INT3 at TP{tp}; it is for TP2" in found.of(Held.NO)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gfx": "gfx90a"}, "GPU gfx90a: vLLM builds custom all-reduces on gfx94x and gfx95x alone"),
        ({"flags": {"--disable-custom-all-reduce": True}}, "--disable-custom-all-reduce"),
        ({"flags": {"--dtype": "float32"}}, "activations in fp32"),
        ({"nodes": 2, "tp": 8}, "TP8 of 8 ranks on 2 nodes: the group spans nodes"),
    ],
)
def test_each_refusal_is_told(more: dict[str, Any], said: str) -> None:
    found = at(QR, setup("0.33.0", **{"env": env("INT4")} | more), prefill(32768))
    assert found.state is State.REFUSED
    assert said in found.of(Held.NO)


def test_every_refusal_is_kept() -> None:
    made = setup("0.33.0", 4, env=env("INT4", "0") | INVARIANT, flags={"--disable-custom-all-reduce": True})
    assert at(QR, made, decode(128)).of(Held.NO) == (
        "--disable-custom-all-reduce",
        "VLLM_BATCH_INVARIANT=1: its order of summation is not fixed",
        "1,572,864 B < 16,777,216 B: bf16, TP4, INT4, cast off",
    )


def test_facts_that_nobody_gave_leave_it_unproven() -> None:
    asks = env("INT4")
    assert at(QR, setup(env=asks, gfx=None), prefill(32768)).state is State.UNPROVEN
    assert at(QR, setup(env=asks, nodes=None), prefill(32768)).state is State.UNPROVEN
    assert at(QR, setup(env=asks, model=ModelFacts()), prefill(32768)).state is State.UNPROVEN


# --- QuickReduce: how its variables are read ----------------------------------------------------------------------


def test_no_codec_is_off_and_names_what_reaches_nothing() -> None:
    plain = at(QR, setup())
    assert (plain.state, plain.asked) == (State.OFF, f"{QUANT} is not set (default NONE)")
    lost = setup(env={MIN_MB: "1", KB: "256"})
    assert at(QR, lost).asked == f"{QUANT} is not set (default NONE); {MIN_MB}, {KB} reach nothing"
    asked = fast_paths()[QR].asked
    assert asked is not None
    assert asked(lost).wasted
    assert not asked(setup()).wasted
    assert at(QR, setup(env={QUANT: "NONE"})).state is State.OFF


@pytest.mark.parametrize("word", ["int4", "INT4 ", "", "Q4", "none"])
def test_the_word_of_a_codec_is_compared_as_it_stands(word: str) -> None:
    found = at(QR, setup(env={QUANT: word}), prefill(32768))
    assert found.state is State.REFUSED_AT_START
    names = "FP, INT8, INT6, INT4, INT3, NONE"
    why = f"{QUANT}={word!r} is none of {names} (the case counts); the engine does not start (ValueError)"
    assert why in found.of(Held.NO)
    assert backend_of(setup(env={QUANT: word}), ROW) == (None, why)


def test_int3_is_no_word_of_0_24() -> None:
    found = at(QR, setup("0.24.0", 2, env=env("INT3")), prefill(32768))
    assert found.state is State.REFUSED_AT_START
    assert "is none of FP, INT8, INT6, INT4, NONE" in found.of(Held.NO)[0]


@pytest.mark.parametrize("name", [MIN_MB, MAX_MB, KB])
@pytest.mark.parametrize("word", ["", "1.5", "1MB", "one"])
def test_a_number_is_what_python_reads_as_one(name: str, word: str) -> None:
    found = at(QR, setup(env={QUANT: "INT4", name: word}), prefill(32768))
    assert found.state is State.REFUSED_AT_START
    assert f"{name}={word!r} is no whole number; the engine does not start (ValueError)" in found.of(Held.NO)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({MIN_MB: "-1"}, f"{MIN_MB}=-1 < 0"),
        ({KB: "-1"}, f"{KB}=-1 < 0"),
        ({MIN_MB: "2049"}, f"{MIN_MB}=2049: 2,148,532,224 B > 2,147,483,648 B, the largest size"),
        ({MIN_MB: "3", MAX_MB: "2"}, f"{MIN_MB}=3: 3,145,728 B > 2,097,152 B, the largest size"),
    ],
)
def test_a_number_out_of_range_keeps_the_engine_from_starting(setting: dict[str, str], said: str) -> None:
    found = at(QR, setup(env=env("INT4") | setting), prefill(32768))
    assert found.state is State.REFUSED_AT_START
    assert f"{said}; the engine does not start (ValueError)" in found.of(Held.NO)
    unread = at(QR, setup(tp=16, env=env("INT4") | setting), prefill(32768))
    assert unread.state is State.REFUSED, "a group without QuickReduce never reads it"
    assert not unread.of(Held.UNKNOWN)


@pytest.mark.parametrize(
    ("setting", "first"),
    [({MIN_MB: "0"}, 1), ({MIN_MB: "1"}, 86), ({MIN_MB: " 2 "}, 171), ({MIN_MB: "64"}, 5462), ({MIN_MB: "2048"}, None)],
)
def test_the_override_replaces_the_table(setting: dict[str, str], first: int | None) -> None:
    made = setup(env=env("INT4", "0") | setting, flags={"--enforce-eager": True})
    if first is None:
        assert at(QR, made, prefill(174_762)).state is State.REFUSED
        return
    assert at(QR, made, prefill(first)).state is State.ELIGIBLE
    if first > 1:
        found = at(QR, made, prefill(first - 1))
        assert refusal(found).endswith(f" B: {MIN_MB}={int(setting[MIN_MB])}")


def test_the_largest_size_is_inclusive_and_zero_takes_nothing() -> None:
    """24 MiB are 2,048 rows of 12,288 B exactly."""
    made = setup(env=env("INT4", MAX_SIZE_BYTES_MB="24"))
    assert [at(QR, made, prefill(n)).state for n in (2048, 2049)] == [State.ELIGIBLE, State.REFUSED]
    assert refusal(at(QR, made, prefill(2049))) == "25,178,112 B > 25,165,824 B, the largest size"
    assert at(QR, setup(env=env("INT4", MAX_SIZE_BYTES_MB="0")), prefill(2048)).state is State.REFUSED


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("most", ["-5", "-1", "0"])
def test_a_largest_size_below_one_takes_nothing_and_stops_nothing(version: str, most: str) -> None:
    """init_quick_all_reduce logs "You should not set a max_size smaller than 1MB" and goes on."""
    made = setup(version, env=env("INT4", MAX_SIZE_BYTES_MB=most), flags={"--enforce-eager": True})
    found = at(QR, made, prefill(2048))
    assert (found.state, refusal(found)) == (
        State.REFUSED,
        f"25,165,824 B > {int(most) * 1_048_576:,} B, the largest size",
    )
    assert bands(made) == [(1, 682, "custom"), (683, None, "rccl")], "8,388,608 / 12,288 = 682.67"
    assert f"quick_reduce takes no size, at most {int(most) * 1_048_576:,} B;" in intervals(made)[1].why


def test_activations_in_fp32_ask_no_size() -> None:
    """The start refuses the dtype; the table has no fp32 column."""
    found = at(QR, setup(env=env("INT4"), flags={"--dtype": "float32"}), decode(16))
    assert found.of(Held.NO) == ("activations in fp32",)


def test_the_codec_threshold_is_looked_at_before_the_dtype() -> None:
    """init_quick_all_reduce: _get_qr_quantization_min_size, then the dtype, then the smallest size."""
    fp32 = {"--dtype": "float32"}
    threshold = at(QR, setup(env=env("INT4", QUANTIZATION_MIN_SIZE_KB="-1"), flags=fp32), decode(16))
    assert threshold.state is State.REFUSED_AT_START
    smallest = at(QR, setup(env=env("INT4", MIN_SIZE_BYTES_MB="-1"), flags=fp32), decode(16))
    assert smallest.state is State.REFUSED


def test_the_codec_threshold_matters_only_below_the_smallest_size() -> None:
    """MIN_SIZE 0 and 256 KB: 21 rows are 258,048 B < 262,144 B and use FP, 22 rows use INT4."""
    made = setup("0.32.0", env=env("INT4", MIN_SIZE_BYTES_MB="0", QUANTIZATION_MIN_SIZE_KB="256"))
    assert intervals(made)[:2] == (
        Interval(1, 21, QR, f"FP, HIP: <= 2,147,483,648 B: {MIN_MB}=0"),
        Interval(22, 174_762, QR, f"INT4, HIP: <= 2,147,483,648 B: {MIN_MB}=0"),
    )
    assert at(QR, made).asked == f"{QUANT}=INT4; {KB}=256 (262,144 B): payloads from 0 B up to it use codec FP"


def test_the_codec_threshold_itself_uses_the_codec() -> None:
    """768 KB are 64 rows exactly, and the comparison is <."""
    made = setup("0.32.0", env=env("INT4", MIN_SIZE_BYTES_MB="0", QUANTIZATION_MIN_SIZE_KB="768"))
    assert [(i.first_row, i.last_row, i.why.split(",")[0]) for i in intervals(made)[:2]] == [
        (1, 63, "FP"),
        (64, 174_762, "INT4"),
    ]


# --- FlyDSL ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "codec", "more", "kernel"),
    [
        ("0.33.0", "INT4", AITER, "INT4, FlyDSL"),
        ("0.33.0", "INT4", {}, "INT4, HIP"),
        ("0.33.0", "INT6", AITER, "INT6, HIP"),
        ("0.32.0", "INT4", AITER, "INT4, HIP"),
        ("0.24.0", "INT4", AITER, "INT4, HIP"),
    ],
)
def test_flydsl_takes_int4_of_0_33_where_aiter_is_on(
    version: str, codec: str, more: dict[str, str], kernel: str
) -> None:
    (band,) = [i for i in intervals(setup(version, env=env(codec) | more)) if i.backend == QR]
    assert band.why.startswith(f"{kernel}: ")


def test_fp16_stays_on_the_hip_kernel() -> None:
    (band,) = [i for i in intervals(setup(env=env("INT4") | AITER, flags={"--dtype": "half"})) if i.backend == QR]
    assert (band.first_row, band.why.split(":")[0]) == (171, "INT4, HIP")


# --- the interval map ------------------------------------------------------------------------------------------

NEVER = 174_763
"""First row above 2,147,483,648 B (2 GiB are 174,762.67 rows)."""


@pytest.mark.parametrize(
    ("tp", "asks", "with_aiter", "expected"),
    [
        (4, {}, False, [(1, 682, "custom"), (683, None, "rccl")]),
        (4, {}, True, [(1, 5461, "aiter_custom"), (5462, None, "rccl")]),
        (
            4,
            env("INT4", "0"),
            False,
            [(1, 682, "custom"), (683, 1365, "rccl"), (1366, NEVER - 1, QR), (NEVER, None, "rccl")],
        ),
        (4, env("INT4", "0"), True, [(1, 1365, "aiter_custom"), (1366, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (4, env("INT4"), False, [(1, 170, "custom"), (171, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (4, env("INT4"), True, [(1, 170, "aiter_custom"), (171, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (2, env("INT4"), False, [(1, 85, "custom"), (86, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (2, env("INT4", "0"), False, [(1, 682, "custom"), (683, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (2, env("FP", "0"), True, [(1, 170, "aiter_custom"), (171, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (
            8,
            env("FP"),
            False,
            [(1, 682, "custom"), (683, 1365, "rccl"), (1366, NEVER - 1, QR), (NEVER, None, "rccl")],
        ),
        (8, env("FP"), True, [(1, 1365, "aiter_custom"), (1366, NEVER - 1, QR), (NEVER, None, "rccl")]),
        (8, env("INT4", "0"), False, [(1, 682, "custom"), (683, None, "rccl")]),
        (8, env("INT4", "0"), True, [(1, 5461, "aiter_custom"), (5462, None, "rccl")]),
        (
            4,
            env("INT6", "0"),
            True,
            [(1, 5461, "aiter_custom"), (5462, NEVER - 1, QR), (NEVER, None, "rccl")],
        ),
        (3, {}, False, [(1, None, "rccl")]),
        (6, env("INT4"), False, [(1, 682, "custom"), (683, None, "rccl")]),
        (16, {}, True, [(1, None, "rccl")]),
        (1, env("INT4"), True, [(1, None, None)]),
    ],
)
@pytest.mark.parametrize("version", NEW)
def test_interval_maps_written_by_hand(
    version: str,
    tp: int,
    asks: dict[str, str],
    with_aiter: bool,
    expected: list[tuple[int, int | None, str | None]],
) -> None:
    assert bands(setup(version, tp, env=asks | (AITER if with_aiter else {}))) == expected


def test_the_dead_zone_of_issue_53136_is_named() -> None:
    """TP8, FP: 8 to 16 MiB are for neither vLLM's all-reduce nor QuickReduce."""
    zone = intervals(setup(tp=8, env=env("FP")))[1]
    assert (zone.first_row, zone.last_row, zone.backend) == (683, 1365, "rccl")
    assert zone.why.startswith(
        "dead zone: quick_reduce takes >= 16,777,216 B and <= 2,147,483,648 B: bf16, TP8, FP, cast on"
    )
    assert "custom takes < 8,388,608 B" in zone.why
    beside = intervals(setup(tp=8, env=env("FP") | AITER))
    assert not any("dead zone" in band.why for band in beside)


def test_an_end_without_a_taker_is_no_dead_zone() -> None:
    last = intervals(setup(tp=8, env=env("INT4", "0")))[-1]
    assert last.why.startswith("quick_reduce takes 2,147,483,648 B alone: bf16, TP8, INT4, cast off; custom takes")


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        (AITER, [(1, 8192, "aiter_custom"), (8193, None, "rccl")]),  # 64 MiB = 8,192 rows, inclusive
        ({}, [(1, 1023, "custom"), (1024, None, "rccl")]),  # 8 MiB = 1,024 rows, exclusive
    ],
)
def test_limits_that_are_whole_rows_tell_strict_from_inclusive(
    asks: dict[str, str], expected: list[tuple[int, int | None, str | None]]
) -> None:
    assert bands(setup(env=asks, model=replace(M3, hidden_size=4096))) == expected


def test_payloads_that_are_no_multiple_of_16_go_to_rccl() -> None:
    backend, why = backend_of(setup(env=env("INT4") | AITER), 2_097_160)
    assert backend == "rccl"
    assert "not quick_reduce: 2,097,160 B is no multiple of 16 B" in why
    odd = intervals(setup(model=replace(M3, hidden_size=6148)))
    assert [(i.backend, i.why[:8]) for i in odd] == [(None, "unknown:")]


def test_a_reason_names_every_backend_that_was_asked_before() -> None:
    backend, why = backend_of(setup(env=env("INT4", "0")), 128 * ROW)
    assert backend == "custom"
    assert why.split("; ") == [
        "custom: 1,572,864 B < 8,388,608 B",
        "not quick_reduce: 1,572,864 B < 16,777,216 B: bf16, TP4, INT4, cast off",
        "not aiter_custom: VLLM_ROCM_USE_AITER is not set (default off)",
    ]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (setup(None), "unknown: rule all_reduce_order is unknown on this build"),
        (setup(gfx=None), "unknown: the GPU is not known"),
        (setup(gfx="sm90"), "unknown: sm90 is no AMD GPU: only ROCm's order is known here"),
    ],
)
def test_what_is_not_known_is_said(made: Setup, why: str) -> None:
    assert backend_of(made, ROW) == (None, why)
    assert intervals(made) == (Interval(1, None, None, why),)


def test_one_lost_rule_leaves_unknown_only_what_hangs_on_it() -> None:
    made = setup(env=env("INT4", "0") | AITER)
    rules = dict(made.build.rules)
    del rules["custom_ar"]
    assert backend_of(replace(made, build=replace(made.build, rules=rules)), ROW)[0] == "aiter_custom"
    del rules["qr_min_size_mb"]
    lost = replace(made, build=replace(made.build, rules=rules))
    assert backend_of(lost, ROW) == (
        None,
        "unknown: quick_reduce may take it: rule qr_min_size_mb is not known on this build",
    )
    assert backend_of(replace(lost, env=AITER), ROW)[0] == "aiter_custom", "without a codec the table is not asked"


# Another reader of the same source: the comparisons as the four files make them, for ROCm on one node.
QR_MIB = {("fp16", 4, "INT4"): 2, ("bf16", 4, "INT4"): 16, ("fp16", 8, "FP"): 16, ("bf16", 2, "FP"): 2}


@pytest.mark.parametrize(("column", "tp", "codec"), QR_MIB)
@pytest.mark.parametrize("with_aiter", [False, True])
def test_bands_agree_with_the_comparisons_row_by_row(
    column: str,
    tp: int,
    codec: str,
    with_aiter: bool,
) -> None:
    made = setup(tp=tp, env=env(codec, "1" if column == "fp16" else "0") | (AITER if with_aiter else {}))
    for band in intervals(made):
        last = band.last_row or 200_000
        for row in {band.first_row, band.first_row + 1, (band.first_row + last) // 2, last - 1, last}:
            size = row * ROW
            if QR_MIB[column, tp, codec] * 1024 * 1024 <= size <= 2 * 1024**3:
                taker = QR
            elif with_aiter:
                taker = "aiter_custom" if size <= 64 * 1024 * 1024 else "rccl"
            else:
                taker = "custom" if size < 8 * 1024 * 1024 else "rccl"
            assert band.backend == backend_of(made, size)[0] == taker, row


# --- builds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "first"), [("0.24.0", "custom"), ("0.25.1", "aiter_custom"), ("0.32.0", "aiter_custom")]
)
def test_0_24_does_not_call_aiters_all_reduce(version: str, first: str) -> None:
    assert intervals(setup(version, env=AITER))[0].backend == first
    if version == "0.24.0":
        assert bands(setup(version, env=AITER)) == [(1, 682, "custom"), (683, None, "rccl")]


def test_aiters_all_reduce_has_a_switch_of_its_own() -> None:
    made = setup(env=AITER | {"VLLM_ROCM_USE_AITER_CUSTOM_AR": "0"})
    assert bands(made) == [(1, 682, "custom"), (683, None, "rccl")]
    assert "VLLM_ROCM_USE_AITER_CUSTOM_AR is off" in at(CUSTOM, made).asked


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_invariance_by_build(version: str) -> None:
    """0.24, 0.25.1: everything to RCCL; 0.32, 0.33: vLLM's own without a limit, AITER and QuickReduce out."""
    made = setup(version, env=env("INT4") | AITER | INVARIANT)
    assert bands(made) == [(1, None, "rccl" if version in OLD else "custom")]
    assert at(QR, made, prefill(32768)).state is State.REFUSED
    wide = setup(version, 16, env=INVARIANT)
    assert intervals(wide)[0].backend == ("rccl" if version in OLD else "batch_invariant")


@pytest.mark.parametrize("version", VERSIONS)
def test_two_nodes_by_build(version: str) -> None:
    """TP4 x DP4 on two nodes: the group fits a node; 0.24 and 0.25.1 turn custom off for --nnodes all the same."""
    made = setup(version, nodes=2, dp=4, flags={"--nnodes": 2})
    assert intervals(made)[0].backend == ("rccl" if version in OLD else "custom")
    edge = setup(version, 8, nodes=2, dp=2, flags={"--nnodes": 2})
    assert intervals(edge)[0].backend == ("rccl" if version in OLD else "custom"), "a node for each group"
    spans = setup(version, 16, nodes=2, flags={"--nnodes": 2})
    assert bands(spans) == [(1, None, "rccl")]


def test_a_build_that_is_no_release_leaves_these_open() -> None:
    known = setup("0.33.0", env=INVARIANT)
    nightly = replace(known, build=replace(known.build, version=None))
    assert backend_of(nightly, ROW)[0] is None
    image = replace(known, build=replace(known.build, version="0.33.0+rocm721"))
    assert backend_of(image, ROW)[0] == "custom"


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("AITER_CUSTOM_AR_MAX_SIZE", "0", [(1, 5461, None), (5462, None, "rccl")]),
        ("AITER_CUSTOM_AR_MAX_SIZE", "1048576", [(1, 85, "aiter_custom"), (86, 5461, None), (5462, None, "rccl")]),
        (
            "AITER_CUSTOM_AR_MAX_SIZE",
            "100000000",
            [(1, 5461, "aiter_custom"), (5462, 8138, None), (8139, None, "rccl")],
        ),
        ("AITER_CUSTOM_AR_MAX_SIZE", "134217729", [(1, 5461, "aiter_custom"), (5462, None, "rccl")]),
        ("AITER_CUSTOM_AR_MAX_SIZE", "-5", [(1, 5461, "aiter_custom"), (5462, None, "rccl")]),
        ("AITER_CUSTOM_AR_MAX_SIZE", "64MB", [(1, 5461, "aiter_custom"), (5462, None, "rccl")]),
        ("AITER_CUSTOM_AR_MIN_SIZE", "12288", [(1, 1, None), (2, 5461, "aiter_custom"), (5462, None, "rccl")]),
    ],
)
def test_aiters_own_variables_are_told_where_old_and_new_aiter_differ(
    name: str, word: str, expected: list[tuple[int, int | None, str | None]]
) -> None:
    assert bands(setup(env=AITER | {name: word})) == expected


# --- custom all-reduce ------------------------------------------------------------------------------------------


def test_custom_is_on_by_default_and_refused_with_numbers() -> None:
    assert at(CUSTOM, setup(), decode(128)).state is State.ELIGIBLE
    assert at(CUSTOM, setup(), prefill(682)).state is State.ELIGIBLE
    assert refusal(at(CUSTOM, setup(), prefill(683))) == "8,392,704 B >= 8,388,608 B"
    assert refusal(at(CUSTOM, setup(env=AITER), prefill(5462))) == "67,117,056 B > 67,108,864 B"
    assert at(CUSTOM, setup(flags={"--disable-custom-all-reduce": True})).state is State.OFF
    assert refusal(at(CUSTOM, setup(tp=1))) == "TP1: no all-reduce"
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


# --- rows as launched -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "padded"),
    [(1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 16), (248, 248), (249, 256), (257, 272), (512, 512), (513, 513)],
)
def test_decode_rows_are_padded_to_the_captured_sizes(rows: int, padded: int) -> None:
    assert launched(setup(), decode(rows)) == (padded, padded)


def test_rows_are_padded_as_the_mode_and_the_drafts_say() -> None:
    assert launched(setup(flags={"--enforce-eager": True}), decode(9)) == (9, 9)
    assert launched(setup(), prefill(9)) == (9, 9), "0.33 captures uniform decode alone"
    assert launched(setup("0.25.1"), prefill(9)) == (16, 16), "0.25.1 captures breakable graphs"
    assert launched(setup(flags={"--compilation-config": {"cudagraph_capture_sizes": [8, 12]}}), decode(9)) == (12, 12)
    # 5 requests x 4 rows: 24 of the grid is 6 requests, and is kept in every build
    assert launched(setup(draft=EAGLE), decode(20, 5)) == (24, 24)
    found = at(FUSED, setup(env=AITER, draft=EAGLE), decode(20, 5))
    assert refusal(found) == "294,912 B >= 262,144 B: TP4 (20 rows run as 24)"


def test_rows_whose_padding_is_not_told_are_a_range() -> None:
    """A variable that stops the engine leaves the runner, and with it the sizes with drafts, open: 20 rows or 24."""
    open_ = setup(env=AITER | {"VLLM_USE_V2_MODEL_RUNNER": "yes"}, draft=EAGLE)
    assert launched(open_, decode(20, 5)) == (20, 24)
    found = at(FUSED, open_, decode(20, 5))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN) == (
        "20 rows run as 20 to 24: 245,760 B < 262,144 B: TP4; 294,912 B >= 262,144 B: TP4",
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gpu", ["sm90", "sm100"])
def test_another_vendors_gpu_is_not_judged_by_rocms_rules(version: str, gpu: str) -> None:
    made = setup(version, gfx=gpu, env=AITER)
    said = f"{gpu} is no ROCm GPU: not judged"
    for name in (CUSTOM, FUSED):
        found = at(name, made, decode(16))
        assert found.state is State.UNPROVEN, name
        assert said in (found.asked, *found.of(Held.UNKNOWN)), name
        assert not found.of(Held.NO), name
    assert refusal(at(QR, setup(version, gfx=gpu, env=env("INT4")), prefill(32768))) == (
        f"GPU {gpu}; QuickReduce serves gfx94, gfx95"
    ), "QuickReduce is ROCm's alone, on every build"


# --- traces -----------------------------------------------------------------------------------------------------------
# Generated: no trace with an all-reduce of MiniMax M3 on AMD was at hand; the names are those of the sources.

CAST_Q4 = (
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, "
    "quickreduce::CodecQ4<__half, 4>, true>, __half>(__half const*, __half*, unsigned int, int)"
)
HIP_FP = CAST_Q4.replace("CodecQ4", "CodecFP")
AITER_1 = "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 4>(aiter::RankData*, int)"
VLLM_2 = "void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*, int)"
ONE_STAGE = "void aiter::allreduce_fusion_kernel_1stage<__hip_bfloat16, 4, 6144>(aiter::RankData*, float)"


@pytest.mark.parametrize(
    ("name", "path", "variant"),
    [
        (CAST_Q4, QR, "HIP INT4"),
        (CAST_Q4.replace("CodecQ4", "CodecQ6"), QR, "HIP INT6"),
        (CAST_Q4.replace("CodecQ4", "CodecQ8"), QR, "HIP INT8"),
        (CAST_Q4.replace("CodecQ4", "CodecQ3"), QR, "HIP INT3"),
        (HIP_FP, QR, "HIP FP"),
        ("quick_allreduce_int4_tp4_kernel", QR, "FlyDSL INT4"),
        (AITER_1, CUSTOM, "AITER"),
        (VLLM_2, CUSTOM, "vLLM"),
        ("cross_device_reduce_1stage", CUSTOM, "AITER or vLLM"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", CUSTOM, "RCCL"),
        (ONE_STAGE, FUSED, "AITER one-stage"),
    ],
)
def test_each_kernel_is_one_variants(name: str, path: str, variant: str) -> None:
    assert [v.name for v in fast_paths()[path].variants if v.counts(name.lower())] == [variant]


@pytest.mark.parametrize("name", ["ncclDevKernel_AllGather_RING_LL(int)", "CodecFP8", "reduce_segments"])
def test_other_kernels_are_nobodys(name: str) -> None:
    assert not [v.name for path in MINE for v in fast_paths()[path].variants if v.counts(name.lower())]


def test_generated_names_are_executed_and_rest_on_source(tmp_path: Path) -> None:
    rows = rows_of(recording(tmp_path, eager(100, 10, [ONE_STAGE, AITER_1, AITER_1, CAST_Q4]), **ROCM))
    assert (rows[FUSED].verdict, rows[FUSED].variant, rows[FUSED].names_from_source) == (
        "executed",
        "AITER one-stage",
        True,
    )
    assert (rows[CUSTOM].counts["calls"], rows[CUSTOM].counts["fallback_calls"]) == (2, 1), (
        "QuickReduce is none of its own"
    )
    assert rows[QR].variant.startswith("HIP INT4")


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "all-reduce.md").read_text(encoding="utf-8")
_CASE = re.compile(r"^TP(\d), (AITER on|AITER off), (no QuickReduce|(FP|INT\d), cast (on|off))$", re.MULTILINE)


def test_the_table_of_the_page_is_the_table_of_the_tests() -> None:
    for (column, tp), row in FIRST_ROWS.items():
        cells = ["never" if first is None else f"{first:,}" for first in row[:4]]
        int3 = "not built" if tp != 2 else f"{row[4]:,}"
        assert f"| {column.replace('float', 'fp').replace('bfp', 'bf')} | {tp} | {' | '.join([*cells, int3])} |" in PAGE


def test_every_bar_of_the_page_is_an_interval_map() -> None:
    blocks = PAGE.split("```")[1::2]
    cases = [(block, match) for block in blocks for match in [_CASE.search(block)] if match]
    assert len(cases) == len(blocks) >= 6
    for block, case in cases:
        asks = {} if case[4] is None else env(case[4], {"on": "1", "off": "0"}[case[5]])
        made = setup(tp=int(case[1]), env=asks | (AITER if case[2] == "AITER on" else {}))
        shown = [line.split(maxsplit=3) for line in block.strip().splitlines()[1:]]
        told = [(int(a.replace(",", "")), None if b == "up" else int(b.replace(",", "")), c) for a, b, c, *_ in shown]
        assert told == bands(made), case[0]


def test_sentences_of_the_page_hold() -> None:
    assert 128 * ROW == 1_572_864
    assert "128 rows are 1,572,864 B" in PAGE
    assert 32_768 * ROW == 402_653_184
    assert "402,653,184 B" in PAGE
    assert (2 * 60 + 1, 60 + 3 + 57 + 1) == (121, 121)
    assert "121" in PAGE
    assert [n * ROW < limit for n, limit in ((21, 262_144), (22, 262_144), (10, 131_072), (11, 131_072))] == [
        True,
        False,
        True,
        False,
    ]
    assert "| TP4 | 262,144 B | 21 | 16 |" in PAGE
    assert "| TP8 | 131,072 B | 10 | 8 |" in PAGE
    assert "| TP2 | none | 80 | 80 |" in PAGE
    eagers = [setup(tp=tp, env=AITER, flags={"--enforce-eager": True}) for tp in (2, 4, 8)]
    graphs = [setup(tp=tp, env=AITER) for tp in (2, 4, 8)]
    for made, last in [*zip(eagers, (80, 21, 10), strict=True), *zip(graphs, (80, 16, 8), strict=True)]:
        states = [at(FUSED, made, decode(n)).state is State.ELIGIBLE for n in range(1, 100)]
        assert states == [n <= last for n in range(1, 100)]
