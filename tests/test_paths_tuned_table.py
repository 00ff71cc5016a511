"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: tuned tables; stories: the input that fooled people, and the sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import recording
from gemm_kit import ACT, AITER, BOTH, DATA, FSE, MXFP4, NORM, expected, m3, mono, named
from m3_setups import NEW, at, decode, refusal
from test_paths import ROCM, eager, rows_of

from m3probe.fastpaths import fast_paths, tuned_table
from m3probe.fastpaths._shared_expert import fused_shared
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.schema.setup import Build, Held, Rule, RuleStatus, Setup, State
from m3probe.schema.tuned import GemmKey, MoeKey, TunedTable

# --- tuned tables ---------------------------------------------------------------------------------------------


def tables(*names: str) -> dict[str, TunedTable]:
    return {name: read_tuned_table((DATA / name).read_bytes(), name) for name in names}


FMOE = "generated_mxfp8_tuned_fmoe.csv"


def test_the_keys_of_a_tp4_setup() -> None:
    """3,072 / 4 = 768; 128 + 1 experts, 4 + 1 slots; native MXFP8 GEMMs read no table."""
    (key,) = tuned_table.keys_of(m3(env=BOTH), 100)
    assert key == MoeKey(
        rows=100,
        model_dim=6144,
        inter_dim=768,
        experts=129,
        top_k=5,
        act="Swiglu",
        dtype="bfloat16",
        q_dtype_a="float8_e4m3fn",
        q_dtype_w="float8_e4m3fn",
        q_type="per_1x32",
        g1u1=True,
        weight_stage1=False,
        cu_num=256,
        gfx="gfx950",
    )


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ({"tp": 8}, (384, 129, 5)),
        ({"tp": 4, "dp": 2}, (384, 129, 5)),
        ({"tp": 4, "expert_parallel": True}, (3072, 32, 4)),
        ({"tp": 8, "expert_parallel": True}, (3072, 16, 4)),
    ],
)
def test_the_moe_key_by_parallelism(more: dict[str, Any], sizes: tuple[int, int, int]) -> None:
    key = tuned_table.moe_key(m3(env=BOTH, **more), 8)
    assert key is not None
    assert (key.inter_dim, key.experts, key.top_k) == sizes


def test_bf16_attention_reads_aiter_s_dense_table_at_tp4() -> None:
    """qkv 16 x 128 + 2 x 128 = 2,304; with index_q and index_k 2,560; o_proj K 2,048; shared 1,536 and 768."""
    keys = tuned_table.dense_keys(m3(model=MXFP4, env=AITER), 8)
    assert [(key.n, key.k) for key in keys] == [(2304, 6144), (2560, 6144), (6144, 2048), (1536, 6144), (6144, 768)]
    fused = tuned_table.dense_keys(m3(model=MXFP4, env=BOTH), 8)
    assert [(key.n, key.k) for key in fused] == [(2304, 6144), (2560, 6144), (6144, 2048)]
    tp2 = tuned_table.dense_keys(m3(model=MXFP4, tp=2, env=BOTH), 8)
    assert [(key.n, key.k) for key in tp2] == [(4608, 6144), (4992, 6144), (6144, 4096)]


def test_who_is_asked_for_a_dense_gemm() -> None:
    on = {"PYTORCH_TUNABLEOP_ENABLED": "1"}
    emulated = {"flags": {"--linear-backend": "emulation"}}
    assert tuned_table.dense_kind(m3(env=AITER | on)) is None, "native MXFP8"
    assert tuned_table.dense_kind(m3(model=MXFP4, env=AITER | on)) == "gemm"
    assert tuned_table.dense_kind(m3(model=MXFP4, env=on)) == "tunableop"
    assert tuned_table.dense_kind(m3(model=MXFP4, env={"PYTORCH_TUNABLEOP_ENABLED": "true"})) is None
    assert tuned_table.dense_kind(m3(env=AITER | on, **emulated)) == "tunableop", "F.linear passes AITER by"
    assert tuned_table.dense_kind(m3(env=AITER, **emulated)) is None
    assert tuned_table.dense_kind(m3(model=MXFP4, env=AITER | on, gfx="gfx942")) == "tunableop"


def test_a_fused_setup_finds_its_row() -> None:
    found = at("tuned_table", m3(env=BOTH, tuned_tables=tables(FMOE)), decode(100))
    assert found.state is State.ELIGIBLE
    assert f"tuned: 100 rows -> 128, {FMOE}:9, 16.5 us" in found.of(Held.YES)


