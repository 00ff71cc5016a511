"""Collectives counted once each: payload, group, backend by what ran inside, nothing twice, nothing lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from m3probe.collectors import _bytes_calls as calls_of
from m3probe.collectors._bytes_calls import Calls, Kind, tensor_bytes
from m3probe.collectors._bytes_kinds import BACKEND_OF, KINDS
from m3probe.collectors._now import NOW
from m3probe.collectors._patch import Patches
from m3probe.collectors._seams.bytes import BACKENDS, COLLECTIVES
from m3probe.schema.records import Collective
from m3probe.schema.roles import Stage


@dataclass(frozen=True)
class Tensor:
    """Rows of hidden 256 in float32, unless told otherwise."""

    rows: int
    width: int = 256
    dtype: str = "torch.float32"

    @property
    def nbytes(self) -> int:
        return self.rows * self.width * {"torch.float32": 4, "torch.bfloat16": 2, "torch.int64": 8}[self.dtype]


class Group:
    """Stands for GroupCoordinator: what it calls inside is what vLLM's calls."""

    torch_distributed_backend = "gloo"
    device_communicator = SimpleNamespace(all2all_manager=None)

    def __init__(self, name: str = "tp:0", ranks: int = 2) -> None:
        self.unique_name, self.world_size = name, ranks
        self.refused = False

    def all_reduce(self, tensor: Tensor) -> Tensor:
        return tensor

    def all_gather(self, tensor: Tensor, dim: int) -> Tensor:
        shm(tensor)
        return tensor

    def all_gatherv(self, tensors: list[Tensor], dim: int = 0, sizes: list[int] | None = None) -> list[Tensor]:
        pynccl(tensors)
        return tensors

    def dispatch(self, hidden: Tensor, weights: Tensor, ids: Tensor) -> list[Tensor]:
        return self.all_gatherv([hidden, weights, ids], 0)

    def recv(self, source: int) -> dict[str, Any]:
        got = {"hidden": Tensor(4), "meta": 7}
        self.all_gather(Tensor(4), 0)
        return got

    def fused(self, tensor: Tensor) -> Tensor | None:
        return None if self.refused else tensor

    def fails(self, tensor: Tensor) -> Tensor:
        raise RuntimeError("out of memory")


def shm(_tensors: Any) -> None: ...


def pynccl(_tensors: Any) -> None: ...


@cache
def group(name: str = "tp:0", ranks: int = 2) -> Group:
    """One object a group, as in vLLM."""
    return Group(name, ranks)


