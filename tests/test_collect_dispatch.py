"""Dispatch on all-reduce stand-ins: configured is not eligible is not executed, and each refusal has its number."""

from __future__ import annotations

from typing import Any

import pytest
from dispatch_kit import MIB, Communicator, Custom, Hooked, Nccl, Quick, Tensor, hooked, only

from m3probe.collectors._now import NOW
from m3probe.schema.roles import Stage

__all__ = ["hooked"]

HIDDEN = 6144
REDUCE = {
    "ask_quick": Quick,
    "ran_quick": Quick,
    "ask_custom_ar": Custom,
    "ran_custom_ar": Custom,
    "ran_nccl_ar": Nccl,
    "in_all_reduce": Communicator,
}


@pytest.fixture
def reduces(hooked: Hooked) -> Hooked:
    for seam, stand_in in REDUCE.items():
        hooked.seam(seam, stand_in)
    return hooked


def rows(count: int) -> Tensor:
    """Hidden states of MiniMax M3 in BF16: 12,288 B a row."""
    return Tensor((count, HIDDEN))


def test_a_payload_below_quick_reduce_s_smallest_is_refused_with_both_numbers(reduces: Hooked) -> None:
    """128 rows x 6,144 x 2 B = 1,572,864 B; TP4 INT4 in BF16 begins at 16 MiB = 16,777,216 B."""
    Communicator(Quick(), Custom()).all_reduce(rows(128))
    told = reduces.told()
    asked = [r for r in only(told, "quick_reduce") if r.seam == "ask_quick"]
    assert [(r.eligible, r.size, r.unit) for r in asked] == [(False, 1_572_864, "bytes")]
    assert asked[0].reason == "1,572,864 < 16,777,216 B, the smallest for INT4 (TP4, bfloat16)"
    ran = [r for r in only(told, "quick_reduce") if r.seam == "in_all_reduce"]
    assert [(r.variant, r.size, r.eligible) for r in ran] == [("vLLM", 1_572_864, None)]


def test_the_cast_to_float16_moves_the_threshold(reduces: Hooked) -> None:
    """With the cast (vLLM's default) the float16 line holds: 2 MiB, which 171 rows reach and 170 do not."""
    comm = Communicator(Quick(cast=True), Custom())
    comm.all_reduce(rows(170))
    comm.all_reduce(rows(171))
    asked = {r.eligible: r for r in reduces.told() if r.seam == "ask_quick"}
    assert asked[False].reason == "2,088,960 < 2,097,152 B, the smallest for INT4 (TP4, float16)"
    assert (asked[True].size, asked[True].reason) == (171 * 12_288, "")


@pytest.mark.parametrize(
    ("quick", "word"),
    [(Quick(least=0), "HIP INT4"), (Quick(least=0, flydsl=True), "FlyDSL INT4")],
    ids=["hip", "flydsl"],
)
def test_the_codec_that_ran_is_told_for_both_paths(reduces: Hooked, quick: Quick, word: str) -> None:
    Communicator(quick, Custom()).all_reduce(rows(16))
    ran = [r for r in reduces.told() if r.seam == "in_all_reduce"]
    assert {(r.path, r.variant, r.count) for r in ran} == {("quick_reduce", word, 1), ("custom_all_reduce", word, 1)}


def test_below_the_codec_s_own_threshold_quick_reduce_runs_uncompressed(reduces: Hooked) -> None:
    quick = Quick(least=0)
    quick.quantised_from = 256 * 1024
    comm = Communicator(quick, Custom())
    comm.all_reduce(rows(21))  # 258,048 B
    comm.all_reduce(rows(22))  # 270,336 B
    ran = {r.size: r.variant for r in only(reduces.told(), "quick_reduce") if r.seam == "in_all_reduce"}
    assert ran == {258_048: "HIP FP", 270_336: "HIP INT4"}


def test_what_neither_takes_goes_to_rccl(reduces: Hooked) -> None:
    """10 MiB at TP4: QuickReduce begins at 16 MiB, vLLM's custom all-reduce ends below 8 MiB (vLLM issue 53136)."""
    tensor = rows(10 * MIB // 12_288)
    Communicator(Quick(), Custom()).all_reduce(tensor)
    told = reduces.told()
    custom = [r for r in told if r.seam == "ask_custom_ar"]
    assert [r.reason for r in custom] == [f"{tensor.numel() * 2:,} >= 8,388,608 B, its limit"]
    assert {(r.path, r.variant) for r in told if r.seam == "in_all_reduce"} == {
        ("quick_reduce", "RCCL"),
        ("custom_all_reduce", "RCCL"),
    }


def test_all_reduces_of_other_groups_are_no_evidence(reduces: Hooked) -> None:
    Communicator(None, Custom(), name="ep:0").all_reduce(rows(4))
    assert [r for r in reduces.told() if r.seam == "in_all_reduce"] == []


def test_a_backend_that_is_not_known_is_not_called_the_one_before(reduces: Hooked) -> None:
    comm = Communicator(Quick(least=0), Custom())
    comm.all_reduce(rows(4))
    comm.qr_comm = comm.ca_comm = None
    comm.pynccl_comm = type("Other", (), {"all_reduce": lambda self, tensor: tensor})()
    comm.all_reduce(rows(4))
    words = [r.variant for r in only(reduces.told(), "custom_all_reduce") if r.seam == "in_all_reduce"]
    assert words == ["HIP INT4", "torch.distributed"]


def test_calls_are_counted_by_phase_descriptor_and_stage(reduces: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    comm = Communicator(None, Custom())
    for phase, descriptor, stage, calls in (
        ("decode", 3, Stage.CAPTURE, 120),
        ("prefill", -1, Stage.EAGER, 121),
        ("prefill", -1, Stage.TWIN, 1),
    ):
        for name, value in (("phase", phase), ("descriptor", descriptor), ("stage", stage)):
            monkeypatch.setattr(NOW, name, value)
        for _ in range(calls):
            comm.all_reduce(rows(4))
    told = [r for r in only(reduces.told(), "custom_all_reduce") if r.seam == "in_all_reduce"]
    assert {(r.phase, r.descriptor, r.stage): r.count for r in told} == {
        ("decode", 3, Stage.CAPTURE): 120,
        ("prefill", -1, Stage.EAGER): 121,
        ("prefill", -1, Stage.TWIN): 1,
    }


def test_many_sizes_are_one_record_with_the_least_and_the_most(reduces: Hooked) -> None:
    comm = Communicator(Quick(), Custom())
    for count in (1, 7, 128):
        comm.all_reduce(rows(count))
    told = reduces.told()
    (asked,) = [r for r in told if r.seam == "ask_quick"]
    assert (asked.count, asked.size) == (3, -1)
    assert asked.facts == {"sizes": 3, "least": 12_288, "most": 1_572_864}
    assert asked.reason == "1,572,864 < 16,777,216 B, the smallest for INT4 (TP4, bfloat16)"
    assert reduces.told() == []


def test_nothing_is_asked_while_dynamo_traces(reduces: Hooked) -> None:
    reduces.compiling = True
    Communicator(Quick(), Custom()).all_reduce(rows(4))
    assert reduces.told() == []


def test_a_draft_s_calls_are_apart(reduces: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    comm: Any = Communicator(None, Custom())
    comm.all_reduce(rows(4))
    monkeypatch.setattr(NOW, "is_draft", True)
    comm.all_reduce(rows(4))
    told = [r for r in only(reduces.told(), "custom_all_reduce") if r.seam == "in_all_reduce"]
    assert [(r.count, r.facts) for r in told] == [(1, {}), (1, {"draft": True})]