def test_no_table_given_is_unknown_not_default() -> None:
    assert at("tuned_table", m3(env=BOTH)).state is State.UNPROVEN


def test_the_variable_replaces_the_tables_and_adds_none() -> None:
    given = tables(FMOE)
    mine = m3(env=BOTH | {"AITER_CONFIG_FMOE": f"/x/{FMOE}"}, tuned_tables=given)
    assert at("tuned_table", mine, decode(8)).state is State.ELIGIBLE
    other = m3(env=BOTH | {"AITER_CONFIG_FMOE": "/x/mine.csv"}, tuned_tables=given)
    found = at("tuned_table", other, decode(8))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN)[0] == (
        "AITER_CONFIG_FMOE=/x/mine.csv replaces AITER's tables, and no table of that name was given"
    )


def test_bypassed_rows_are_no_rows() -> None:
    made = m3(env=BOTH | {"AITER_BYPASS_TUNE_CONFIG": "1"}, tuned_tables=tables(FMOE))
    assert refusal(at("tuned_table", made, decode(8))) == "AITER_BYPASS_TUNE_CONFIG=1: tuned rows are passed over"
    for word, state in (("2", State.REFUSED), ("0", State.ELIGIBLE), ("yes", State.UNPROVEN)):
        told = replace(made, env=BOTH | {"AITER_BYPASS_TUNE_CONFIG": word})
        assert at("tuned_table", told, decode(8)).state is state, "int() of the text"


def test_native_triton_experts_read_no_table() -> None:
    found = at("tuned_table", m3(flags=named("triton"), tuned_tables=tables(FMOE)))
    assert found.state is State.OFF
    assert found.asked == "--moe-backend triton: TRITON_MXFP8 on gfx950: no tuned table is read"


def test_dense_shapes_are_counted_and_the_missed_ones_named() -> None:
    """The generated BF16 table holds three shapes up to 256 rows; the shared expert's two are not in it."""
    given = tables("generated_bf16_tuned_gemm.csv", "generated_fp4_tuned_fmoe_old_header.csv")
    fused = at("tuned_table", m3(model=MXFP4, env=BOTH, tuned_tables=given), decode(100))
    assert "3 of 3 dense shapes are tuned in the gemm table" in fused.of(Held.YES)
    apart = at("tuned_table", m3(model=MXFP4, env=AITER, tuned_tables=given), decode(100))
    said = (
        "3 of 5 dense shapes are tuned in the gemm table; default for (M, N, K) (100, 1,536, 6,144), (100, 6,144, 768)"
    )
    assert said in apart.of(Held.NO)


def test_tunableop_matches_the_exact_rows() -> None:
    env = {"PYTORCH_TUNABLEOP_ENABLED": "1"}
    made = m3(
        env=env | FSE, flags={"--linear-backend": "emulation"}, tuned_tables=tables("generated_tunableop_results0.csv")
    )
    assert tuned_table.dense_keys(made, 100)[0] == GemmKey(100, 2304, 6144, "bfloat16")
    said = at("tuned_table", made, decode(100)).of(Held.NO)
    assert said == (
        "2 of 3 dense shapes are tuned in the tunableop table; default for (M, N, K) (100, 6,144, 2,048)",
    ), "the third row of the file is float16"
    assert at("tuned_table", made, decode(101)).of(Held.NO)[0].startswith("0 of 3 dense shapes")


# --- stories: the input that fooled people, and the sentence ---------------------------------------------------


def test_story_1_mxfp8_fusion_was_off_for_five_weeks() -> None:
    """vLLM PR 57916: the variable was set, the window's builds refused it with a warning."""
    found = at("shared_expert_fusion", m3("0.32.0", env=FSE))
    assert found.state is State.REFUSED
    assert refusal(found) == (
        "vLLM 0.32.0: shared-expert FSE quantization compatibility is not implemented for ModelOptMxFp8Config"
    )
    assert fused_shared(m3("0.32.0", env=FSE)) is False


def test_story_2_the_flag_is_accepted_and_runs_unfused() -> None:
    """vLLM PR 53068: exit 0 and hundreds of warnings. The engine starts, so it is refused, not refused at start."""
    made = m3("0.32.0", env=FSE)
    assert at("shared_expert_fusion", made).state is State.REFUSED
    assert expected("shared_expert_fusion", "separate MLP", made) == 60
    assert any("57 lines" in line for line in fast_paths()["shared_expert_fusion"].logs)


