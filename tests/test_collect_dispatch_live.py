"""Dispatch and routing on the real vLLM: a tiny MoE at TP2, against its config and vLLM's own counters."""

import pytest
from guest_kit import only
from live_starts import Live

from m3probe.gates.token_conservation import check
from m3probe.schema import records
from m3probe.schema.gates import GateState
from m3probe.schema.roles import Stage

LAYERS, EXPERTS, TOP_K = 2, 8, 2
RANKS = (0, 1)
PER_STEP = {
    ("custom_all_reduce", "in_all_reduce_cpu"): 1 + 2 * LAYERS,  # the embedding; attention and experts of each layer
    ("moe_backend", "ran_experts"): LAYERS,
    ("graph_replay", "step_dispatch"): 1,
}


def kept(live: Live, rank: int, kind: type) -> list[records.AnyRecord]:
    return only(kind, live.records("worker")[rank])


def steps(live: Live) -> int:
    return int(live.metrics["vllm:iteration_tokens_total_count"])


@pytest.mark.parametrize("rank", RANKS)
def test_branches_of_each_step_are_counted_exactly(tp2: Live, rank: int) -> None:
    found: dict[tuple[str, str], int] = {}
    for record in kept(tp2, rank, records.Dispatch):
        assert isinstance(record, records.Dispatch)
        if record.stage is Stage.EAGER:
            found[record.path, record.seam] = found.get((record.path, record.seam), 0) + record.count
    assert found == {seam: each * steps(tp2) for seam, each in PER_STEP.items()}


@pytest.mark.parametrize("rank", RANKS)
def test_what_ran_has_its_word_its_phase_and_its_layers(tp2: Live, rank: int) -> None:
    told = [r for r in kept(tp2, rank, records.Dispatch) if r.stage is Stage.EAGER]  # type: ignore[union-attr]
    experts = [r for r in told if r.seam == "ran_experts"]  # type: ignore[union-attr]
    assert {r.layers for r in experts} == {LAYERS}  # type: ignore[union-attr]
    assert len({r.variant for r in experts}) == 1  # type: ignore[union-attr]
    assert {r.phase for r in experts} <= {"prefill", "decode", "mixed"}  # type: ignore[union-attr]
    assert {r.variant for r in told if r.path == "custom_all_reduce"} == {"CPU shared memory"}  # type: ignore[union-attr]
    graphs = [r for r in told if r.path == "graph_replay"]  # type: ignore[union-attr]
    assert {(r.variant, r.eligible) for r in graphs} == {("eager", False)}  # type: ignore[union-attr]
    assert all(r.reason.endswith("rows have no captured graph") for r in graphs)  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", RANKS)
def test_what_was_selected_is_what_ran(tp2: Live, rank: int) -> None:
    told = kept(tp2, rank, records.Dispatch)
    selected = {r.variant: r.count for r in told if r.seam == "model"}  # type: ignore[union-attr]
    ran = {r.variant for r in told if r.seam == "ran_experts"}  # type: ignore[union-attr]
    assert selected == dict.fromkeys(ran, LAYERS)
    assert {(r.variant, r.count) for r in told if r.path == "fp8_kv_cache"} == {("FP32", LAYERS)}  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", RANKS)
def test_rows_per_expert_add_up_to_the_rows_sent(tp2: Live, rank: int) -> None:
    told = kept(tp2, rank, records.Routing)
    assert {r.layer for r in told} == {f"model.layers.{n}.mlp.experts" for n in range(LAYERS)}  # type: ignore[union-attr]
    for record in told:
        assert isinstance(record, records.Routing)
        assert record.rows > 0
        assert len(record.experts) == EXPERTS
        assert (sum(record.experts), record.top_k, record.shared) == (record.rows * TOP_K, TOP_K, -1)


@pytest.mark.parametrize("rank", RANKS)
def test_rows_are_conserved_in_the_recorded_steps(tp2: Live, rank: int) -> None:
    gates = [g for g in kept(tp2, rank, records.Gate) if g.seam == "route_experts"]  # type: ignore[union-attr]
    assert gates
    assert {check(g.facts).state for g in gates} == {GateState.HOLDS}  # type: ignore[union-attr]


def test_ranks_route_the_same_rows_to_the_same_experts(tp2: Live) -> None:
    """Under tensor parallelism every rank has every row: a router that rounds differently would show here."""

    def sums(rank: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for record in kept(tp2, rank, records.Routing):
            assert isinstance(record, records.Routing)
            before = found.get(record.layer, [0] * EXPERTS)
            found[record.layer] = [a + b for a, b in zip(before, record.experts, strict=True)]
        return found

    assert sums(0) == sums(1)
    assert len(sums(0)) == LAYERS
