"""Routing: which steps are sampled, what the copies add up to, and what is told as not seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dispatch_kit import Tensor

from m3probe.collectors import _routing_taps as taps_of
from m3probe.collectors._routing_count import Copy
from m3probe.collectors._routing_layers import Layer, bins, layers_of, sparse_layers_of
from m3probe.collectors._routing_sum import Sums
from m3probe.collectors._routing_taps import Taps
from m3probe.gates.token_conservation import check
from m3probe.schema.gates import GateState
from m3probe.schema.records import Gate, Routing

FUSED = Layer("layers.3.experts", experts=4, shared=1, row=0)
PLAIN = Layer("layers.4.experts", experts=4, shared=0, row=1)
LAYERS = {1: FUSED, 2: PLAIN}


class Held:
    """A tensor on the host: rows of numbers."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def tolist(self) -> list[Any]:
        return self.rows


def copied(fused: list[int], plain: list[int], told: dict[int, tuple[int, int, int]], **more: Any) -> Copy:
    """Counts as they arrive: padding, experts (and shared), ids that no expert has; rows of one width."""
    return Copy(Held([fused, plain]), Held(more.pop("shares", [-1.0, -1.0])), told=told, **more)


def test_counts_of_samples_add_up_and_the_shared_slot_is_apart() -> None:
    sums = Sums(LAYERS, derived=False)
    # 3 rows: 2 routed slots and the shared one each; then 2 rows
    sums.take(copied([0, 1, 2, 3, 0, 3, 0], [0, 6, 0, 0, 0, 0, 0], {0: (3, 3, -1), 1: (3, 2, -1)}))
    sums.take(copied([0, 0, 0, 0, 4, 2, 0], [0, 0, 0, 0, 4, 0, 0], {0: (2, 3, -1), 1: (2, 2, -1)}))
    told = list(sums.records())
    assert [(r.layer, r.steps, r.rows, r.top_k, r.experts, r.shared) for r in told if isinstance(r, Routing)] == [
        ("layers.3.experts", 2, 5, 3, (1, 2, 3, 4), 5),
        ("layers.4.experts", 2, 5, 2, (6, 0, 0, 4), -1),
    ]
    assert list(sums.records()) == []


def test_the_gate_gets_one_step_and_holds() -> None:
    sums = Sums(LAYERS, derived=False)
    sums.take(copied([0, 1, 2, 3, 0, 3, 0], [0, 6, 0, 0, 0, 0, 0], {0: (3, 3, -1), 1: (3, 2, -1)}))
    (gate,) = [r for r in sums.records() if isinstance(r, Gate)]
    assert [(r.rows, r.top_k, r.counted) for r in gate.facts.routed or ()] == [(3, 3, 9), (3, 2, 6)]
    assert check(gate.facts).state is GateState.HOLDS


def test_ids_that_no_expert_has_break_the_gate_and_rows_of_padding_do_not() -> None:
    sums = Sums({1: FUSED}, derived=False)
    sums.take(copied([3, 1, 1, 1, 1, 2, 0], [0] * 7, {0: (3, 3, -1)}))  # one row of padding, two real ones
    (gate,) = [r for r in sums.records() if isinstance(r, Gate)]
    assert check(gate.facts).state is GateState.HOLDS
    sums.take(copied([0, 1, 1, 1, 0, 2, 1], [0] * 7, {0: (2, 3, -1)}))  # one id is an expert that is not there
    (gate,) = [r for r in sums.records() if isinstance(r, Gate)]
    assert check(gate.facts).state is GateState.BROKEN