TP = group()
COMPILING: list[bool] = []
"""Not empty while Dynamo traces."""
FUSED = Kind("all_reduce", whole=True, fused=True, refuses=True, group=lambda: TP, backend="aiter")
SEEN = {
    "all_reduce": KINDS["comm_all_reduce"],
    "all_gather": KINDS["comm_all_gather"],
    "all_gatherv": KINDS["comm_all_gatherv"],
    "dispatch": KINDS["comm_dispatch"],
    "recv": Kind("recv_tensor_dict", payload="result"),
    "fused": FUSED,
    "fails": Kind("all_reduce"),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    compiler = ModuleType("torch.compiler")
    compiler.is_compiling = lambda: bool(COMPILING)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.compiler", compiler)
    patches = Patches()
    made, before = Calls(patches), dict(vars(Group))
    for name, kind in SEEN.items():
        patches.put(name, Group, name, made.watch(name, kind))
    for name, backend in (("shm", "shm"), ("pynccl", "pynccl")):
        patches.put(name, sys.modules[__name__], name, made.mark(name, backend))
    monkeypatch.setattr(NOW, "phase", "decode")
    monkeypatch.setattr(NOW, "descriptor", -1)
    monkeypatch.setattr(NOW, "stage", Stage.EAGER)
    yield made
    assert not patches.failed
    assert patches.undo() == ()
    assert dict(vars(Group)) == before


def brief(found: list[Collective]) -> list[tuple[str, str, int, str, int]]:
    return sorted((c.op, c.group, c.payload_bytes, c.backend, c.count) for c in found)


def test_equal_calls_are_one_record_with_their_count_and_the_payload_of_one(calls: Calls) -> None:
    for rows in (40, 1, 1, 1):
        for _ in range(5):  # a model of 2 layers on 2 ranks: embedding, and two in each layer
            group().all_reduce(Tensor(rows))
    found = calls.drain()
    assert brief(found) == [
        ("all_reduce", "tp:0", 1 * 256 * 4, "torch:gloo", 15),
        ("all_reduce", "tp:0", 40 * 256 * 4, "torch:gloo", 5),
    ]
    assert {(c.dtype, c.ranks, c.fused, c.phase, c.stage) for c in found} == {
        ("float32", 2, False, "decode", Stage.EAGER)
    }
    assert calls.drain() == []


def test_the_backend_is_the_communicator_that_ran_inside(calls: Calls) -> None:
    group().all_gather(Tensor(3, 512), 0)
    assert brief(calls.drain()) == [("all_gather", "tp:0", 6144, "shm", 1)]


def test_a_group_of_one_rank_moves_nothing(calls: Calls) -> None:
    group("dp:0", 1).all_reduce(Tensor(8))
    assert calls.drain() == []


def test_how_a_dispatch_is_done_is_not_counted_beside_it(calls: Calls) -> None:
    group("ep:0", 4).dispatch(Tensor(8, 256, "torch.bfloat16"), Tensor(8, 2), Tensor(8, 2, "torch.int64"))
    (one,) = calls.drain()
    # hidden 8 x 256 x 2 B, weights 8 x 2 x 4 B, ids 8 x 2 x 8 B
    assert (one.op, one.payload_bytes, one.backend, one.ranks, one.dtype) == (
        "dispatch",
        4096 + 64 + 128,
        "pynccl",
        4,
        "bfloat16",
    )


def test_an_all_gather_inside_of_a_receive_is_another_collective(calls: Calls) -> None:
    group("pp:0").recv(0)
    assert brief(calls.drain()) == [
        ("all_gather", "pp:0", 4096, "shm", 1),
        ("recv_tensor_dict", "pp:0", 4096, "torch:gloo", 1),
    ]


def test_a_fused_op_is_counted_once_as_fused_and_a_refused_one_not_at_all(calls: Calls) -> None:
    tp = Group()
    tp.fused(Tensor(2))
    tp.refused = True
    tp.fused(Tensor(2))
    (one,) = calls.drain()
    assert (one.op, one.fused, one.backend, one.payload_bytes, one.count) == ("all_reduce", True, "aiter", 2048, 1)


def test_a_call_that_raised_is_not_counted_and_hides_none_after_it(calls: Calls) -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        group().fails(Tensor(1))
    group().all_reduce(Tensor(1))
    assert brief(calls.drain()) == [("all_reduce", "tp:0", 1024, "torch:gloo", 1)]


def test_nothing_is_done_while_vllm_compiles(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "COMPILING", [True])
    assert group().all_gather(Tensor(1), 0) == Tensor(1)
    assert calls.drain() == []


def test_an_argument_of_another_shape_is_our_fault_and_not_vllms(calls: Calls) -> None:
    calls._patches.failed.clear()
    other = Group()
    del other.world_size
    assert other.all_reduce(Tensor(1)) == Tensor(1)
    assert calls._patches.failed == {"all_reduce": 1}
    calls._patches.failed.clear()


def test_threads_do_not_take_each_others_calls_for_nested_ones(calls: Calls) -> None:
    def work() -> None:
        for _ in range(2_000):
            group().all_reduce(Tensor(1))
            group().all_gather(Tensor(1), 0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert brief(calls.drain()) == [
        ("all_gather", "tp:0", 1024, "shm", 8_000),
        ("all_reduce", "tp:0", 1024, "torch:gloo", 8_000),
    ]


def test_capture_calls_carry_their_descriptor(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NOW, "stage", Stage.CAPTURE)
    for descriptor, rows in ((0, 16), (1, 8)):
        monkeypatch.setattr(NOW, "descriptor", descriptor)
        group().all_reduce(Tensor(rows))
    assert sorted((c.descriptor, c.payload_bytes, c.stage) for c in calls.drain()) == [
        (0, 16_384, Stage.CAPTURE),
        (1, 8_192, Stage.CAPTURE),
    ]


def test_many_sizes_in_a_second_are_summed_and_no_byte_is_lost(calls: Calls) -> None:
    rows = range(1, calls_of.MOST_SIZES + 11)
    for n in rows:
        group().all_reduce(Tensor(n))
    group().all_reduce(Tensor(1))
    found = calls.drain()
    assert len(found) == calls_of.MOST_SIZES + 1
    (rest,) = [c for c in found if c.payload_bytes < 0]
    assert rest.count == 10
    told = sum(c.payload_bytes * c.count for c in found if c.payload_bytes >= 0)
    assert told + rest.payload_sum_bytes == (sum(rows) + 1) * 1024


def test_what_does_not_fit_is_counted(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_of, "MOST_QUEUED", 3)
    for _ in range(5):
        group().all_reduce(Tensor(1))
    assert calls.drain()[0].count == 3
    assert calls.dropped == 2


@pytest.mark.parametrize(
    ("held", "size", "dtype"),
    [
        (Tensor(2), 2048, "torch.float32"),
        ([Tensor(1), 3, Tensor(1, 4, "torch.int64")], 1024 + 32, "torch.float32"),
        ({"a": Tensor(1), "b": "text"}, 1024, "torch.float32"),
        (({"a": Tensor(1)}, [], lambda: None), 1024, "torch.float32"),
        (None, 0, None),
    ],
    ids=["tensor", "list", "dict", "what irecv returns", "nothing"],
)
def test_bytes_are_those_of_the_tensors_within(held: Any, size: int, dtype: str | None) -> None:
    assert tensor_bytes(held) == (size, dtype)


def test_every_seam_of_a_collective_is_read_and_every_backend_has_a_name() -> None:
    assert KINDS.keys() == COLLECTIVES.keys()
    assert BACKEND_OF.keys() == BACKENDS.keys()
    words = {"shm", "quick", "aiter", "custom", "symm", "flashinfer", "pcie", "pynccl"}
    assert set(BACKEND_OF.values()) == words
