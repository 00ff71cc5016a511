"""The byte planes: widths by hand on small traces, sums by plain integers on real ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, recording, step
from tree import shared_or_skip

from m3probe.analyzers import bytes as bytes_question
from m3probe.analyzers import trust
from m3probe.analyzers._compute_plane import operand_dtypes, weight_layout
from m3probe.analyzers._state_plane import writes_of
from m3probe.analyzers._tensors import arguments, cache_dtype
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BytePlanes, BytesSection, PlaneRow
from m3probe.sources import open_recording

DECODE = "execute_context_0(0)_generation_8(8)"
BF16, FP32, INT64 = "c10::BFloat16", "float", "long int"
CACHE_KERNEL = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, {}, (vllm::Fp8KVCacheDataType){}>(int)"
BF16_CACHE = CACHE_KERNEL.format("__nv_bfloat16", 0)
FLASH = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int)"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>(int)"
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
INSERT_ARGS = ([[8, 1, 128], [8, 1, 128], [30, 128, 1, 128], [30, 128, 1, 128], [8]], [BF16, BF16, BF16, BF16, INT64])
BLOCK = 2 * 128 * 1 * 128 * 2
"""K and V of one block of 128 tokens, one head of 128, two bytes each: 65,536."""


def judged(rec: Recording) -> tuple[BytePlanes, dict[str, Finding]]:
    before = trust.ANALYZER.judge(rec, Answer())
    answer = bytes_question.ANALYZER.judge(rec, before)
    section = answer.section(BytesSection)
    assert section is not None
    return section.bytes, {f.id: f for f in answer.findings}


class Trace:
    """A step built launch by launch, each 10 us after the one before."""

    def __init__(self, said: str = DECODE) -> None:
        self.events: list[dict[str, Any]] = [step(100, 900, said)]
        self.at, self.correlation = 100.0, 1

    def run(self, name: str, operator: str = "", dims: Any = None, types: Any = None, **args: Any) -> Trace:
        """A kernel, inside an operator when one is given."""
        if operator:
            self.events.append(op(self.at, 8, operator, dims, types, **args))
        self.events += [launch(self.at + 1, self.correlation), kernel(self.at + 5, 2.0, self.correlation, name)]
        return self._next()

    def move(self, name: str, nbytes: int, *around: str) -> Trace:
        """A memcpy inside of operators."""
        for i, operator in enumerate(around):
            self.events.append(op(self.at + i * 0.1, 8 - i, operator, [[nbytes // 2]], [BF16]))
        copy = kernel(self.at + 5, 3.0, self.correlation, name, bytes=nbytes) | {"cat": "gpu_memcpy"}
        self.events += [launch(self.at + 1, self.correlation, "hipMemcpyAsync"), copy]
        return self._next()

    def _next(self) -> Trace:
        self.at, self.correlation = self.at + 10, self.correlation + 1
        return self

    def insert(self) -> Trace:
        """Eight rows into a BF16 cache with one KV head."""
        return self.run(BF16_CACHE, "_C_cache_ops::reshape_and_cache_flash", *INSERT_ARGS)


def line(rows: tuple[PlaneRow, ...], what: str) -> PlaneRow:
    found = [row for row in rows if row.what == what]
    assert len(found) == 1, f"{what}: {len(found)} lines among {[row.what for row in rows]}"
    return found[0]


# --- state ---------------------------------------------------------------------------------------------------


def test_a_cache_write_is_rows_times_heads_times_dim_times_two(tmp_path: Path) -> None:
    planes, found = judged(recording(tmp_path, Trace().insert().insert().events))
    row = line(planes.state, "KV write, decode")
    assert (row.count, row.bytes, row.time_ns) == (2, 2 * 8 * (1 * 128 * 2 * 2), 4000)
    assert (row.dtype, row.layout, row.evidence) == ("bf16", "K and V apart, [30, 128, 1, 128] each", "kernels")
    assert found["bytes.cache_writes.decode"].claim == "decode: KV write 8,192 B per step"


def test_padding_rows_write_nothing(tmp_path: Path) -> None:
    """The operator is given 8 rows of which the step has 5: slot -1 is skipped by the kernel."""
    events = Trace("execute_context_0(0)_generation_5(5)").insert().events
    assert line(judged(recording(tmp_path, events))[0].state, "KV write, decode").bytes == 5 * 512


def test_the_fused_insert_writes_two_caches_of_one_launch() -> None:
    dims = [[8, 2560], [128], [128], [65536, 64], [8], *[[]] * 4, [128], [128], [], [8], [8]]
    dims += [[3000, 2, 128, 1, 128], [3000, 128, 128], [], [8, 2048], [8, 128], []]
    types = [BF16] * 4 + [INT64] + ["Scalar"] * 4 + [BF16, BF16, "Scalar", INT64, INT64, BF16, BF16, "Scalar"]
    types += [BF16, BF16, ""]
    name = "_C::fused_minimax_m3_qknorm_rope_kv_insert"
    kv, index = writes_of("fusedMiniMaxM3QNormRopeKVInsertKernel", name, json.dumps(dims), json.dumps(types)) or ()
    assert (kv.what, kv.bytes_per_row, kv.block_bytes, kv.rows) == ("KV write", 2 * 1 * 128 * 2, 65536, 8)
    assert (index.what, index.bytes_per_row, index.dtype) == ("index write", 128 * 2, "bf16")


def test_a_dense_layers_fused_rope_writes_no_cache() -> None:
    dims = json.dumps([[8, 2304], [128], [128], [65536, 64], [8], *[[]] * 15])
    types = json.dumps([BF16] * 4 + [INT64] + [""] * 15)
    assert (
        writes_of("fusedMiniMaxM3QNormRopeKVInsertKernel", "_C::fused_minimax_m3_qknorm_rope_kv_insert", dims, types)
        == ()
    )


def test_rope_alone_writes_no_cache_and_an_unknown_insert_is_not_told() -> None:
    assert writes_of("void vllm::rotary_embedding_kernel<float>(int)", "_C::rotary_embedding", "", "") == ()
    assert writes_of("_insert_index_cache_kernel", "", "", "") is None
    assert writes_of(BF16_CACHE, "", "", "") is None


def test_a_cache_in_an_unread_form_is_not_told() -> None:
    dims = json.dumps([[8, 2560], [128], [3000, 1, 16, 128, 8, 2]])
    types = json.dumps([BF16, BF16, BF16])
    assert writes_of("k", "_C::fused_minimax_m3_qknorm_rope_kv_insert", dims, types) is None


@pytest.mark.parametrize(
    ("element", "kind", "dtype"),
    [
        ("__nv_bfloat16", 0, "bf16"),
        ("__hip_bfloat16", 0, "bf16"),
        ("unsigned char", 1, "fp8_e4m3"),
        ("unsigned char", 2, "fp8_e5m2"),
        ("__half", 0, "fp16"),
    ],
)
def test_the_template_of_a_cache_kernel_tells_the_caches_dtype(element: str, kind: int, dtype: str) -> None:
    assert cache_dtype(CACHE_KERNEL.format(element, kind)) == dtype


def test_an_fp8_cache_is_one_byte_and_its_scales_are_not_provable(tmp_path: Path) -> None:
    dims, _ = INSERT_ARGS
    types = [BF16, BF16, "unsigned char", "unsigned char", INT64]
    name = CACHE_KERNEL.format("unsigned char", 1)
    events = Trace().run(name, "_C_cache_ops::reshape_and_cache_flash", dims, types).events
    planes, _ = judged(recording(tmp_path, events))
    row = line(planes.state, "KV write, decode")
    assert (row.bytes, row.dtype) == (8 * 256, "fp8_e4m3")
    assert any("FP8 scales" in text for text in planes.not_provable)


def test_a_write_whose_arguments_are_hidden_is_counted_and_has_no_bytes(tmp_path: Path) -> None:
    planes, found = judged(recording(tmp_path, Trace().run(BF16_CACHE).events))
    row = line(planes.state, "KV write, decode")
    assert (row.count, row.bytes, row.dtype, row.layout) == (1, None, "bf16", "not told")
    assert "bytes of 1 cache writes in decode: launched outside of any recorded operator" in planes.not_provable
    assert "bytes.cache_writes.decode" not in found


# --- could metadata move instead? -----------------------------------------------------------------------------


def between(tmp_path: Path, trace: Trace) -> Finding | None:
    return judged(recording(tmp_path, trace.events))[1].get("bytes.metadata_could_move")


def test_a_block_copied_between_insert_and_attend_could_be_metadata(tmp_path: Path) -> None:
    trace = Trace().insert().move("Memcpy DtoD (Device -> Device)", 2 * BLOCK, "aten::copy_").run(FLASH)
    found = between(tmp_path, trace)
    assert found is not None
    assert found.claim == (
        "1 copies of at least one KV block (65,536 B) between cache insert and attend "
        "moved 131,072 B in 3,000 ns in 1 steps"
    )
    assert found.bound is not None
    # kernels at 105 and 125 us, the copy at 115: the step's GPU work spans 105 to 127 us
    assert found.bound.high == pytest.approx(3 / 22)
    assert found.bound.basis == "decode step time"
    assert [(e.table, e.count) for e in found.evidence] == [("transfers", 1)]


def test_a_copy_kernel_counts_by_what_it_writes(tmp_path: Path) -> None:
    def trace(elements: int) -> Trace:
        dims = [[elements], [elements], []]
        return Trace().insert().run(COPY, "aten::copy_", dims, [BF16, FP32, "Scalar"]).run(FLASH)

    found = between(tmp_path, trace(BLOCK // 2))
    assert found is not None
    assert [(e.table, e.count) for e in found.evidence] == [("kernels", 1)]
    assert between(tmp_path, trace(BLOCK // 2 - 1)) is None, "smaller than one block"


@pytest.mark.parametrize(
    "order",
    ["copy insert attend", "insert attend copy", "insert gemm copy attend", "insert copy gemm attend", "insert copy"],
)
def test_copies_elsewhere_in_a_step_are_no_such_finding(tmp_path: Path, order: str) -> None:
    trace = Trace()
    for word in order.split():
        if word == "copy":
            trace.move("Memcpy DtoD (Device -> Device)", 2 * BLOCK, "aten::copy_")
        elif word == "insert":
            trace.insert()
        else:
            trace.run({"attend": FLASH, "gemm": GEMM}[word])
    assert between(tmp_path, trace) is None


def test_copies_from_the_host_are_not_the_kv_cache_moving(tmp_path: Path) -> None:
    assert between(tmp_path, Trace().insert().move("Memcpy HtoD (Host -> Device)", 2 * BLOCK).run(FLASH)) is None


def test_a_copy_of_unknown_size_is_not_provable(tmp_path: Path) -> None:
    planes, found = judged(recording(tmp_path, Trace().insert().run("memcpy32_post").run(FLASH).events))
    assert "bytes.metadata_could_move" not in found
    assert "bytes of 1 copies between insert and attend: no operator shows what they copied" in planes.not_provable


def test_without_a_cache_argument_no_block_is_known(tmp_path: Path) -> None:
    trace = Trace().run(BF16_CACHE).move("Memcpy DtoD (Device -> Device)", 2 * BLOCK).run(FLASH)
    planes, found = judged(recording(tmp_path, trace.events))
    assert "bytes.metadata_could_move" not in found
    assert any("how large a block is" in text for text in planes.not_provable)


# --- communication ---------------------------------------------------------------------------------------------


def test_a_collectives_payload_is_its_elements_times_its_dtype(tmp_path: Path) -> None:
    args = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "BFloat16", "Group size": 8}
    trace = Trace().run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)", "record_param_comms", [[1000]], [BF16], **args)
    row = line(judged(recording(tmp_path, trace.events))[0].comm, "allreduce (comm.rccl), decode")
    assert (row.count, row.bytes, row.dtype, row.layout) == (1, 2000, "bf16", "2,000 B a call, 8 ranks")


def test_a_collective_without_its_operator_has_no_payload(tmp_path: Path) -> None:
    name = "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>(int)"
    planes, _ = judged(recording(tmp_path, Trace().run(name).events))
    (row,) = planes.comm
    assert (row.count, row.bytes) == (1, None)
    assert "payloads of 1 collectives: 1 launched outside of any recorded operator" in planes.not_provable


def collective(tmp_path: Path, around: str, dims: Any, types: Any, inner: Any) -> tuple[PlaneRow, tuple[str, ...]]:
    """An NCCL kernel in record_param_comms, that in a c10d operator; ``inner``: what record_param_comms was given."""
    trace = Trace()
    trace.events.append(op(trace.at - 1, 9, around, dims, types))
    trace.run("ncclDevKernel_SendRecv(int)", "record_param_comms", *inner)
    planes, _ = judged(recording(tmp_path, trace.events))
    (row,) = planes.comm
    return row, planes.not_provable


def test_without_the_collectives_own_words_its_first_tensor_is_the_payload(tmp_path: Path) -> None:
    """PyTorch hands record_param_comms the inputs; the operator around it says what they are for."""
    inner = ([[65536, 384], [], []], ["float", "Scalar", ""])
    row, untold = collective(tmp_path, "c10d::_reduce_scatter_base_", [[8192, 384], [65536, 384]], ["float"] * 2, inner)
    assert row.what == "reduce_scatter_base (comm.rccl), decode"
    assert (row.bytes, row.dtype) == (65536 * 384 * 4, "fp32")
    assert not any("payloads" in text for text in untold)


@pytest.mark.parametrize(
    ("around", "nbytes"),
    [
        ("c10d::_allgather_base_", 100 * 2),  # (output, input)
        ("c10d::_reduce_scatter_base_", 100 * 2),
        ("c10d::alltoall_base_", 100 * 2),
        ("vllm::all_gather", 800 * 2),  # (input, ...)
    ],
)
def test_the_payload_is_the_input_wherever_the_operator_puts_it(tmp_path: Path, around: str, nbytes: int) -> None:
    row, _ = collective(tmp_path, around, [[800], [100]], [BF16, BF16], ([[], []], ["TensorList", ""]))
    assert row.bytes == nbytes


def test_a_list_of_tensors_shows_no_size_and_that_is_the_reason(tmp_path: Path) -> None:
    lists = ([[], [], []], ["TensorList", "Scalar", ""])
    row, untold = collective(tmp_path, "c10d::allreduce_", *lists, lists)
    assert (row.what, row.bytes) == ("allreduce (comm.rccl), decode", None)
    assert "payloads of 1 collectives: 1 inside c10d::allreduce_, which shows no size" in untold


def test_replayed_and_unlinked_collectives_say_so(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)"
    events = [step(100, 900, DECODE), launch(101, 5, "cudaGraphLaunch"), kernel(110, 2.0, 5, name)]
    events += [kernel(120, 2.0, 0, name), kernel(130, 2.0, 0, name)]
    planes, _ = judged(recording(tmp_path, events))
    (said,) = [text for text in planes.not_provable if text.startswith("payloads")]
    assert said == ("payloads of 3 collectives: 2 without a recorded launch; 1 replayed from a graph without a census")


def test_a_bound_is_a_share_of_step_time_and_none_where_the_copies_are_in_other_steps(tmp_path: Path) -> None:
    """A copy that runs beside a kernel frees no time: 3 us of copies, 1 us of them alone, of 21 us."""
    trace = Trace().run(GEMM).move("Memcpy DtoD (Device -> Device)", 4096, "vllm::all_reduce")  # 105-107, 115-118
    trace.events += [launch(121, 77), kernel(116, 10.0, 77, FLASH, stream=9)]  # 116-126 on another stream
    bound = judged(recording(tmp_path, trace.events))[1]["bytes.comm_copies"].bound
    assert bound is not None
    assert (bound.high, bound.basis) == (pytest.approx(1 / 21), "decode step time")
    prefill = Trace("execute_context_1(4)_generation_0(0)").move("Memcpy DtoD (A -> B)", 4096, "vllm::all_reduce")
    decode = [step(2000, 90, DECODE), launch(2001, 500), kernel(2010, 5.0, 500, GEMM)]
    found = judged(recording(tmp_path, prefill.events + decode))[1]["bytes.comm_copies"]
    assert found.bound is None


def test_no_collective_is_said_and_proves_nothing(tmp_path: Path) -> None:
    planes, _ = judged(recording(tmp_path, Trace().run(GEMM).events))
    assert planes.comm == ()
    assert any(text.startswith("communication: no collective") for text in planes.not_provable)


def test_copies_inside_a_collective_belong_to_the_communication_plane(tmp_path: Path) -> None:
    trace = Trace().move("Memcpy DtoD (Device -> Device)", 4096, "vllm::all_reduce", "aten::copy_")
    trace.move("Memcpy DtoD (Device -> Device)", 512, "aten::copy_")
    planes, found = judged(recording(tmp_path, trace.events))
    assert line(planes.comm, "memcpy DtoD in collectives, decode").bytes == 4096
    assert line(planes.compute, "memcpy DtoD, decode").bytes == 512
    assert found["bytes.comm_copies"].claim.startswith("1 copies inside collectives moved 4,096 B in 3,000 ns")


# --- compute ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operator", "dtypes"),
    [
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "vllm::moe_forward", "bf16 x mxfp4"),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_dynBatch_sm100f", "vllm::moe_forward", "mxfp8 x mxfp4"),
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_dynBatch_sm100f", "vllm::moe_forward", "mxfp8 x mxfp4"),
        ("flydsl_moe1_afp8_wfp4_bf16_t32x128x256", "vllm::rocm_aiter_fused_moe", "fp8 x fp4"),
        ("fused_moe_kernel", "vllm::moe_forward", "bf16 x ?"),
        (GEMM, "aten::mm", "bf16 x bf16"),
    ],
)
def test_dtypes_of_a_gemm_come_from_its_name_or_its_operator(name: str, operator: str, dtypes: str) -> None:
    dims, types = json.dumps([[8, 64], [64, 32]]), json.dumps([BF16, BF16])
    assert operand_dtypes(name, operator, dims, types) == dtypes


def test_a_gemm_without_operator_has_no_dtype() -> None:
    assert operand_dtypes(GEMM, "", "", "") == ""


def test_the_contiguous_side_of_a_weight_is_read_from_its_strides() -> None:
    dims = json.dumps([[8, 64], [64, 32]])
    assert weight_layout("aten::mm", dims, "[[64, 1], [1, 64]]") == "weight: K contiguous"
    assert weight_layout("aten::mm", dims, "[[64, 1], [32, 1]]") == "weight: N contiguous"
    assert (
        weight_layout("aten::linear", json.dumps([[8, 64], [32, 64]]), "[[64, 1], [64, 1]]") == "weight: K contiguous"
    )
    assert weight_layout("aten::mm", dims, "") == ""
    assert weight_layout("vllm::moe_forward", dims, "[[64, 1], [1, 64]]") == ""


def test_arguments_that_no_json_tells_are_none() -> None:
    assert arguments("", "") == ()
    assert arguments("[[8", "[") == ()
    (scalar, tensor, unknown) = arguments("[[], [2, 3], [4]]", '["Scalar", "c10::Half", "c10::Future8"]')
    assert (scalar.nbytes, tensor.nbytes, unknown.nbytes) == (None, 12, None)


def test_a_memcpy_without_bytes_is_a_line_of_its_own(tmp_path: Path) -> None:
    trace = Trace().move("Memcpy DtoD (Device -> Device)", 64)
    silent = kernel(500, 3.0, 77, "Memcpy DtoD (Device -> Device)") | {"cat": "gpu_memcpy"}
    events = [*trace.events, launch(490, 77, "hipMemcpyAsync"), silent]
    rows = [r for r in judged(recording(tmp_path, events))[0].compute if r.what == "memcpy DtoD, decode"]
    assert sorted((r.count, r.bytes) for r in rows if r.bytes is not None) == [(1, 64)]
    assert [r.count for r in rows if r.bytes is None] == [1]


# --- real traces -----------------------------------------------------------------------------------------------


def plain_events(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data))["traceEvents"]
    assert isinstance(events, list)
    return events


def test_h200_eager_writes_by_hand(tmp_path: Path) -> None:
    """9 layers x 8 rows x 1 head x 128 x 2 x 2 B a decode step, and 128 x 2 B of index key in 6 of the layers."""
    planes, found = judged(open_recording([shared_or_skip("traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz")]))
    assert found["bytes.cache_writes.decode"].claim == (
        f"decode: KV write {9 * 8 * 512:,} B per step and index write {6 * 8 * 256:,} B per step"
    )
    assert found["bytes.cache_writes.prefill"].claim == (
        f"prefill: KV write {9 * 4000 * 512:,} B per step and index write {6 * 4000 * 256:,} B per step"
    )
    decode = [r for r in planes.state if r.what == "KV write, decode"]
    assert sorted((r.count, r.bytes, r.layout) for r in decode) == [
        (3 * 9, 3 * 9 * 8 * 512, "K and V apart, [3000, 128, 1, 128] each"),
        (6 * 9, 6 * 9 * 8 * 512, "K, V [3000, 2, 128, 1, 128]"),
    ]
    assert line(planes.state, "index write, decode").bytes == 54 * 8 * 256
    # The MoE input is copied once per layer and step, after the attend: no KV block moves.
    assert "bytes.metadata_could_move" not in found


def test_h200_graph_proves_prefill_and_not_decode() -> None:
    planes, found = judged(open_recording([shared_or_skip("traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz")]))
    assert "bytes.cache_writes.prefill" in found
    assert "bytes.cache_writes.decode" not in found
    row = line(planes.state, "KV write, decode")
    assert (row.count, row.bytes, row.dtype) == (9 * 9, None, "bf16")
    assert "bytes of 81 cache writes in decode: replayed from a graph without a census" in planes.not_provable


def test_memcpy_of_the_h200_trace_agrees_with_a_recount() -> None:
    path = shared_or_skip("traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz")
    truth: dict[str, int] = {}
    for e in plain_events(path):
        if e.get("cat") in ("gpu_memcpy", "gpu_memset"):
            word = "memset" if e["name"].startswith("Memset") else f"memcpy {e['name'].split()[1]}"
            truth[word] = truth.get(word, 0) + e["args"]["bytes"]
    found: dict[str, int] = {}
    for row in judged(open_recording([path]))[0].compute:
        if row.what.startswith("mem"):
            word = row.what.split(",")[0]
            found[word] = found.get(word, 0) + (row.bytes or 0)
    assert found == truth


def test_b200_all_reduce_and_its_staging_copies() -> None:
    path = shared_or_skip("traces/tracelens/b200/eager_trace.json.gz")
    planes, found = judged(open_recording([path]))
    reduced = [r for r in planes.comm if r.what.startswith("multimem_all_reduce")]
    payload = (37 * 888 * 2880 + 36 * 888 * 3072) * 2
    assert sum(r.count for r in reduced) == 73
    assert sum(r.bytes or 0 for r in reduced) == payload
    staged = [e for e in plain_events(path) if e.get("cat") == "gpu_memcpy" and "DtoD" in e["name"]]
    moved = line(planes.comm, "memcpy DtoD in collectives, prefill")
    assert (moved.count, moved.bytes) == (146, sum(e["args"]["bytes"] for e in staged))
    assert moved.bytes == 2 * payload, "in and out of the symmetric buffer"
    # one prefill step of 84,487,178 ns from its first GPU event to its last; no copy overlaps a kernel
    bound = found["bytes.comm_copies"].bound
    assert bound is not None
    assert bound.high == pytest.approx(sum(round(e["dur"] * 1000) for e in staged) / 84_487_178)
    assert round(bound.high, 4) == 0.0092
    gathered = line(planes.comm, "allgather_base (comm.rccl), prefill")
    assert (gathered.bytes, gathered.layout) == (25136 * 2, "50,272 B a call, 8 ranks")
    written = line(planes.state, "KV write, prefill")
    assert (written.bytes, written.dtype) == (36 * 888 * 1 * 64 * 2, "fp8_e4m3")


@pytest.mark.parametrize(
    ("folder", "phase", "rows"),
    [("vllm_decode_full", "decode", 32), ("vllm_prefilldecode_piecewise", "mixed", 8192)],
)
def test_mi300x_writes_by_hand(folder: str, phase: str, rows: int) -> None:
    """24 layers, 8 heads of 64, K and V, two bytes."""
    planes, _ = judged(open_recording([shared_or_skip(f"traces/tracelens/inference/{folder}")]))
    row = line(planes.state, f"KV write, {phase}")
    assert (row.count, row.bytes) == (24, 24 * rows * 8 * 64 * 2 * 2)
    assert row.layout == "K and V apart, [224304, 32, 8, 64] each"
    experts = line(planes.compute, f"MoE GEMM, {phase}")
    assert (experts.count, experts.dtype) == (48, "bf16 x mxfp4")


def test_collectives_of_a_training_trace_have_the_payloads_of_their_operators() -> None:
    """75 of 80 NCCL kernels stand inside c10d operators; 10 of those are all-reduces of a list, which shows no size."""
    planes, _ = judged(open_recording([shared_or_skip("traces/hta/negative_queue_length_values_check")]))
    rows = [r for r in planes.comm if r.what.startswith("reduce_scatter_base")]
    assert sorted((r.count, r.bytes) for r in rows) == [(5, 5 * 65536 * 64 * 4), (5, 5 * 65536 * 384 * 4)]
    assert sum(r.count for r in planes.comm if "comm.rccl" in r.what) == 80
    assert sum(r.count for r in planes.comm if "comm.rccl" in r.what and r.bytes is None) == 15
    assert any(
        text
        == "payloads of 15 collectives: 10 inside c10d::allreduce_, which shows no size; 5 without a recorded launch"
        for text in planes.not_provable
    )
