"""What a damaged or hostile trace says of names, arguments and ranks: ignored where it cannot be, never another's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel, launch, op, recording, step, write_trace
from hypothesis import given, settings
from hypothesis import strategies as some

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._checks import RANKS_LISTED, checks, missing_ranks
from m3probe.analyzers._comm_plane import payload_from
from m3probe.analyzers._compute_plane import operand_dtypes, weight_layout
from m3probe.analyzers._gemm_ops import is_gemm_op, shapes_of
from m3probe.analyzers._state_plane import writes_of
from m3probe.analyzers._tensors import arguments
from m3probe.kernels import grammar
from m3probe.model.recording import Recording
from m3probe.model.report import BytesSection, Report, ShapesSection
from m3probe.pipeline import inspect, report
from m3probe.present.inspect_text import inspect_text
from m3probe.present.json import inspect_json, report_json
from m3probe.present.text import report_text
from m3probe.rules import judge, load_rules
from m3probe.schema.verdicts import RuleOutcome
from m3probe.sources import open_recording

DECODE = "execute_context_0(0)_generation_2(2)"
BF16 = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
CACHE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)"
OPERATORS = {
    "aten::mm": GEMM,
    "aten::addmm": GEMM,
    "aten::copy_": "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>(int)",
    "vllm::moe_forward_shared": "fused_moe_kernel",
    "vllm::rocm_aiter_fused_moe": "ck_moe_stage1",
    "_moe_C::topk_sigmoid": "void vllm::moe::topkGating<4, 128, 4>(int)",
    "_C_cache_ops::reshape_and_cache_flash": CACHE,
    "_C::fused_minimax_m3_qknorm_rope_kv_insert": "fused_minimax_m3_qknorm_rope_kv_insert_kernel",
    "record_param_comms": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "c10d::allreduce_": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_C::scaled_fp8_quant": "void vllm::scaled_fp8_quant_kernel_strided<int>(int)",
}
"""Operators whose arguments some analyzer reads, and a kernel that each launches."""


def trace(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Two decode steps that call every operator with the same arguments, and a copy of the engine in each."""
    events: list[dict[str, Any]] = []
    for number in range(2):
        at, first = 1000.0 * (number + 1), 100 * (number + 1)
        events.append(step(at, 900.0, DECODE))
        for i, (operator, name) in enumerate(OPERATORS.items()):
            begin = at + 20 * i
            events += [op(begin, 9.0, operator, **said), launch(begin + 1, first + i)]
            events.append(kernel(begin + 5, 4.0, first + i, name, grid=said.get("grid"), block=said.get("block")))
        moved = kernel(at + 600, 2.0, first + 90, "Memcpy DtoD (Device -> Device)", bytes=said.get("bytes"))
        events += [launch(at + 590, first + 90, "hipMemcpyAsync"), {**moved, "cat": "gpu_memcpy"}]
    return events


def captured(said: dict[str, Any]) -> list[dict[str, Any]]:
    """The capture of a graph whose launches stand inside the same operators."""
    events = [step(0.0, 900.0, "capture_2_FULL"), launch(1.0, 0, "hipStreamBeginCapture")]
    for i, (operator, name) in enumerate(OPERATORS.items()):
        events.append(op(10.0 + 20 * i, 9.0, operator, **said))
        shape = {key: said.get(key) for key in ("grid", "block")}
        events.append(launch(12.0 + 20 * i, 0, "hipExtModuleLaunchKernel", kernel=name, **shape))
    return [*events, launch(800.0, 0, "hipStreamEndCapture")]


def replayed() -> list[dict[str, Any]]:
    """A step that replays that graph, of which no kernel was recorded, beside a kernel of its own."""
    return [
        step(5000.0, 900.0, DECODE),
        launch(5001.0, 9, "hipGraphLaunch"),
        launch(5010.0, 8),
        kernel(5020, 1, 8, "k"),
    ]


def written(found: Report) -> dict[str, Any]:
    """The report in both forms; no analyzer may have failed."""
    assert [(f.claim, f.where) for f in found.answer.findings if f.id.endswith(".failed")] == []
    assert report_text(found, 100, color=False)
    document: dict[str, Any] = json.loads(report_json(found), parse_constant=pytest.fail)
    return document


def inspected(rec: Recording) -> None:
    found = inspect(rec)
    told = [note.text for note in found.warnings]
    assert inspect_text(found.kind, found.outcome, found.facts, told)
    json.loads(inspect_json(found.kind, found.outcome, found.facts, told), parse_constant=pytest.fail)