@pytest.mark.parametrize("version", NEW)
def test_story_3_quark_is_accepted(version: str) -> None:
    """vLLM PR 54573: Quark was refused after the same refactor; a build that lacks it in its list is told."""
    made = m3(version, MXFP4, env=FSE)
    assert at("shared_expert_fusion", made).state is State.ELIGIBLE
    rule = made.build.rule("fse")
    without = Rule(RuleStatus.CONFIRMED, rule.value | {"accepts": ["Fp8Config"]})
    broken = replace(made, build=Build(version, {**made.build.rules, "fse": without}))
    assert refusal(at("shared_expert_fusion", broken)).endswith("is not implemented for QuarkConfig")


def test_story_4_a_gain_is_not_credited_to_a_fusion_that_did_not_run(tmp_path: Path) -> None:
    """sglang PR 36576: a bundle gained 46 to 55 % while the fusion's own status was False."""
    faster = recording(
        tmp_path, eager(100, 10, [NORM, ACT] * 9 + ["flydsl_moe1_afp8_wfp8_bf16_t32x64x256_w4"] * 6), **ROCM
    )
    rows = rows_of(faster)
    assert (rows["shared_expert_fusion"].variant, rows["mxfp8_moe"].variant) == ("separate MLP", "AITER FlyDSL MXFP8")


def test_story_13_a_cap_on_rows_turns_a_decode_path_off_without_a_word() -> None:
    """sglang PR 34014: a cap of 8 at batch 16. Here: 16 rows of the monokernel, 32 of the router."""
    assert refusal(at("monokernel", mono(), decode(17))) == "24 rows, 1 to 16 are served (17 rows run as 24)"
    assert refusal(at("router_gemm", m3(), decode(64))) == "64 rows > 32: F.linear in FP32"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (m3("0.24.0", env=FSE), "has no shared-expert fusion: the variable does nothing"),
        (m3("0.33.0", MXFP4, env=FSE, expert_parallel=True), "the shared slot is not in the expert map"),
        (m3("0.32.0", env=FSE), "is not implemented for ModelOptMxFp8Config"),
    ],
)
def test_story_18_a_script_sets_the_fusion_and_a_check_leaves_it_inert(made: Setup, says: str) -> None:
    """InferenceX PR 2851."""
    found = at("shared_expert_fusion", made)
    assert found.state in (State.OFF, State.REFUSED)
    assert says in (found.asked, *found.of(Held.NO))[-1]


def test_story_19_the_table_has_no_fallback_on_the_expert_count() -> None:
    """sglang PR 37072, as M3 meets it: unfused 128/4 against rows of 129/5 alone are two findings."""
    found = at("tuned_table", m3(env=AITER, tuned_tables=tables(FMOE)), decode(100))
    assert found.state is State.REFUSED
    why = "shared-expert fusion is off (VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is not set)"
    assert found.of(Held.NO) == (
        f"the MoE key has 128 experts, 4 slots; the tables have 129/5 at model dim 6,144: {why}",
        f"default: {FMOE} has no such row; nearest differs in experts 128, not 129; top-k 4, not 5",
    )


def test_story_19_at_0_32_the_refused_fusion_is_the_reason() -> None:
    found = at("tuned_table", m3("0.32.0", env=BOTH, tuned_tables=tables(FMOE)), decode(100))
    assert found.of(Held.NO)[0].endswith(
        "shared-expert fusion is off (vLLM 0.32.0: shared-expert FSE quantization compatibility is not implemented for "
        "ModelOptMxFp8Config)",
    )


def test_story_20_a_fused_shape_without_rows_runs_the_heuristic_over_the_whole_range() -> None:
    """AITER PR 4666 (385/7): a table of the unfused shape serves no row count of the fused one."""
    text = "cu_num,token,model_dim,inter_dim,expert,topk,us,kernelName1\n"
    text += "".join(f"256,{1 << i},6144,768,128,4,1.0,k\n" for i in range(16))
    unfused = {"unfused.csv": read_tuned_table(text.encode(), "unfused.csv")}
    for rows in (1, 16, 100, 4096, 32768):
        found = at("tuned_table", m3(env=BOTH, tuned_tables=unfused), decode(rows))
        assert found.of(Held.NO) == (
            "the MoE key has 129 experts, 5 slots; the tables have 128/4 at model dim 6,144",
            "default: unfused.csv has no such row; nearest differs in experts 129, not 128; top-k 5, not 4",
        )
