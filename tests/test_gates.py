"""Gates: each trap with the figures of its report, a healthy case, and a case that lacks the evidence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from m3probe.errors import UnreadableInput
from m3probe.fastpaths import fast_paths
from m3probe.gates import gates, judge
from m3probe.gates.ack_fan_in import expected_acks
from m3probe.gates.eval_file import noise, stderr
from m3probe.readers.eval_results import read_cosines, read_scores
from m3probe.schema.gates import (
    Acks,
    Arrivals,
    BlockSizes,
    CacheCensus,
    CacheDtypes,
    Cosine,
    EvalRun,
    ExpertMask,
    FusedParam,
    GateFacts,
    GateState,
    GateVerdict,
    GroupedLayer,
    RoutedRows,
    Score,
    SentBytes,
    TopkBuffer,
    WorkerGroup,
    Writes,
    broken,
    correct,
    holds,
    unproven,
)

FN, FNUZ = "float8_e4m3fn", "float8_e4m3fnuz"
OAI = (1.702, 1.0, 7.0)
QKV = FusedParam("layers.3.qkv_proj", ("q", "k", "v", "index_q", "index_k"), ("q", "k", "v", "index_q", "index_k"))
CENSUS = CacheCensus(dense=3, sparse=57, index=57, dense_layers=3, sparse_layers=57)
SENT = (SentBytes("layers.3", 32_768, 32_768),)


def gsm8k(value: float, n: int | None = 1319) -> Score:
    return Score("gsm8k", "exact_match,strict-match", value, n)


def layer(name: str, heads: int | None = 16, **more: Any) -> GroupedLayer:
    return GroupedLayer(
        **{"layer": name, "backend": "TRITON_ATTN", "kv_spec": "128x1x128", "q_heads": heads, "draft": False} | more
    )


def run(**facts: Any) -> GateFacts:
    return GateFacts(run=EvalRun(**facts))


CASES: list[tuple[str, GateFacts, str, str]] = [
    (
        "kv_dtype",
        GateFacts(kv=CacheDtypes(FNUZ, FN, FNUZ)),
        "broken",
        "written as float8_e4m3fnuz and read as float8_e4m3fn",
    ),
    ("kv_dtype", GateFacts(kv=CacheDtypes(FN, FN), gfx="gfx942"), "broken", "gfx942 computes in FNUZ"),
    ("kv_dtype", GateFacts(kv=CacheDtypes(f"torch.{FN}", FN), gfx="gfx950"), "holds", "the platform's flavour"),
    ("kv_dtype", GateFacts(kv=CacheDtypes(FNUZ, FNUZ, FNUZ)), "holds", "float8_e4m3fnuz"),
    ("kv_dtype", GateFacts(kv=CacheDtypes("bfloat16", "bfloat16")), "holds", "no FP8"),
    ("kv_dtype", GateFacts(kv=CacheDtypes(FN, FN, FN, codes_equal=254)), "broken", "254 of 256 byte codes"),
    ("kv_dtype", GateFacts(kv=CacheDtypes(FN, FN)), "unproven", "platform"),
    ("kv_dtype", GateFacts(kv=CacheDtypes(writer=FN)), "unproven", "not recorded"),
    ("fused_params", GateFacts(fused=(QKV,), activation=OAI), "holds", "1 fused parameters"),
    (
        "fused_params",
        GateFacts(fused=(FusedParam("layers.3.qkv_proj", QKV.declared, ("q", "k", "v")),), activation=OAI),
        "broken",
        "3 of 5 slices were loaded; missing index_k, index_q",
    ),
    ("fused_params", GateFacts(activation=(1.702, 1.0, math.inf)), "broken", "inf), not (1.702, 1.0, 7.0)"),
    ("fused_params", GateFacts(fused=(QKV,)), "unproven", "activation: not recorded"),
    ("fused_params", GateFacts(fused=(), activation=OAI), "unproven", "no fused parameter"),
    (
        "expert_mask",
        GateFacts(masks=(ExpertMask(0, 128, 32),), experts=128),
        "broken",
        "marks 128 experts as local, the rank holds 32",
    ),
    (
        "expert_mask",
        GateFacts(masks=tuple(ExpertMask(r, 32, 32) for r in range(4)), experts=128),
        "holds",
        "mark 128 of 128",
    ),
    (
        "expert_mask",
        GateFacts(masks=tuple(ExpertMask(r, 32, 32) for r in range(3)), experts=128),
        "unproven",
        "96 of 128",
    ),
    ("expert_mask", GateFacts(masks=(ExpertMask(0, 32, 32),)), "unproven", "were not recorded"),
    (
        "attn_group_key",
        GateFacts(groups=((layer("0"), layer("1")), (layer("draft.0", 64, draft=True),))),
        "holds",
        "3 layers in 2 groups",
    ),
    ("attn_group_key", GateFacts(groups=((layer("0"), layer("1", 64)),)), "broken", "2 query-head counts: 16, 64"),
    (
        "attn_group_key",
        GateFacts(groups=((layer("0"), layer("draft.0", draft=True)),)),
        "broken",
        "draft.0 of the draft",
    ),
    (
        "attn_group_key",
        GateFacts(groups=((layer("0", backend="A"), layer("1", backend="B")),)),
        "broken",
        "2 backends: A, B",
    ),
    ("attn_group_key", GateFacts(groups=((layer("0"), layer("1", None)),)), "unproven", "was not recorded"),
    ("block_equal", GateFacts(blocks=BlockSizes(128, 128)), "holds", "KV block 128"),
    ("block_equal", GateFacts(blocks=BlockSizes(64, 64)), "broken", "both must be 128"),
    ("block_equal", GateFacts(blocks=BlockSizes(1, 128)), "broken", "KV block 1, sparse block 128"),
    ("block_equal", GateFacts(blocks=BlockSizes(128)), "unproven", "not recorded"),
    ("token_conservation", GateFacts(routed=(RoutedRows("layers.3", 128, 5, 640),)), "holds", "1 recorded layers"),
    (
        "token_conservation",
        GateFacts(routed=(RoutedRows("layers.3", 128, 5, 512),)),
        "broken",
        "512 rows over its experts, 128 x 5 = 640",
    ),
    ("token_conservation", GateFacts(routed=()), "unproven", "no routing histogram"),
    ("kv_census", GateFacts(caches=CENSUS, sent=SENT), "holds", "3 + 57 + 57 caches"),
    (
        "kv_census",
        GateFacts(caches=CacheCensus(3, 57, 0, 3, 57), sent=SENT),
        "broken",
        "0 index-key caches are registered for 57",
    ),
    (
        "kv_census",
        GateFacts(caches=CENSUS, sent=(SentBytes("layers.3", 32_768, 65_536),)),
        "broken",
        "65,536 B sent, its spec says 32,768 B",
    ),
    ("kv_census", GateFacts(caches=CENSUS), "unproven", "bytes sent per layer were not recorded"),
    ("write_order", GateFacts(writes=(Writes("a", 117, 117, 117, freed=True),)), "holds", "117 completed writes"),
    (
        "write_order",
        GateFacts(writes=(Writes("a", 117, 117, 116, freed=True),)),
        "broken",
        "freed at 116 completed of 117 sealed",
    ),
    ("write_order", GateFacts(writes=(Writes("a", 117, 60, 60, freed=True),)), "broken", "60 sealed and 117 scheduled"),
    ("write_order", GateFacts(writes=(Writes("a", 117, 117, 60, freed=False),)), "unproven", "60 of 117"),
    ("ack_fan_in", GateFacts(acks=(Acks(0, 4, 8, 1),)), "broken", "P TP4, D TP8: rank 0 freed after 1 of 2"),
    ("ack_fan_in", GateFacts(acks=(Acks(0, 4, 8, 2), Acks(1, 4, 8, 2))), "holds", "after 2 acknowledgements"),
    ("ack_fan_in", GateFacts(acks=(Acks(0, 8, 4, 1),)), "holds", "after 1 acknowledgements"),
    ("ack_fan_in", GateFacts(acks=(Acks(0, 4, 6, 1),)), "broken", "6 is no multiple of 4"),
    ("ack_fan_in", GateFacts(), "unproven", "no acknowledgement"),
    ("kv_arrival", GateFacts(arrivals=Arrivals(128, 97)), "broken", "97 of 128"),
    ("kv_arrival", GateFacts(arrivals=Arrivals(128, 113)), "broken", "113 of 128"),
    ("kv_arrival", GateFacts(arrivals=Arrivals(128, 128)), "holds", "128 of 128"),
    ("kv_arrival", GateFacts(arrivals=Arrivals(0, 0)), "unproven", "no arrival"),
    ("topk_layout", GateFacts(topk=TopkBuffer("head_major", "head_major")), "holds", "head_major"),
    ("topk_layout", GateFacts(topk=TopkBuffer("head_major", "token_major")), "broken", "its reader takes token_major"),
    (
        "topk_layout",
        GateFacts(topk=TopkBuffer(heads=4, tokens=4)),
        "unproven",
        "heads = tokens = 4: the shape cannot tell",
    ),
    ("topk_layout", GateFacts(topk=TopkBuffer("head_major")), "unproven", "not recorded"),
    ("eval_acceptance", run(speculative=True, rejection_method="synthetic"), "broken", "synthetic"),
    ("eval_acceptance", run(speculative=True, rejection_method="standard"), "holds", "standard"),
    ("eval_acceptance", run(speculative=True, rejection_method="standard", dataset="random"), "broken", "11.96 %"),
    ("eval_acceptance", run(speculative=False), "holds", "no tokens"),
    ("eval_acceptance", run(speculative=True), "unproven", "rejection_sample_method was not recorded"),
    (
        "eval_length",
        run(changed=("index_reuse",), context_tokens=(300, 2048)),
        "broken",
        "up to 2,048 every block is selected",
    ),
    ("eval_length", run(changed=("index_reuse",), context_tokens=(2049, 9000)), "holds", "all above 2,048"),
    ("eval_length", run(changed=("kv_transfer",), context_tokens=(900, 9000)), "unproven", "only those above"),
    ("eval_length", run(changed=("indexer",)), "unproven", "context lengths were not recorded"),
    ("eval_length", run(changed=("graph_replay",)), "holds", "nothing that selects"),
    ("eval_length", run(), "unproven", "what changed"),
    ("eval_file", run(score=gsm8k(0.0099), baseline=gsm8k(0.9666)), "broken", "gsm8k 0.0099, n = 1,319"),
    ("eval_file", run(score=gsm8k(0.0008)), "broken", "as low as a broken KV layout"),
    ("eval_file", run(score=gsm8k(0.9575), baseline=gsm8k(0.9666)), "holds", "-0.0091, noise below 0.014"),
    ("eval_file", run(score=gsm8k(0.9143), baseline=gsm8k(0.9515)), "broken", "-0.0372"),
    ("eval_file", run(score=gsm8k(0.9522), baseline=gsm8k(0.9515)), "holds", "+0.0007"),
    ("eval_file", run(score=gsm8k(0.9424)), "holds", "in the healthy band"),
    ("eval_file", run(score=gsm8k(0.88)), "unproven", "below every healthy run"),
    ("eval_file", run(score=gsm8k(0.95, n=50)), "unproven", "too few questions"),
    ("eval_file", run(score=gsm8k(0.95, n=None)), "unproven", "no noise band"),
    (
        "eval_file",
        run(score=gsm8k(0.95), measured_on="TP4 EP1", serving="TP4 EP4"),
        "unproven",
        "the score is of TP4 EP1, the server runs TP4 EP4",
    ),
    ("eval_file", run(), "unproven", "no evaluation file"),
    (
        "gpu_count",
        GateFacts(workers=(WorkerGroup("prefill", 2, 4), WorkerGroup("decode", 1, 4)), gpus=12),
        "holds",
        "2 x 4 + 1 x 4 = 12",
    ),
    (
        "gpu_count",
        GateFacts(workers=(WorkerGroup("prefill", 1, 8), WorkerGroup("decode", 1, 8)), gpus=32),
        "broken",
        "= 16 GPUs, divided by 32",
    ),
    ("gpu_count", GateFacts(gpus=16), "unproven", "launch commands"),
    ("cosine", GateFacts(cosines=(Cosine("experts", 0.527), Cosine("attn", 1.0))), "broken", "0.5270 (experts)"),
    ("cosine", GateFacts(cosines=(Cosine("experts", 0.9995),)), "holds", "> 0.999"),
    ("cosine", GateFacts(cosines=()), "unproven", "no cosine file"),
]


@pytest.mark.parametrize(
    ("name", "facts", "state", "words"), CASES, ids=[f"{c[0]}-{c[2]}-{i}" for i, c in enumerate(CASES)]
)
def test_a_gate_says_its_state_and_its_numbers(name: str, facts: GateFacts, state: str, words: str) -> None:
    verdict = gates()[name].check(facts)
    assert (verdict.state, words in verdict.text) == (GateState(state), True), verdict.text


def test_every_gate_has_a_case_of_each_state() -> None:
    seen = {(name, state) for name, _, state, _ in CASES}
    assert seen == {(name, str(state)) for name in gates() for state in GateState}


def test_without_any_fact_every_gate_is_unproven() -> None:
    assert {v.state for v in judge(GateFacts()).values()} == {GateState.UNPROVEN}


@pytest.mark.parametrize("name", gates())
def test_a_gate_says_what_it_asks_and_what_it_caught(name: str) -> None:
    gate = gates()[name]
    assert gate.question.endswith("?")
    assert gate.facts
    assert "PR" in gate.trap or "issue" in gate.trap


def test_fnuz_bytes_read_as_fn_are_twice_the_value() -> None:
    """Why kv_dtype exists: E4M3 with bias 8 (FNUZ) and 7 (FN), decoded here bit by bit."""

    def e4m3(code: int, bias: int) -> float:
        exponent, mantissa = (code >> 3) & 15, code & 7
        value = mantissa / 8 * 2 ** (1 - bias) if exponent == 0 else (1 + mantissa / 8) * 2 ** (exponent - bias)
        return -value if code & 128 else value

    for code in [c for c in range(1, 127) if c != 0]:
        assert e4m3(code, 7) == 2 * e4m3(code, 8)


def test_noise_of_gsm8k_by_hand() -> None:
    """sqrt(0.95 x 0.05 / 1319) = 0.0060; 1.96 x sqrt(2) x 0.0060 = 0.0166; with the largest seen, 0.0065: 0.0180."""
    assert stderr(gsm8k(0.95)) == pytest.approx(0.0060, abs=5e-5)
    assert noise(gsm8k(0.95), gsm8k(0.95)) == pytest.approx(0.0166, abs=5e-5)
    one = Score("gsm8k", "m", 0.94, 1319, 0.0065)
    assert noise(one, one) == pytest.approx(0.0180, abs=5e-5)


@pytest.mark.parametrize(("producer", "consumer", "acks"), [(4, 8, 2), (8, 8, 1), (8, 4, 1), (1, 8, 8), (4, 6, None)])
def test_acks_by_tp_sizes(producer: int, consumer: int, acks: int | None) -> None:
    assert expected_acks(producer, consumer) == acks


# --- state correct --------------------------------------------------------------------------------------------


def test_a_path_is_correct_only_when_all_of_its_gates_hold() -> None:
    path = fast_paths()["index_reuse"]
    good: dict[str, GateVerdict] = {name: holds("") for name in path.gates}
    assert correct(path, good) is True
    assert correct(path, good | {"eval_length": broken("")}) is False
    assert correct(path, good | {"eval_length": unproven("")}) is None
    assert correct(path, {}) is None
    assert correct(path, good | {"gpu_count": broken("")}) is True, "a gate of no concern to the path"
    assert correct(path, {"eval_length": broken("")}) is False, "one broken gate is enough"


# --- files ----------------------------------------------------------------------------------------------------


def test_lm_eval_results_are_read_strict_match_first() -> None:
    document = {
        "results": {
            "gsm8k": {
                "alias": "gsm8k",
                "exact_match,flexible-extract": 0.9583,
                "exact_match_stderr,flexible-extract": 0.0055,
                "exact_match,strict-match": 0.9575,
                "exact_match_stderr,strict-match": 0.0056,
            }
        },
        "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}},
    }
    first, second = read_scores(json.dumps(document).encode())
    assert first == Score("gsm8k", "exact_match,strict-match", 0.9575, 1319, 0.0056)
    assert second.metric == "exact_match,flexible-extract"


def test_what_lm_eval_does_not_say_stays_unknown() -> None:
    document = {"results": {"gsm8k": {"exact_match,none": 0.9, "exact_match_stderr,none": "N/A"}}}
    assert read_scores(json.dumps(document).encode()) == (Score("gsm8k", "exact_match,none", 0.9),)


def test_vllms_gsm8k_script_is_read() -> None:
    assert read_scores(b'{"accuracy": 0.9424, "invalid_rate": 0.0, "num_questions": 1319}') == (
        Score("gsm8k", "accuracy", 0.9424, 1319),
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{}",
        b'{"results": {}}',
        b'{"results": 3}',
        b'{"accuracy": NaN}',
        b'{"accuracy": true}',
        b"\xff\xfe",
    ],
)
def test_a_file_without_a_figure_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableInput):
        read_scores(content, "results.json")


def test_cosines_are_read_in_both_forms() -> None:
    assert read_cosines(b'{"experts": 0.527, "attn": 1.0}') == (Cosine("experts", 0.527), Cosine("attn", 1.0))
    assert read_cosines(b'{"cosines": [{"name": "experts", "cosine": 0.9995}]}') == (Cosine("experts", 0.9995),)


@pytest.mark.parametrize("content", [b"{}", b'{"a": 1.2}', b'{"a": "x"}', b'{"a": 1.0, "b": null}', b'{"cosines": []}'])
def test_bad_cosines_are_refused(content: bytes) -> None:
    with pytest.raises(UnreadableInput):
        read_cosines(content)