# --- arguments that cannot be --------------------------------------------------------------------------------

NUMBERS = (-1, 0, 1, 2, 8, 2**31, 2**40, 2**40 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 1.5, 1e99, True)
ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.sampled_from(NUMBERS) | some.floats(allow_nan=False) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=2), inner, max_size=2),
    max_leaves=12,
)
SIZES = some.lists(some.lists(some.sampled_from(NUMBERS), max_size=5) | ANY_JSON, max_size=7)
WORDS = some.lists(
    some.sampled_from((BF16, "float", "long int", "Int", "", "c10::Float8_e4m3fn")) | ANY_JSON, max_size=7
)
WRONG = some.fixed_dictionaries(
    {},
    optional={
        "Input Dims": SIZES | ANY_JSON,
        "Input type": WORDS | ANY_JSON,
        "Input Strides": SIZES | ANY_JSON,
        "grid": ANY_JSON | some.lists(some.sampled_from(NUMBERS), max_size=4),
        "block": ANY_JSON | some.lists(some.sampled_from(NUMBERS), max_size=4),
        "bytes": ANY_JSON,
        "Collective name": some.sampled_from(("allreduce", "")) | ANY_JSON,
        "In msg nelems": some.sampled_from(NUMBERS) | ANY_JSON,
        "dtype": some.sampled_from(("BFloat16", "?")) | ANY_JSON,
        "Group size": some.sampled_from(NUMBERS) | ANY_JSON,
    },
)
WHOLE = (
    {"Input Dims": [[2, 64], [64, 32]], "Input type": [BF16, BF16], "Input Strides": [[64, 1], [1, 64]]},
    {
        "Input Dims": [[2, 64], [4, 64], [4, 64, 64]],
        "Input type": ["float", BF16, BF16],
        "Input Strides": [[64, 1], [64, 1]],
    },
    {"Input Dims": [[2, 1, 8], [2, 1, 8], [3, 4, 1, 8], [3, 4, 1, 8], [2]], "Input type": [BF16] * 4 + ["long int"]},
    {"Input Dims": [[2, 24], [8], [8], [3, 2, 4, 1, 8], [3, 4, 8]], "Input type": [BF16] * 5},
    {
        "Input Dims": [[2, 64]],
        "Input type": [BF16],
        "Collective name": "allreduce",
        "In msg nelems": 128,
        "dtype": "BFloat16",
    },
)
"""Arguments as they are for one of the operators each."""


@some.composite
def spoilt(draw: some.DrawFn) -> dict[str, Any]:
    """Sound arguments of which one value, or one place inside a list, is exchanged."""
    said: dict[str, Any] = json.loads(json.dumps(draw(some.sampled_from(WHOLE))))
    key = draw(some.sampled_from(sorted(said)))
    at, place = said, key
    while isinstance(at[place], list) and at[place] and draw(some.booleans()):
        at, place = at[place], draw(some.integers(0, len(at[place]) - 1))
    at[place] = draw(some.sampled_from(NUMBERS) | ANY_JSON)
    return said


GARBAGE = WRONG | spoilt() | spoilt()


@settings(max_examples=60, deadline=None)
@given(said=GARBAGE)
def test_no_analyzer_falls_over_what_an_operator_says(tmp_path_factory: pytest.TempPathFactory, said: Any) -> None:
    rec = recording(tmp_path_factory.mktemp("garbage"), trace(said))
    written(report(rec))
    inspected(rec)


@settings(max_examples=30, deadline=None)
@given(said=GARBAGE)
def test_no_analyzer_falls_over_what_a_census_says(tmp_path_factory: pytest.TempPathFactory, said: Any) -> None:
    where = tmp_path_factory.mktemp("census")
    (where / "capture_traces").mkdir()
    write_trace(where / "capture_traces" / "graph_capture_rank_0.1.pt.trace.json", captured(said))
    write_trace(where / "rank0.2.pt.trace.json", replayed())
    rec = open_recording([where])
    assert (rec.launches["graph"] != -1).sum() == 1
    written(report(rec))
    inspected(rec)


