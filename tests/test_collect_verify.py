"""``verify``: one module against float32. Formulas by hand, faults planted in a real vLLM, and what is said where it cannot."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from guest_kit import only
from live_llm import outcome, recorded
from modules_kit import Attention, FlashImpl, Module, MoERunner, RMSNorm, Tensor, linear, routed, worker
from modules_kit import RowParallelLinear as Row

from m3probe.collectors import verify as verifying
from m3probe.collectors._probe import Probe
from m3probe.collectors._verify_catch import Catch
from m3probe.collectors._verify_moe import mine_of, placement
from m3probe.collectors.verify import Verify
from m3probe.gates import gates
from m3probe.schema import control, records
from m3probe.schema.gates import GateFacts
from m3probe.schema.roles import Level, Role

MOE, NORM, KEPT = "model.layers.0.mlp.experts", "model.layers.1.input_layernorm", "model.layers.1.self_attn.o_proj"
ROWS = 36  # three prompts of 12 tokens


@pytest.fixture(scope="module")
def math(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return outcome("verify_math.py", tmp_path_factory.mktemp("math"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A tiny MoE with real weights, asked for verdicts as it is and with faults planted in it."""
    folder = tmp_path_factory.mktemp("verify")
    return folder, outcome("tiny_llm.py", folder, "qwen3moe", "--verify")


def said(served: tuple[Path, Any], case: str) -> Any:
    return served[1]["verdicts"][case]


@pytest.mark.parametrize(("module", "rows"), [(MOE, ROWS), (NORM, ROWS), (KEPT, ROWS), ("lm_head", 3)])
def test_modules_of_a_real_vllm_hold_as_they_are(served: tuple[Path, Any], module: str, rows: int) -> None:
    found = said(served, module)
    assert (found["state"], found["rows"]) == ("holds", rows)
    assert found["cosine"] > 0.999999
    assert found["max_error"] < 1e-4


def test_a_wrong_expert_map_is_caught_and_the_right_one_holds(served: tuple[Path, Any]) -> None:
    right, wrong = said(served, "right map"), said(served, "wrong map")
    assert right["state"] == "holds"
    assert right["logprobs"] == said(served, MOE)["logprobs"]
    assert wrong["logprobs"] != right["logprobs"]  # what is served is wrong, without an error
    assert wrong["state"] == "broken"
    assert wrong["cosine"] < 0.999
    assert wrong["max_error"] > 0.1


@pytest.mark.parametrize("case", ["wrong norm", "wrong linear"])
def test_other_wrong_modules_are_caught(served: tuple[Path, Any], case: str) -> None:
    assert said(served, case)["state"] == "broken"
    assert said(served, case)["cosine"] < 0.9


def test_what_cannot_be_recomputed_says_why(served: tuple[Path, Any]) -> None:
    packed, attention = said(served, "model.layers.0.self_attn.qkv_proj"), said(served, "model.layers.0.self_attn.attn")
    assert packed["state"] == attention["state"] == "cannot verify"
    assert "inside a handle of the CPU's GEMM library" in packed["text"]
    assert "kind attention (Attention)" in attention["text"]
    assert f"did you mean '{MOE}'" in said(served, "model.layers.0.mlp.expert")["state"]


def test_the_recording_has_the_verdicts_and_the_gate_their_cosines(served: tuple[Path, Any]) -> None:
    kept = recorded(served[0])
    states = [v.state for v in only(records.Verified, kept)]  # type: ignore[union-attr]
    assert states == ["holds"] * 4 + ["cannot verify"] * 2 + ["holds", "broken", "broken", "broken"]
    cosines = [c for g in only(records.Gate, kept) for c in g.facts.cosines or ()]  # type: ignore[union-attr]
    assert len(cosines) == 8
    assert cosines[0].name == f"{MOE}, rank 0"
    assert str(gates()["cosine"].check(GateFacts(cosines=tuple(cosines))).state) == "broken"
    assert str(gates()["cosine"].check(GateFacts(cosines=tuple(cosines[:4]))).state) == "holds"