def test_blocks_are_rounded_up_expert_by_expert() -> None:
    """Block 4: 1, 5, 0 and 4 rows of the experts and 10 of the shared one are 4 + 8 + 0 + 4 + 12."""
    sums = Sums({1: FUSED}, derived=False)
    sums.take(copied([0, 1, 5, 0, 4, 10, 0], [0] * 7, {0: (10, 2, 4)}))
    (told,) = [r for r in sums.records() if isinstance(r, Routing)]
    assert told.padded == 28
    sums.take(copied([0, 1, 5, 0, 4, 10, 0], [0] * 7, {0: (10, 2, 4)}))
    sums.take(copied([0, 1, 5, 0, 4, 10, 0], [0] * 7, {0: (10, 2, -1)}))
    (told,) = [r for r in sums.records() if isinstance(r, Routing)]
    assert told.padded == -1


def test_shares_are_means_of_the_samples() -> None:
    sums = Sums(LAYERS, derived=False)
    told = {0: (3, 3, -1), 1: (3, 2, -1)}
    for share in (0.25, 0.75):
        sums.take(copied([0, 1, 2, 3, 0, 3, 0], [0, 6, 0, 0, 0, 0, 0], told, shares=[share, -1.0]))
    assert [r.overlap_next for r in sums.records() if isinstance(r, Routing)] == [0.5, None]


def test_captured_counts_are_differences_and_check_nothing() -> None:
    sums = Sums({1: FUSED}, derived=True)
    told = {0: (0, 3, -1)}
    sums.take(copied([0, 5, 5, 5, 5, 10, 0], [0] * 7, told, steps=100))  # what there was before: the base
    sums.take(copied([0, 6, 7, 8, 5, 13, 0], [0] * 7, told, steps=50))
    (record,) = sums.records()
    assert isinstance(record, Routing)
    assert (record.steps, record.rows, record.experts, record.shared) == (50, 3, (1, 2, 3, 0), 3)


# -- taps ----------------------------------------------------------------------------------------------------------


class Table:
    """``Tables``: what would be added, in order."""

    def __init__(self, free: int = 4) -> None:
        self.added: list[tuple[str, int]] = []
        self.counts = self.one = None
        self.free = [object()] * free
        self.cleared = 0
        self.copies: list[dict[int, tuple[int, int, int]]] = []

    def clear(self) -> None:
        self.cleared += 1

    def copy(self, told: dict[int, tuple[int, int, int]], steps: int) -> Any:
        self.copies.append(told)
        return self.free.pop() if self.free else None


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    made = Table()
    monkeypatch.setattr(taps_of, "add", lambda ids, layer, _counts, _one: made.added.append((layer.name, ids.shape[0])))
    monkeypatch.setattr(taps_of, "capturing", lambda: False)
    yield made


class Module:
    """``RoutedExperts``."""


STEP = SimpleNamespace(total_num_scheduled_tokens=1)
EMPTY = SimpleNamespace(total_num_scheduled_tokens=0)


def step(taps: Taps, *calls: tuple[Any, int], plan: Any = STEP) -> None:
    taps.begins(None, plan)
    for module, rows in calls:
        taps.routes(module, Tensor((rows, 8)), None, Tensor((rows, 2), "torch.int32"))
        taps.routed()
    taps.ends()


def test_one_step_in_so_many_is_sampled_and_the_first_is_one(table: Table) -> None:
    one, two = Module(), Module()
    taps = Taps({id(one): FUSED, id(two): PLAIN}, table, 3, overlap=False, captured=False)  # type: ignore[arg-type]
    for rows in range(1, 8):
        step(taps, (one, rows), (two, rows))
        step(taps, plan=EMPTY)
    assert [rows for name, rows in table.added if name == FUSED.name] == [1, 4, 7]
    assert table.copies[1] == {0: (4, 2, -1), 1: (4, 2, -1)}
    assert table.cleared == 3


def test_a_step_that_replays_a_graph_leaves_the_sample_to_the_next_eager_one(table: Table) -> None:
    one = Module()
    taps = Taps({id(one): FUSED}, table, 100, overlap=False, captured=False)  # type: ignore[arg-type]
    step(taps)
    step(taps)
    step(taps, (one, 5))
    assert table.copies == [{0: (5, 2, -1)}]