@settings(max_examples=300, deadline=None)
@given(dims=SIZES | ANY_JSON, types=WORDS | ANY_JSON, strides=SIZES | ANY_JSON)
def test_readers_of_arguments_take_any_json(dims: Any, types: Any, strides: Any) -> None:
    texts = [json.dumps(value) for value in (dims, types, strides)]
    for operator, name in OPERATORS.items():
        for shape in shapes_of(operator, *texts[:2]) if is_gemm_op(operator) else ():
            assert 0 < min(shape.M, shape.N, shape.K, shape.groups) <= max(shape.M, shape.N, shape.K) <= 2**41
        assert all(0 <= t.nbytes < 2**44 for t in arguments(*texts[:2]) if t.nbytes is not None)
        assert isinstance(weight_layout(operator, texts[0], texts[2]), str)
        assert isinstance(operand_dtypes(name, operator, *texts[:2]), str)
        writes_of(name, operator, *texts[:2])
        payload_from(operator, *texts[:2])


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "[", "nonsense", "5", '"[[1]]"', "{}", "null", ""])
def test_text_that_is_no_list_is_no_argument(text: str) -> None:
    assert arguments(text, text) == ()
    assert shapes_of("aten::mm", text, text) == ()
    assert weight_layout("aten::mm", "[[2, 3], [3, 4]]", text) == ""


@pytest.mark.parametrize("strides", [[5], [1, 5], [None, None], [[1, 2], 5], [[], {}], ["ab", "ab"], {"a": 1}, 5])
def test_strides_that_are_scalars_show_no_layout(strides: Any) -> None:
    assert weight_layout("aten::mm", "[[2, 3], [3, 4]]", json.dumps(strides)) == ""


def test_sizes_above_any_device_make_no_shape_and_no_bytes(tmp_path: Path) -> None:
    said = {"Input type": [BF16, BF16]}
    good = op(1000.0, 9.0, "aten::mm", [[2, 6144], [6144, 1536]], **said)
    bad = [
        op(1020.0 + 20 * i, 9.0, operator, dims, **said)
        for i, (operator, dims) in enumerate(
            (
                ("aten::mm", [[10**30, 6144], [6144, 1536]]),
                ("aten::mm", [[2**40 + 1, 6144], [6144, 1536]]),
                ("aten::mm", [[2**30, 2**30], [2**30, 2**30]]),
                ("aten::mm", [[True, 6144], [6144, 1536]]),
                ("aten::copy_", [[2**40, 2**40, 2**40], [1]]),
            )
        )
    ]
    events = [step(990.0, 900.0, DECODE), good, *bad]
    for i in range(1 + len(bad)):
        name = OPERATORS["aten::copy_"] if i == len(bad) else GEMM
        events += [launch(1001.0 + 20 * i, i + 1), kernel(1005.0 + 20 * i, 4.0, i + 1, name)]
    found = report(recording(tmp_path, events))
    written(found)
    shapes, planes = found.answer.section(ShapesSection), found.answer.section(BytesSection)
    assert shapes is not None
    assert planes is not None
    assert [(row.M, row.N, row.K, row.count) for row in shapes.shapes] == [(2, 1536, 6144, 1)]
    assert [row.bytes for row in planes.bytes.compute if row.what.startswith("copy kernel")] == [None]


def test_a_cache_write_of_no_width_is_not_told() -> None:
    dims = [[8, 0, 128], [8, 0, 128], [30, 128, 1, 128], [30, 128, 1, 128], [8]]
    types = json.dumps([BF16, BF16, BF16, BF16, "long int"])
    assert writes_of(CACHE, "_C_cache_ops::reshape_and_cache_flash", json.dumps(dims), types) is None


# --- names that are not there --------------------------------------------------------------------------------

LAST = "zzz_last_string c10d::allreduce_ router_gemm splitK DtoD minimax_m3 moe_forward prepare_varlen"
"""The text with the last id: whatever asks for id -1 by an index from the end gets it, and it looks like everything."""


def nameless(name: str | None) -> list[dict[str, Any]]:
    """Everything in two steps has no name but the steps."""
    events = trace({"Input Dims": [[2, 6144], [6144, 1536]], "Input type": [BF16, BF16]})
    for event in events:
        if event["cat"] != "user_annotation" and name is None:
            del event["name"]
        elif event["cat"] != "user_annotation":
            event["name"] = name
    return [*events, launch(9000.0, 0, LAST)]