def test_nothing_is_left_on_the_modules(served: tuple[Path, Any]) -> None:
    assert served[1]["same"] is True
    assert served[1]["failed"] == {}
    assert recorded(served[0])[-1].left_behind == ()  # type: ignore[union-attr]


def test_weights_are_dequantised_by_their_format(math: Any) -> None:
    found = math["weights"]
    assert found["mxfp8"][0] == [8.0, 16.0]  # E8M0 127 is 1, 128 is 2, 126 is a half, 255 is NaN
    assert found["mxfp8"][1][0] == 4.0
    assert found["mxfp8"][1][1] != found["mxfp8"][1][1]
    assert (found["fp8 one scale"], found["fp8 a row"]) == ([2.0, 2.0], [8.0, 16.0])
    assert found["fp8 blocks"] == [[2.0, 6.0], [10.0, 14.0]]
    assert found["mxfp4"] == [1.0, 2.0, 0.0, -3.0]  # 0x21 is 0.5 and 1.0, 0xF8 is -0 and -6; scales 2 and a half
    assert found["padded"] == [[1.0] * 3] * 2
    assert found["turned"] == [[0.5, 1.0], [1.5, 2.0]]


def test_unknown_layouts_are_told_with_their_dims(math: Any) -> None:
    found = math["weights"]
    assert found["odd"] == "scales of (3, 7) for N, K = 2, 64"
    assert found["no scale"] == "a weight of float8_e4m3fn (2, 64) with scales none for N, K = 2, 64"
    assert found["shuffled"] == "the weight is shuffled for AITER"
    assert "only copy" in found["gone"]


def test_a_packing_is_undone_only_where_it_moves_elements(math: Any) -> None:
    assert math["packing"] == {
        "same": True,
        "large": True,
        "not a permutation": "the CPU's packing of expert weights does more than move elements",
    }


def test_rows_are_routed_as_each_router_does(math: Any) -> None:
    # logits 0, 2, 1, -1: softmax 0.0871, 0.6439, 0.2369, 0.0321; sigmoid 0.5, 0.8808, 0.7311, 0.2689
    wanted = {
        "softmax": ([0.6439, 0.2369], [1, 2]),
        "renormalised": ([2 * 0.7311, 2 * 0.2689], [1, 2]),
        "biased": ([0.2689, 0.7311], [3, 2]),
        "groups": ([1.0], [1]),
        "biased groups": ([0.2689], [3]),
        "shared": ([1.0, 0.5], [1, 4]),
    }
    for case, (weights, ids) in wanted.items():
        found_weights, found_ids = math["routes"][case]
        assert found_ids == [ids], case
        assert found_weights[0] == pytest.approx(weights, abs=1e-4), case
    assert math["routes"]["clear"] == [False, True]


def test_a_rank_s_share_is_that_of_its_own_experts(math: Any) -> None:
    # x = 1: gate 1, up 2, product 2, times 10 = 20, half of it by the router; x = 3: 3 x 6 x 10 / 2
    assert math["shares"]["share"] == [[10.0], [90.0]]
    assert math["shares"]["swiglu"][0] == pytest.approx([-42.0, 1.26869], abs=1e-3)


def test_norms_with_their_residual_and_what_is_broken(math: Any) -> None:
    found = math["norms"]
    assert [found[name][0] for name in ("plain", "gemma", "added")] == ["holds"] * 3
    assert found["wrong residual"][0] == "broken"
    assert "0.960000" in found["wrong residual"][1]  # (4, 3) against (3, 4)
    assert found["nan"] == ["broken", "the output has values that are no finite numbers", None]
    assert found["zero"] == "empty"


def test_flavours_of_fp8_agree_on_one_code_alone(math: Any) -> None:
    assert math["codes"] == [256, 1, None]  # FN against FNUZ: zero alone is the same number


