"""For each public report of docs/stories.md: its rule loads, and on an input made after the report it is no pass.

The inputs are traces of eager steps on a model of three layers (one dense, two sparse and MoE), with the configuration
that fooled people beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from gemm_kit import m3
from m3_setups import FLAT, setup
from test_configured import DECODE, GATED, GLUON, SCORE, SMALL, TABLE, TOPK, TRITON, made, small
from test_paths_tuned_table import FMOE, tables
from tree import ROOT

from m3probe import pipeline
from m3probe.model.judgement import Judgement
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.rules import judge, load_rules
from m3probe.schema.gates import Arrivals, EvalRun, GateFacts, GroupedLayer, Score
from m3probe.schema.setup import Setup
from m3probe.schema.tuned import TunedTable

PAGE = ROOT / "docs" / "stories.md"
PREFILL = "execute_context_1(1024)_generation_0(0)"
INSERT, ACT, RCCL = "fusedMiniMaxM3QNormRopeKVInsertKernel", "_swiglu_oai_kernel", "ncclDevKernel_AllReduce_Sum_bf16"
FSE = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS": "1"}
INT4 = {"VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT4"}
REFUSAL = "shared-expert FSE quantization compatibility is not implemented for ModelOptMxFp8Config"
MXFP8 = replace(SMALL, quant_config_class="ModelOptMxFp8Config", moe_quant="mxfp8")
QUARK = replace(SMALL, quant_config_class="QuarkConfig", moe_quant="mxfp4")
UNFUSED = [INSERT, ACT] * 3
EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}


@dataclass(frozen=True)
class Story:
    """The steps that ran, the configuration, and how each rule of the snippet ends, with words of its why or next move."""

    steps: list[list[str]]
    given: Setup
    ends: tuple[str, ...] = ("failed",)
    words: tuple[str, ...] = ()
    said: str = DECODE
    facts: GateFacts = field(default_factory=GateFacts)


def unfused() -> dict[str, TunedTable]:
    """Rows of 128 experts, top-k 4, for every row count."""
    text = "cu_num,token,model_dim,inter_dim,expert,topk,us,kernelName1\n"
    text += "".join(f"256,{1 << i},6144,768,128,4,1.0,k\n" for i in range(16))
    return {"unfused.csv": read_tuned_table(text.encode(), "unfused.csv")}


def uneven(seqs: int, rows: int) -> str:
    return f"execute_context_0(0)_generation_{seqs}({rows})"


STORIES: dict[int, Callable[[], Story]] = {
    1: lambda: Story([UNFUSED] * 5, setup("0.32.0", model=MXFP8, env=FSE), words=("declined", REFUSAL)),
    2: lambda: Story([UNFUSED] * 5, setup("0.32.0", model=MXFP8, env=FSE), words=("separate MLP",)),
    3: lambda: Story([UNFUSED] * 5, setup("0.33.0", model=QUARK, env=FSE), words=("missed",)),
    4: lambda: Story([UNFUSED] * 5, small(), ("holds", "failed"), words=("off",)),
    5: lambda: Story([[SCORE, TOPK, TRITON] * 2], small("0.32.0", flags=FLAT), words=("off", "silently ignored")),
    6: lambda: Story([[RCCL] * 7], small(), said=PREFILL, words=("off",)),
    7: lambda: Story([[RCCL] * 7], small("0.25.1"), words=("off",)),
    8: lambda: Story([[RCCL] * 7], small(tp=8), said=PREFILL, words=("7 of 7 kernel executions", RCCL)),
    9: lambda: Story([[SCORE, TOPK, TRITON] * 2], small(), words=("Triton", "VLLM_ROCM_USE_AITER")),
    10: lambda: Story(
        [["void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, 128>(int)"]],
        small(env={"VLLM_ROCM_USE_AITER": "1"}),
        words=("1 of 1 kernel executions", "paged_attention_ll4mi"),
    ),
    11: lambda: Story(
        [[TRITON]],
        small("0.25.1", draft=EAGLE | {"attention_backend": "TRITON_ATTN"}, env={"VLLM_USE_V2_MODEL_RUNNER": "1"}),
        ("inconclusive",),
        words=("ignores the override",),
    ),
    12: lambda: Story(
        [[TRITON]],
        small("0.25.1", draft=EAGLE, flags={"--attention-backend": "TRITON_ATTN"}),
        words=("off", "never inherits --attention-backend"),
    ),
    13: lambda: Story(
        [["_reduce_terms_kernel"] * 2],
        small(),
        said=uneven(33, 33),
        words=("declined", "40 rows > 32", "33 rows run as 40"),
    ),
    14: lambda: Story(
        [[RCCL] * 7],
        small(env=INT4, flags={"--disable-custom-all-reduce": True}),
        said=PREFILL,
        words=("declined", "--disable-custom-all-reduce"),
    ),
    15: lambda: Story(
        [[TRITON, TRITON]],
        small(env={"VLLM_ROCM_USE_AITER": "1"}),
        words=("off", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT is not set"),
    ),
    16: lambda: Story(
        [[GLUON, TABLE, GLUON]],
        small(env=GATED),
        ("holds", "failed"),
        words=("gsm8k 0.0008", "broken KV layout"),
        facts=GateFacts(run=EvalRun(score=Score("gsm8k", "exact_match", 0.0008, n=1319))),
    ),
    17: lambda: Story(
        [["_mxfp8_grouped_gemm_kernel"] * 4],
        small(flags={"--enforce-eager": True}),
        ("failed", "failed"),
        words=("--enforce-eager", "Triton MXFP8"),
    ),
    18: lambda: Story([UNFUSED], setup("0.32.0", model=MXFP8, env=FSE), words=(REFUSAL,)),
    19: lambda: Story(
        [[TRITON]],
        m3(env={"VLLM_ROCM_USE_AITER": "1"}, tuned_tables=tables(FMOE)),
        ("inconclusive",),
        words=("128 experts, 4 slots; the tables have 129/5",),
    ),
    20: lambda: Story(
        [[TRITON]],
        m3(env=FSE, tuned_tables=unfused()),
        ("inconclusive",),
        words=("129 experts, 5 slots; the tables have 128/4",),
    ),
    21: lambda: Story([["gemm"]], small(env=GATED), ("inconclusive",), words=("unproven",)),
    22: lambda: Story([[TRITON, TRITON]] * 4, small(env=GATED), words=("Triton",)),
    23: lambda: Story([["Cijk_Alik_Bljk_BBS_BH"]], small(), ("inconclusive",), words=("unproven",)),
    24: lambda: Story(
        [[TRITON, TRITON]], small(env=GATED, draft=EAGLE), said=uneven(4, 13), words=("13 rows of 4 requests",)
    ),
    25: lambda: Story([["gemm"]], small(), words=("97", "128"), facts=GateFacts(arrivals=Arrivals(128, 97))),
    26: lambda: Story(
        [["gemm"]],
        small(),
        words=("64",),
        facts=GateFacts(
            groups=(
                tuple(
                    GroupedLayer(f"layers.{i}", "TRITON_ATTN", "full", n, draft=False) for i, n in enumerate((16, 64))
                ),
            )
        ),
    ),
    27: lambda: Story([["gemm"]] * 32, small(), words=("0 of 32 kernel executions",)),
    28: lambda: Story(
        [[GLUON, TABLE, "flydsl_moe1_afp8_wfp8_x", "flydsl_moe2_afp8_wfp8_x"] * 2, [GLUON, TABLE]],
        small(env=GATED),
        ("failed", "failed"),
        words=("exactly 2 (sparse_layers) per step", "exactly 4 (2 * moe_layers) per step"),
    ),
}


def snippets() -> dict[int, str]:
    """The TOML block below each number's heading."""
    found = re.findall(r"^### (\d+)\n.*?^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {int(number): text for number, text in found}


def judged(tmp_path: Path, text: str, story: Story) -> Judgement:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    rec = made(tmp_path, story.steps, story.given, story.said)
    rec = replace(rec, meta=replace(rec.meta, gates=story.facts))
    return judge(load_rules(path), rec, pipeline.report(rec).answer)


def test_each_of_the_28_reports_has_its_rule() -> None:
    assert sorted(snippets()) == sorted(STORIES) == list(range(1, 29))


@pytest.mark.parametrize("number", STORIES)
def test_the_rule_of_a_report_is_no_pass_on_its_input_and_says_why(tmp_path: Path, number: int) -> None:
    story = STORIES[number]()
    found = judged(tmp_path, snippets()[number], story)
    assert tuple(str(r.outcome) for r in found.results) == story.ends
    assert found.exit_code == (1 if "failed" in story.ends else 4)
    told = [r for r in found.results if r.outcome != "holds"]
    said = "\n".join(f"{r.rule} | {r.observed} | {r.where} | {r.why} | {r.next_move}" for r in told)
    assert [word for word in story.words if word not in said] == [], said


@pytest.mark.parametrize(
    ("number", "steps", "given"),
    [
        (1, [[INSERT, INSERT, INSERT, ACT]] * 5, lambda: setup("0.33.0", model=MXFP8, env=FSE)),
        (8, [["cross_device_reduce_2stage"] * 7], small),
        (15, [[GLUON, TABLE, GLUON]], lambda: small(env=GATED)),
        (22, [[GLUON, TABLE, GLUON]], lambda: small(env=GATED)),
        (27, [[TABLE, GLUON, GLUON]] * 32, lambda: small(env=GATED)),
        (28, [[GLUON, TABLE, "flydsl_moe1_afp8_wfp8_x", "flydsl_moe2_afp8_wfp8_x"] * 2], lambda: small(env=GATED)),
    ],
)
def test_the_rule_holds_where_the_path_ran(
    tmp_path: Path, number: int, steps: list[list[str]], given: Callable[[], Setup]
) -> None:
    said = PREFILL if "prefill" in snippets()[number] else DECODE
    found = judged(tmp_path, snippets()[number], Story(steps, given(), said=said))
    assert found.exit_code == 0, [(r.rule, r.observed, r.why) for r in found.results]
