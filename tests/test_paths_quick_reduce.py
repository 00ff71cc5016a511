"""Communication paths on paper: sizes, worlds, settings and builds, worked out by hand from four releases' source: the shelf; QuickReduce: the size table; QuickReduce: what keeps it from being built; QuickReduce: how its variables are read; FlyDSL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from comm_kit import AITER, EAGLE, FIRST_ROWS, INVARIANT, KB, MAX_MB, MIN_MB, MINE, QR, QUANT, ROW, bands, env, prefill
from m3_setups import M3, VERSIONS, at, decode, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._all_reduce import Interval, backend_of, intervals
from m3probe.gates import gates
from m3probe.schema.setup import Held, ModelFacts, Point, State

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