def test_nothing_is_added_while_a_graph_is_captured(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Module()
    monkeypatch.setattr(taps_of, "capturing", lambda: True)
    step(Taps({id(one): FUSED}, table, 1, overlap=False, captured=False), (one, 5))  # type: ignore[arg-type]
    assert table.added == []
    step(Taps({id(one): FUSED}, table, 1, overlap=False, captured=True), (one, 5))  # type: ignore[arg-type]
    assert table.added == [(FUSED.name, 5)]


def test_a_sample_is_left_out_where_no_copy_is_free(table: Table) -> None:
    one = Module()
    table.free = []
    step(Taps({id(one): FUSED}, table, 1, overlap=False, captured=False), (one, 5))  # type: ignore[arg-type]
    assert table.added == []
    assert table.copies == []


def test_the_block_is_that_of_the_layer_that_aligns(table: Table) -> None:
    one, two = Module(), Module()
    taps = Taps({id(one): FUSED, id(two): PLAIN}, table, 1, overlap=False, captured=False)  # type: ignore[arg-type]
    taps.begins(None, STEP)
    taps.routes(one, Tensor((5, 8)), None, topk_ids=Tensor((5, 2)))
    taps.aligns(Tensor((5, 2)), block_size=64, num_experts=5)
    taps.routed()
    taps.aligns(Tensor((5, 2)), 16, 4)  # of a layer that is none of ours: nobody's
    taps.routes(two, Tensor((5, 8)), None, Tensor((5, 2)))
    taps.routed()
    taps.ends()
    assert table.copies == [{0: (5, 2, 64), 1: (5, 2, -1)}]


def test_a_draft_s_layers_are_not_counted(table: Table) -> None:
    step(Taps({1: FUSED}, table, 1, overlap=False, captured=False), (Module(), 5))  # type: ignore[arg-type]
    assert table.added == []


# -- layers --------------------------------------------------------------------------------------------------------


def experts(name: str, *, shared: int = 0, monolithic: bool = False, kind: str = "RoutedExperts") -> Any:
    base = type("RoutedExperts", (), {})
    cls = base if kind == "RoutedExperts" else type(kind, (base,), {})
    made = cls()
    made.layer_name, made.global_num_experts = name, 128
    made.quant_method = SimpleNamespace(is_monolithic=monolithic)
    made.expert_map_manager = SimpleNamespace(num_fused_shared_experts=shared)
    return made


def test_layers_are_found_also_by_a_derived_class_and_monolithic_ones_are_named() -> None:
    parts = [experts("a", shared=1), experts("b", kind="SubstitutedRoutedExperts"), experts("c", monolithic=True)]
    layers, unseen = layers_of(SimpleNamespace(modules=lambda: parts))
    assert [layers[id(part)] for part in parts[:2]] == [Layer("a", 128, 1, 0), Layer("b", 128, 0, 1)]
    assert unseen == ["c"]
    assert bins(layers) == 131


def test_sparse_layers_that_reuse_have_no_choice_to_compare() -> None:
    kind = type("MiniMaxM3SparseAttention", (), {})
    parts = [kind() for _ in range(8)]
    for number, part in enumerate(parts):
        part.skip_index_topk, part.topk_indices_buffer, part.layer_name = number % 4 != 0, object(), f"layers.{number}"
    layers = sparse_layers_of(SimpleNamespace(modules=lambda: parts), 57)
    assert list(layers.values()) == [Layer("layers.0", 0, 0, 57), Layer("layers.4", 0, 0, 58)]


def test_tokens_are_the_metadata_s_and_none_in_a_profiling_run(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ModuleType("vllm.forward_context")
    monkeypatch.setitem(sys.modules, "vllm.forward_context", context)
    layer = SimpleNamespace(layer_name="layers.0")
    for metadata, expected in (({"layers.0": SimpleNamespace(num_actual_tokens=7)}, 7), (None, 0)):
        context._forward_context = SimpleNamespace(attn_metadata=metadata)  # type: ignore[attr-defined]
        assert taps_of.tokens_of(layer) == expected