@pytest.mark.parametrize(
    ("experts", "ranks", "rank", "strategy", "mine"),
    [
        (8, 2, 1, "linear", [4, 5, 6, 7]),
        (10, 4, 1, "linear", [3, 4, 5]),
        (10, 4, 3, "linear", [8, 9]),
        (8, 2, 1, "round_robin", [1, 3, 5, 7]),
        (4, 1, 0, "linear", [0, 1, 2, 3]),
    ],
)
def test_experts_of_a_rank_by_its_place(experts: int, ranks: int, rank: int, strategy: str, mine: list[int]) -> None:
    assert mine_of(experts, ranks, rank, strategy) == mine


def test_a_map_that_differs_from_the_placement_is_named() -> None:
    wrong = Tensor(8, dtype="int32", values=[-1, -1, -1, -1, 1, 0, 2, 3])
    slots, text = placement(routed(local=4, ep_rank=1, expert_map=wrong))
    assert slots == {4: 0, 5: 1, 6: 2, 7: 3}
    assert text == "the expert map differs from this rank's placement at experts 4, 5"
    right = Tensor(9, dtype="int32", values=[0, 0, 0, 0, 1, 1, 1, 1, 0])
    assert placement(routed(local=4, ep_rank=1, expert_map=right))[1] == ""
    assert placement(routed(slots=9))[0][8] == 8  # a shared expert behind the routed ones


class Recording(Probe):
    """A probe that says it records, and keeps what it is told."""

    def __init__(self, model: Module) -> None:
        super().__init__(Level.LEDGER)
        self.recording = True
        self.kept: list[records.AnyRecord] = []
        held = worker(model)
        self._hosts[Role.WORKER] = lambda: held  # type: ignore[assignment]

    def put(self, record: records.AnyRecord) -> None:
        self.kept.append(record)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(Catch, "stand", lambda _self: True)
    norm = RMSNorm(weight=Tensor(8), variance_epsilon=1e-6)
    fp8 = linear(Row, [8], 8, (8, 8), weight=Tensor(8, 8, dtype="float8_e4m3fn"))
    experts = MoERunner(routed_experts=routed(quant_method=SimpleNamespace(moe_kernel=None, experts_cls=None)))
    attn = Attention(impl=FlashImpl())
    return Recording(Module(norm=norm, fp8=fp8, experts=experts, attn=attn))


def ask(part: Verify, module: str) -> Any:
    return part.ask(control.Verify(module=module))


def test_without_an_eager_step_it_says_so_after_a_while(probe: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(verifying, "time", SimpleNamespace(monotonic=lambda: now[0]))
    part = Verify(probe)
    assert isinstance(ask(part, "norm"), control.Done)
    assert "is being verified" in ask(part, "norm").text
    now[0] += 54
    part.tick()
    assert probe.kept == []
    now[0] += 1
    part.tick()
    (record,) = probe.kept
    assert isinstance(record, records.Verified)
    assert (record.state, record.cosine) == ("cannot verify", None)
    assert record.text == "cannot verify: no step ran this module outside of a graph within 55 s"
    assert isinstance(ask(part, "norm"), control.Done)  # free again


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("fp8", "the layout of quantised weights in UnquantizedLinearMethod"),
        ("experts", "the layout of expert weights in a kernel that is not there yet"),
        ("attn", "a module of kind attention (Attention) is not a function of its input and parameters alone"),
    ],
)
def test_a_module_that_cannot_be_recomputed_is_answered_at_once(probe: Recording, module: str, why: str) -> None:
    assert ask(Verify(probe), module).text == f"cannot verify: {why}"
    (record,) = probe.kept
    assert isinstance(record, records.Verified)
    assert (record.module, record.state) == (module, "cannot verify")


def test_it_needs_a_recording_and_a_module_that_is_there(probe: Recording) -> None:
    refused = ask(Verify(probe), "expert")
    assert refused == control.Refused(text="no module 'expert' here (did you mean 'experts'?)")
    probe.recording = False
    assert ask(Verify(probe), "norm").text == "nothing is recorded here"
    assert Verify(probe).ask(control.Hello()) is None
