"""Communication paths on paper: sizes, worlds, settings and builds, worked out by hand from four releases' source: the interval map; builds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comm_kit import AITER, CUSTOM, INVARIANT, QR, ROW, bands, env, prefill
from m3_setups import M3, NEW, OLD, VERSIONS, at, setup

from m3probe.fastpaths._all_reduce import Interval, backend_of, intervals
from m3probe.schema.setup import Setup, State

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