@pytest.mark.parametrize("name", ["", None])
def test_what_has_no_name_takes_no_other_name(tmp_path: Path, name: str | None) -> None:
    rec = recording(tmp_path, nameless(name))
    found = report(rec)
    assert "zzz_last" not in json.dumps(written(found))
    assert "zzz_last" not in report_text(found, 200, color=False)
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nkernel = "zzz_last_string*"\nforbid = true\n'
        '[[rule]]\nkernel = "*zzz*"\nmin_count = 1\n[[rule]]\nkernel = "*"\nmax_count = 3\n'
    )
    judged = judge(load_rules(rules), rec, found.answer)
    assert [result.outcome for result in judged.results] == [RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.FAILED]
    assert not any("zzz" in result.observed + result.where for result in judged.results)
    assert "22 x (no name)" in judged.results[2].where
    facts = inspect(rec).facts
    assert facts["names"] == [""]


def test_a_kernel_called_null_keeps_its_name(tmp_path: Path) -> None:
    events = [step(10.0, 90.0, DECODE), launch(20.0, 1), kernel(30.0, 2.0, 1, "null"), launch(200.0, 0, LAST)]
    rec = recording(tmp_path, events)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkernel = "null"\nper_step = 1\n')
    judged = judge(load_rules(rules), rec, report(rec).answer)
    assert [result.outcome for result in judged.results] == [RuleOutcome.HOLDS]
    assert inspect(rec).facts["names"] == ["null"]


def test_replays_of_nameless_kernels_are_compared_by_none(tmp_path: Path) -> None:
    events = [step(10.0, 90.0, DECODE), launch(20.0, 1), kernel(30.0, 2.0, 1, ""), kernel(33.0, 2.0, 1, "", stream=1)]
    written(report(recording(tmp_path, events)))


# --- a world that cannot be ----------------------------------------------------------------------------------


def world(tmp_path: Path, size: int, *ranks: int) -> Recording:
    """A folder's recording in which every file says this world size."""
    for rank in ranks:
        events = [step(10.0, 90.0, DECODE), launch(20.0, 1), kernel(30.0, 2.0, 1, "k")]
        write_trace(tmp_path / f"rank{rank}.json", events, distributedInfo={"rank": rank, "world_size": len(ranks) + 1})
    rec = open_recording([tmp_path])
    return replace(rec, files=tuple(replace(file, world_size=size) for file in rec.files))


@pytest.mark.parametrize("size", [10**9, 10**30])
def test_a_world_of_any_size_is_counted_and_not_listed(tmp_path: Path, size: int) -> None:
    rec = world(tmp_path, size, 0, 5)
    (check,) = [check for check in checks(rec) if check.word == "missing_rank"]
    assert check.text == f"rank 1, 2, 3, 4, 6, 7, 8, 9, ... missing: {size - 2:,} of {size:,} ranks wrote no trace"
    facts = inspect(rec).facts
    assert facts["missing_rank_count"] == size - 2
    assert len(facts["missing_ranks"]) == RANKS_LISTED == 4_096
    assert facts["missing_ranks"][:6] == [1, 2, 3, 4, 6, 7]
    assert len(inspect_json("kineto", "ok", facts, ())) < 60_000


def test_missing_ranks_are_those_of_the_world(tmp_path: Path) -> None:
    rec = world(tmp_path, 4, 0, 2)
    assert missing_ranks(rec).first == (1, 3)
    assert (missing_ranks(rec).count, missing_ranks(rec).world) == (2, 4)
    # a rank outside of the world stands for none inside it
    beyond = replace(rec, files=(rec.files[0], replace(rec.files[1], rank=7)))
    assert missing_ranks(beyond).first == (1, 2, 3)


def test_a_whole_world_misses_nobody(tmp_path: Path) -> None:
    rec = world(tmp_path, 2, 0, 1)
    assert missing_ranks(rec).count == 0
    assert "missing_rank_count" not in inspect(rec).facts


# --- more names than anything keeps --------------------------------------------------------------------------


def test_a_name_is_read_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"triton_poi_fused_add_{i}" for i in range(70_000)]
    asked = 0
    first = grammar._first

    def counted(name: str, by: str) -> grammar.Kind | None:
        nonlocal asked
        asked += 1
        return first(name, by)

    monkeypatch.setattr(grammar, "_first", counted)
    grammar._classified.cache_clear()
    for _ in range(2):
        for name in names:
            assert grammar.classify(name) is grammar.classify(name, "")
    assert asked == len(names)


def test_devices_without_number_cost_no_square_of_time(tmp_path: Path) -> None:
    count = 60_000
    events = [kernel(100.0 + i, 0.5, i + 1, "k", device=i, stream=i) for i in range(count)]
    rec = recording(tmp_path, events)
    assert figures.busy_union_ns(rec) == 500 * count
    assert len(figures.busy_by_device(rec)) == len(np.unique(rec.kernels["device"])) == count
