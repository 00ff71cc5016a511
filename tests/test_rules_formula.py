"""Formulas of a rules file: what can be written, what it comes to, and what stands for it where nothing tells."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rules_kit import ATTEND, DECODE, KNOWN, PREFILL, REDUCE, outcome, result, served
from tree import ROOT

from m3probe.errors import UsageError
from m3probe.model.judgement import RuleResult
from m3probe.model.model_config import minimax_m3
from m3probe.model.recording import Recording
from m3probe.pipeline import read, report
from m3probe.rules import judge, load_rules
from m3probe.rules._values import values_of
from m3probe.rules.formula import FormulaError, read_formula
from m3probe.schema.setup import ModelFacts, Setup
from m3probe.vllm_source import read_build
from m3probe.workload import Workload

M3 = {"layers": 60, "moe_layers": 57, "dense_layers": 3, "tp": 4, "kv_heads": 4, "steps": 9}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * layers + 1", 121),  # all-reduces of one step: attention and MLP of 60 layers, and the embedding
        ("moe_layers", 57),
        ("2*moe_layers", 114),
        ("layers - dense_layers", 57),
        ("(layers + moe_layers) // 2", 58),
        ("kv_heads / tp", 1),
        ("0.5 * layers", 30),
        ("-1 + 2", 1),
        ("steps * +moe_layers", 513),
        (" 7 ", 7),
    ],
)
def test_a_formula_comes_to_its_number(text: str, value: int) -> None:
    formula = read_formula(text)
    assert formula.value({name: M3[name] for name in formula.names}) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layrs", "unknown name 'layrs'"),
        ("__import__('os')", "only numbers, names"),
        ("layers.real", "only numbers, names"),
        ("layers ** 2", "only numbers, names"),
        ("layers % 2", "only numbers, names"),
        ("~layers", "only numbers, names"),
        ("layers if tp else 1", "only numbers, names"),
        ("[layers]", "only numbers, names"),
        ("'6'", "only numbers, names"),
        ("True", "only numbers, names"),
        ("1e999", "only numbers, names"),
        ("3j", "only numbers, names"),
        ("", "not a formula"),
        ("2 *", "not a formula"),
        ("layers = 2", "not a formula"),
        ("layers; tp", "not a formula"),
        ("layers\x00", "not a formula"),
        ("(" * 90 + "1" + ")" * 90 + "+", "not a formula"),
        ("1" * 201, "longer than 200"),
        ("-" * 25 + "layers", "nested more than 20 deep"),
        ("layers / 0", "divides by zero"),
        ("layers // (2 - 2)", "divides by zero"),
        ("1 / 0", "divides by zero"),
        ("5 / 2", "5 / 2 is 2.5, which is no whole number"),
        ("2 - 3", "which is negative"),
        ("9223372036854775807 * 2", "which is too large"),
    ],
)
def test_what_is_no_formula_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormulaError) as caught:
        read_formula(text)
    assert said in str(caught.value)


def test_a_divisor_that_comes_to_zero_names_its_values() -> None:
    with pytest.raises(FormulaError, match=r"divides by zero \(tp = 0\)"):
        read_formula("layers // tp").value({"layers": 60, "tp": 0})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('per_step = "sparse_layer"', "unknown name 'sparse_layer'. Did you mean 'sparse_layers'?"),
        ('per_step = "2 **"', "not a formula. Names: layers, dense_layers"),
        ('per_step = {min = "layers", max = "1/0"}', "divides by zero"),
        ('min_count = "rows"', "rows of one step cannot bound a count over many. Use per_step, or steps"),
        ('min_share = "layers"', "must be a fraction"),
    ],
)
def test_a_wrong_formula_in_a_file_is_usage(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'[[rule]]\nkernel = "a"\n{line}\n')
    with pytest.raises(UsageError) as caught:
        load_rules(path, KNOWN)
    assert caught.value.exit_code == 2
    assert said in caught.value.sentence()
    assert "rules.toml:1 (rule 1)" in caught.value.sentence()


def test_long_and_deep_formulas_are_refused_at_once() -> None:
    began = time.process_time()
    for text in ("(" * 100_000, "-" * 199 + "1", "1+" * 99 + "1", "9" * 5_000):
        with pytest.raises(FormulaError):
            read_formula(text)
    assert time.process_time() - began < 1


# --- values of a recording ------------------------------------------------------------------------------------


def with_model(rec: Recording, **sizes: Any) -> Recording:
    return replace(rec, meta=replace(rec.meta, model=replace(minimax_m3(), **sizes)))


def with_setup(rec: Recording, **values: Any) -> Recording:
    return replace(rec, meta=replace(rec.meta, setup=Setup(**values)))


def counted(tmp_path: Path, rec: Recording, line: str) -> RuleResult:
    return result(tmp_path, rec, f'kernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\n{line}')


def test_the_text_shows_formula_and_value(tmp_path: Path) -> None:
    rec = with_model(served(tmp_path, (DECODE, [ATTEND] * 6)), sparse_attention_layers=6)
    found = counted(tmp_path, rec, 'per_step = "sparse_layers"')
    assert str(found.outcome) == "holds"
    assert found.rule == "kernel _gqa_sparse_decode_kernel in decode: exactly 6 (sparse_layers) per step"
    found = counted(tmp_path, rec, 'per_step = {min = "sparse_layers + 1", max = 9}')
    assert (str(found.outcome), found.expected) == ("failed", "7 (sparse_layers + 1) to 9 per step")


def test_an_unknown_name_is_inconclusive_and_says_what_would_tell(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND] * 6))
    found = counted(tmp_path, rec, 'per_step = "sparse_layers"')
    assert str(found.outcome) == "inconclusive"
    assert found.expected == "exactly sparse_layers per step"
    assert found.why == "the formula has no value: sparse_layers is not known here"
    assert "--model-config FILE" in found.next_move
    assert "--tp N" in counted(tmp_path, rec, 'per_step = "6 // tp"').next_move
    assert "--recipe FILE" in counted(tmp_path, rec, 'per_step = "spec_tokens"').next_move


def test_zero_layers_are_known_and_division_by_them_is_not(tmp_path: Path) -> None:
    rec = with_model(served(tmp_path, (DECODE, [ATTEND])), sparse_attention_layers=0)
    assert values_of(rec).known["sparse_layers"] == 0
    assert str(counted(tmp_path, rec, 'per_step = "sparse_layers"').outcome) == "failed"  # 1 is seen, none may be
    found = counted(tmp_path, rec, 'per_step = "6 // sparse_layers"')
    assert str(found.outcome) == "inconclusive"
    assert "divides by zero (sparse_layers = 0)" in found.why
    assert "no whole number" in counted(tmp_path, rec, 'min_count = "layers / 7"').why


def test_rows_and_requests_are_of_each_step(tmp_path: Path) -> None:
    eight, four = "execute_context_0(0)_generation_8(8)", "execute_context_0(0)_generation_2(4)"
    rec = served(tmp_path, (eight, [ATTEND] * 8), (four, [ATTEND] * 4))
    assert str(counted(tmp_path, rec, 'per_step = "rows"').outcome) == "holds"
    found = counted(tmp_path, rec, 'per_step = "requests"')  # 8 and 2
    assert (str(found.outcome), found.where.startswith("step 1 ")) == ("failed", True)
    assert found.expected == "exactly requests per step"
    assert str(counted(tmp_path, rec, 'per_step = {min = "requests", max = "2 * requests"}').outcome) == "holds"


def test_rows_that_a_step_does_not_tell_leave_the_rule_open(tmp_path: Path) -> None:
    rec = served(tmp_path, ("ProfilerStep#3", [ATTEND]))
    found = result(tmp_path, rec, 'kernel = "_gqa*"\nper_step = "rows"')
    assert (str(found.outcome), found.why) == ("inconclusive", "rows of 1 of 1 steps are not known")


def test_steps_are_those_of_the_scope(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [REDUCE]), (DECODE, [REDUCE, REDUCE]), (DECODE, [REDUCE, REDUCE]))
    rule = 'kernel = "nccl*"\nphase = "decode"\n'
    assert outcome(tmp_path, rec, rule + 'min_count = "2 * steps"\nmax_count = "2 * steps"') == "holds"
    assert outcome(tmp_path, rec, rule + 'min_count = "2 * steps + 1"') == "failed"


def test_minimum_and_maximum_that_come_to_nothing_are_inconclusive(tmp_path: Path) -> None:
    rec = with_model(served(tmp_path, (DECODE, [ATTEND])))
    found = counted(tmp_path, rec, 'min_count = "layers"\nmax_count = "dense_layers"')
    assert (str(found.outcome), found.why) == (
        "inconclusive",
        "minimum and maximum come to numbers that cannot both hold",
    )


def test_every_name_has_the_published_models_value(tmp_path: Path) -> None:
    rec = with_model(served(tmp_path, (DECODE, [ATTEND])))
    known = values_of(rec).known
    # config.json: 60 layers, 0 to 2 dense, 57 with experts and index; 4 KV heads; 128 experts, 4 of them
    assert known == {
        "layers": 60,
        "dense_layers": 3,
        "sparse_layers": 57,
        "moe_layers": 57,
        "kv_heads": 4,
        "experts": 128,
        "top_k": 4,
    }


@pytest.mark.parametrize(("overrides", "layers"), [({}, 57), ({"use_index_cache": True, "index_topk_freq": 4}, 15)])
def test_index_layers_follow_the_reuse_that_is_configured(
    tmp_path: Path, overrides: dict[str, Any], layers: int
) -> None:
    """57 sparse layers, every fourth chooses: ordinals 0, 4, ..., 56 are 15."""
    flags = {"--hf-overrides": json.dumps({"text_config": overrides})} if overrides else {}
    facts = ModelFacts(name="m", is_minimax_m3=True, layers=60, dense_layers=3, sparse_layers=57)
    rec = with_setup(
        served(tmp_path, (DECODE, [ATTEND])),
        model=facts,
        gfx="gfx950",
        flags=flags,
        tp=4,
        build=read_build(None, "0.33.0"),
    )
    assert values_of(rec).known["index_layers"] == layers


def test_two_sources_that_differ_tell_nothing(tmp_path: Path) -> None:
    rec = with_model(served(tmp_path, (DECODE, [ATTEND])), num_layers=9)
    rec = with_setup(rec, model=ModelFacts(layers=60))
    said = values_of(rec).unknown["layers"]
    assert said == "layers is not one number: 9 by the model's config, 60 by the server's configuration"


def test_pipeline_stages_leave_layers_open(tmp_path: Path) -> None:
    rec = with_setup(served(tmp_path, (DECODE, [ATTEND])), model=ModelFacts(layers=60), pp=2)
    assert "pipeline stages" in values_of(rec).unknown["layers"]
    assert values_of(rec).known["tp"] == 1


def test_a_live_recording_brings_its_own_values() -> None:
    rec = read([ROOT / "samples" / "live-cpu-moe-tp2"])
    known = values_of(rec).known
    # tiny/qwen3moe: 2 layers, both with 8 experts of which 2 are chosen; TP2 without expert parallelism
    assert {name: known[name] for name in ("layers", "moe_layers", "dense_layers", "experts", "top_k", "tp", "ep")} == {
        "layers": 2,
        "moe_layers": 2,
        "dense_layers": 0,
        "experts": 8,
        "top_k": 2,
        "tp": 2,
        "ep": 1,
    }
    assert known["spec_tokens"] == 0


def test_formulas_hold_on_the_graph_sample_with_the_models_config(tmp_path: Path) -> None:
    """9 layers, 3 dense: 6 attends, 12 expert GEMMs and 9 activations (3 dense MLPs, 6 shared experts) a decode step."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "minimax_m3_text", "num_hidden_layers": 9}))
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nkernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\nper_step = "sparse_layers"\n'
        '[[rule]]\nkernel = "fused_moe_kernel"\nphase = "decode"\nper_step = "2 * moe_layers"\n'
        '[[rule]]\nkernel = "_swiglu_oai_kernel"\nphase = "decode"\nper_step = "dense_layers + moe_layers"\n'
        '[[rule]]\npath = "sparse_attention"\nphase = "decode"\nverdict = "executed"\nper_step = "sparse_layers"\n'
        '[[rule]]\nkernel = "fused_moe_kernel"\nphase = "decode"\nmin_count = "2 * moe_layers * steps"\n'
    )
    sample = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
    rec = read([sample], Workload(model_config=config))
    found = judge(load_rules(rules), rec, report(rec).answer)
    assert [str(r.outcome) for r in found.results] == ["holds"] * 5
    assert found.results[1].expected == "exactly 12 (2 * moe_layers) per step"
    assert found.results[3].observed.endswith("54 calls in 9 steps (6 each)")
    bare = read([sample])
    found = judge(load_rules(rules), bare, report(bare).answer)
    assert {str(r.outcome) for r in found.results} == {"inconclusive"}
    assert found.exit_code == 4
