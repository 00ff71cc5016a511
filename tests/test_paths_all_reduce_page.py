"""Communication paths on paper: sizes, worlds, settings and builds, worked out by hand from four releases' source: rows as launched; traces; the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import recording
from comm_kit import AITER, CUSTOM, EAGLE, FIRST_ROWS, FUSED, MINE, QR, ROW, bands, env, prefill
from m3_setups import VERSIONS, at, decode, refusal, setup
from test_paths import ROCM, eager, rows_of
from tree import ROOT

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._capture import launched
from m3probe.schema.setup import Held, State

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
