"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: monokernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gemm_kit import AITER, BOTH, MONO_FLAGS, MXFP4, MXFP8, expected, m3, mono
from m3_setups import NESTED, RULES, at, decode, refusal

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths.monokernel import REFUSALS
from m3probe.schema.paths import When
from m3probe.schema.setup import Build, Held, Point, Rule, RuleStatus, State
from m3probe.schema.verdicts import Phase


def test_the_monokernel_runs_where_nothing_refuses() -> None:
    for rows in (1, 16):
        found = at("monokernel", mono(), decode(rows))
        assert (found.state, found.of(Held.NO), found.of(Held.UNKNOWN)) == (State.ELIGIBLE, (), ())
    assert expected("monokernel", "monokernel", mono()) == 57


def test_the_monokernel_counts_rows_as_they_are_launched() -> None:
    """2 drafts: 5 requests are 15 rows and run as 18; 4 drafts: 3 are 15 and run as 20; 3 x 4 = 12 run as 16."""
    for drafts, requests, runs in ((2, 5, 18), (4, 3, 20)):
        draft = {"method": "eagle3", "num_speculative_tokens": drafts}
        found = at("monokernel", mono(draft=draft), decode(15, requests))
        assert refusal(found) == f"{runs} rows, 1 to 16 are served (15 rows run as {runs})"
        bare = mono(draft=draft, flags={"--enforce-eager": True})
        assert at("monokernel", bare, decode(15, requests)).state is State.ELIGIBLE
    three = {"method": "eagle3", "num_speculative_tokens": 3}
    assert at("monokernel", mono(draft=three), decode(12, 3)).state is State.ELIGIBLE
    own = {"--compilation-config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 64]}}
    assert refusal(at("monokernel", mono(flags=own), decode(9))) == "64 rows, 1 to 16 are served (9 rows run as 64)"


def test_every_refusal_of_the_source_is_a_need_of_its_own_at_start() -> None:
    said = RULES["0.33.0"]["monokernel"]["refusals"]
    assert [sentence for sentence, _ in REFUSALS] == said
    assert len(said) == 25
    needs = {need.text: need for need in fast_paths()["monokernel"].needs}
    assert all(needs[sentence].when is When.START for sentence in said)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tp": 8}, "TP8, must be 4"),
        ({"pp": 2}, "PP 2: pipeline parallelism must be 1"),
        ({"dp": 2}, "DP 2: data parallelism must be 1"),
        ({"flags": {"--decode-context-parallel-size": "2"}}, "DCP 2: decode context parallelism must be 1"),
        ({"flags": {"--prefill-context-parallel-size": 4}}, "PCP 4: prefill context parallelism must be 1"),
        ({"flags": {"--enable-dbo": True}}, "--enable-dbo: no micro-batches"),
        ({"flags": {"--ubatch-size": "2"}}, "--ubatch-size 2: no micro-batches"),
        ({"expert_parallel": True}, "EP4: no expert parallelism"),
        ({"flags": {"--enable-eplb": True}}, "--enable-eplb: no EPLB"),
        ({"flags": {"--kv-cache-dtype": "auto"}}, "--kv-cache-dtype auto, must be fp8 or fp8_e4m3"),
        ({"flags": {"--kv-cache-dtype": "fp8_e5m2"}}, "--kv-cache-dtype fp8_e5m2, must be fp8 or fp8_e4m3"),
        ({"flags": {"--block-size": "256"}}, "--block-size 256, must be 128"),
        ({"flags": {"--kv-offloading-size": "20"}}, "--kv-offloading-size: no KV offloading"),
        ({"flags": {"--attention-config": "{}"}}, "indexer_kv_dtype bf16, must be fp8"),
        ({"flags": {"--attention-config": {"indexer_kv_dtype": "fp8_e4m3"}}}, "indexer_kv_dtype fp8_e4m3, must be fp8"),
        ({"flags": {"--enable-lora": True}}, "--enable-lora: no LoRA"),
        (
            {"flags": {"--kv-transfer-config": {"kv_connector": "MoRIIOConnector"}}},
            "kv_connector MoRIIOConnector: no KV connector",
        ),
        ({"env": BOTH | {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "Model Runner V1, must be V2"),
        ({"draft": {"method": "mtp", "num_speculative_tokens": 1}}, "drafter mtp, only eagle3"),
        ({"flags": {"--enable-sleep-mode": True}}, "--enable-sleep-mode: no sleep mode"),
        ({"flags": {"--weight-transfer-config": "{}"}}, "--weight-transfer-config: no weight transfer"),
        ({"flags": {"--cpu-offload-gb": "4"}}, "--cpu-offload-gb: no weight offloading"),
        ({"flags": {"--offload-group-size": "2"}}, "--offload-group-size: no weight offloading"),
        ({"flags": {"--compilation-config": {"mode": 1}}}, "compilation mode 1: no stock torch.compile"),
        (
            {"flags": {"--enable-return-routed-experts": True}},
            "--enable-return-routed-experts: no routed-expert capture",
        ),
        ({"flags": {"--moe-backend": "auto"}}, "--moe-backend auto, must be aiter by name"),
        ({"units": 304}, "gfx950 with 304 compute units, must be 256"),
        ({"gfx": "gfx942"}, "GPU gfx942: the monokernel needs gfx950"),
        ({"model": replace(MXFP4, sparse_layers=56)}, "56 sparse layers, must be 3 to the last: 57"),
        (
            {"model": replace(MXFP4, top_k=8)},
            "top-8, 1 shared expert, SwiGLU-OAI (1.702, 1.0, 7.0): must be 4, 1, (1.702, 1.0, 7.0)",
        ),
        (
            {"env": AITER},
            "the shared expert is not fused: VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is not set (default off)",
        ),
    ],
)
def test_the_monokernel_refuses_at_start_with_the_number(changed: dict[str, Any], says: str) -> None:
    found = at("monokernel", mono(**changed), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert says in found.of(Held.NO)


def test_index_reuse_is_refused_twice() -> None:
    found = at("monokernel", mono(flags=NESTED), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert found.of(Held.NO) == ("use_index_cache: no index reuse", "index_topk_freq 4, must be 1")


def test_an_mxfp8_checkpoint_has_another_layout() -> None:
    found = at("monokernel", mono(model=MXFP8), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert found.of(Held.NO) == ("experts in the AITER_MXFP4_MXFP4 layout: --moe-backend aiter: AITER_MXFP8",)


def test_all_refusals_come_at_once_as_vllm_s_one_error_has_them() -> None:
    found = at("monokernel", m3("0.33.0", tp=8, flags={"--monokernel": True}), decode(8))
    said = found.of(Held.NO)
    assert {
        "TP8, must be 4",
        "--kv-cache-dtype auto, must be fp8 or fp8_e4m3",
        "indexer_kv_dtype bf16, must be fp8",
    } <= set(said)
    assert len(said) == 6, "TP, KV dtype, index dtype, backend, fusion, layout"


def test_a_refusal_that_is_new_in_a_build_is_unknown_not_met() -> None:
    made = mono()
    rule = made.build.rule("monokernel")
    more = Rule(RuleStatus.CONFIRMED, rule.value | {"refusals": [*rule.value["refusals"], "does not support Mondays"]})
    found = at("monokernel", replace(made, build=Build("0.33.0", {**made.build.rules, "monokernel": more})), decode(8))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN) == ("vLLM 0.33.0 also refuses: does not support Mondays",)


@pytest.mark.parametrize("version", ["0.24.0", "0.25.1", "0.32.0"])
def test_older_builds_refuse_the_flag_itself(version: str) -> None:
    found = at("monokernel", m3(version, MXFP4, env=BOTH, flags=MONO_FLAGS), decode(8))
    assert found.state is State.OFF
    assert found.asked == f"vLLM {version} has no --monokernel: vllm serve refuses the flag"


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (decode(17), "24 rows, 1 to 16 are served (17 rows run as 24)"),
        (Point(Phase.PREFILL, 8, 1), "a prefill step; decode alone is served"),
        (Point(Phase.MIXED, 8, 4), "a mixed step; decode alone is served"),
    ],
)
def test_single_steps_run_the_stock_layers_without_a_word(point: Point, says: str) -> None:
    found = at("monokernel", mono(), point)
    assert found.state is State.REFUSED
    assert refusal(found) == says


def test_a_piecewise_decode_graph_keeps_the_stock_layers() -> None:
    made = mono(
        flags={"--compilation-config": {"cudagraph_mode": "PIECEWISE"}},
        env=BOTH | {"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"},
    )
    found = at("monokernel", made, decode(8))
    assert found.state is State.REFUSED
    assert refusal(found).startswith("decode PIECEWISE (")


def test_drafted_tokens_are_rows_like_any_other() -> None:
    """4 requests x (1 + 3) = 16 rows fit, 5 make 20, which run as 24, and do not."""
    eagle = {"method": "eagle3", "num_speculative_tokens": 3}
    assert at("monokernel", mono(draft=eagle), decode(16, 4)).state is State.ELIGIBLE
    assert refusal(at("monokernel", mono(draft=eagle), decode(20, 5))) == (
        "24 rows, 1 to 16 are served (20 rows run as 24)"
    )
