"""What a loaded model says was selected, and when the hooks of dispatch are on: between load and capture, and armed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dispatch_kit import MIB, Communicator, Custom, Hooked, Quick, Tensor, hooked
from steps_kit import Told

from m3probe.collectors import _dispatch_look as look
from m3probe.collectors._now import NOW
from m3probe.collectors.dispatch import COLLECTOR, Dispatches
from m3probe.schema.records import Dispatch, Note, Seam
from m3probe.schema.roles import Role, Stage

__all__ = ["hooked"]


def module(kind: str, **held: Any) -> Any:
    return type(kind, (), held)()


class Model:
    """``modules()`` of torch, and the wrapper of compiled code."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def modules(self) -> Iterator[Any]:
        yield self
        yield from self.parts


def sparse(
    *, skip: bool = False, impl: str = "MiniMaxM3SparseAiterPAImpl", indexer: str = "MiniMaxM3IndexerMSAImpl"
) -> Any:
    index = type(indexer, (), {"__module__": "vllm.models.minimax_m3.amd.indexer_msa"})()
    return module(
        "MiniMaxM3SparseAttention",
        impl=module(impl),
        skip_index_topk=skip,
        indexer=SimpleNamespace(impl=index),
        indexer_cp=False,
    )


def chosen(told: list[Dispatch]) -> dict[tuple[str, str], int]:
    assert {record.stage for record in told} == {Stage.LOAD}
    return {(record.path, record.variant): record.count for record in told}


def test_a_model_says_how_many_of_its_layers_chose_what() -> None:
    """Frequency 4 over 57 sparse layers: 15 choose, 42 reuse."""
    layers = [sparse(skip=n % 4 != 0) for n in range(57)]
    moe = [module("MiniMaxM3MoE", is_fused_shared_expert_enabled=True, use_aiter_moe_fse=True) for _ in range(57)]
    assert chosen(look.of_model(Model(*layers, *moe))) == {
        ("sparse_attention", "AITER page-16"): 57,
        ("aiter_sparse_pa", "AITER page-16"): 57,
        ("index_reuse", "every layer chooses"): 15,
        ("index_reuse", "reuse"): 42,
        ("indexer", "FP8 (AITER, MSA)"): 57,
        ("shared_expert_fusion", "fused"): 57,
    }


def test_a_shared_expert_of_its_own_is_unfused_also_where_no_switch_says_so() -> None:
    """0.24 has neither attribute: the layer holds the MLP or not."""
    told = look.of_model(Model(module("MiniMaxM3MoE", shared_experts=object())))
    assert chosen(told) == {("shared_expert_fusion", "separate MLP"): 1}


def test_a_native_linear_that_kept_bf16_weights_is_emulation() -> None:
    def linear(kernel: str, dtype: str) -> Any:
        method = SimpleNamespace(kernel=module(kernel))
        return module("ColumnParallelLinear", quant_method=method, weight=Tensor((8, 96), dtype))

    native, emulated = "RocmDotScaledMxfp8LinearKernel", "EmulationMxfp8LinearKernel"
    model = Model(linear(native, "float8_e4m3fn"), linear(native, "bfloat16"), linear(emulated, "bfloat16"))
    assert {(r.variant, r.facts["kernel"]) for r in look.of_model(model)} == {
        ("native", native),
        ("emulation", native),
        ("emulation", emulated),
    }


def test_the_communicator_s_limits_are_facts() -> None:
    group = SimpleNamespace(world_size=4, device_communicator=Communicator(Quick(), Custom()))
    told = {r.path: r for r in look.of_communicator(group)}
    assert (told["quick_reduce"].eligible, told["custom_all_reduce"].eligible) == (True, True)
    assert told["quick_reduce"].facts == {
        "world_size": 4, "qr_max_size": 512 * MIB, "use_fp16_kernels": False, "codec": "INT4",
    }  # fmt: skip
    assert told["custom_all_reduce"].facts == {"world_size": 4, "fully_connected": True, "max_size": 8 * MIB}
    assert look.of_communicator(SimpleNamespace(world_size=1, device_communicator=group.device_communicator)) == []


def test_caches_say_their_dtype_and_drafted_layers_their_backend() -> None:
    def layer(dtype: str, asked: str, backend: str) -> Any:
        return SimpleNamespace(
            kv_cache=Tensor((4, 2, 8), dtype),
            kv_cache_dtype=asked,
            attn_backend=SimpleNamespace(get_name=lambda: backend),
            impl=object(),
        )

    layers = {
        "layers.0": layer("uint8", "fp8", "TRITON_ATTN"),
        "layers.1": layer("float8_e4m3fn", "fp8", "TRITON_ATTN"),
        "draft.0": layer("bfloat16", "auto", "ROCM_ATTN"),
        "unbound": SimpleNamespace(kv_cache=Tensor((0,))),
    }
    assert chosen(look.of_caches(layers, ["draft.0"])) == {
        ("fp8_kv_cache", "FP8"): 2,
        ("fp8_kv_cache", "BF16"): 1,
        ("draft_attention", "ROCM_ATTN"): 1,
    }


def test_a_drafter_s_layers_are_named_by_either_runner() -> None:
    assert look.drafted(SimpleNamespace(speculator=SimpleNamespace(draft_attn_layer_names={"a"}))) == ["a"]
    assert look.drafted(SimpleNamespace(drafter=SimpleNamespace(_draft_attn_layer_names=["b"]))) == ["b"]
    assert look.drafted(SimpleNamespace(speculator=None)) == []


def test_the_configuration_says_the_graph_mode_and_the_connector() -> None:
    config = SimpleNamespace(
        compilation_config=SimpleNamespace(cudagraph_mode=SimpleNamespace(name="FULL_DECODE_ONLY")),
        kv_transfer_config=SimpleNamespace(kv_connector="MoRIIOConnector"),
    )
    told = {r.path: r for r in look.of_config(config)}
    assert (told["graph_replay"].eligible, told["graph_replay"].facts) == (True, {"mode": "FULL_DECODE_ONLY"})
    assert told["kv_transfer"].variant == "MoRIIO"


# -- the part ------------------------------------------------------------------------------------------------------


class Worker:
    """``Worker`` with a model of no parts."""

    def __init__(self, model: Model) -> None:
        self.model_runner = SimpleNamespace(model=model)
        self.vllm_config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context={}))


@pytest.fixture
def custom(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> Custom:
    """vLLM's all-reduce where the seams look for it; nothing hooked yet."""
    name = "vllm.distributed.device_communicators.custom_all_reduce"
    where = ModuleType(name)
    where.CustomAllreduce = Custom  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, where)
    return Custom()


def part(worker: Worker) -> tuple[Told, Dispatches]:
    probe = Told()
    made = Dispatches(probe)
    made.role = Role.WORKER
    probe.parts.append(("dispatch", Role.WORKER, made))
    probe._hosts[Role.WORKER] = lambda: worker  # type: ignore[assignment]
    return probe, made


def test_hooks_stand_between_load_and_capture_and_while_armed(custom: Custom, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Custom.__dict__["should_custom_ar"]
    probe, made = part(Worker(Model()))
    made.early()
    made.loaded()
    assert Custom.__dict__["should_custom_ar"] is not plain
    monkeypatch.setattr(NOW, "stage", Stage.CAPTURE)
    monkeypatch.setattr(NOW, "descriptor", 2)
    custom.should_custom_ar(Tensor((8, 6144)))
    made.captured()
    assert Custom.__dict__["should_custom_ar"] is plain
    (asked,) = [r for r in probe.of(Dispatch) if r.seam == "ask_custom_ar"]
    assert (asked.stage, asked.descriptor, asked.eligible, asked.size) == (Stage.CAPTURE, 2, True, 98_304)

    monkeypatch.setattr(NOW, "stage", Stage.EAGER)
    monkeypatch.setattr(NOW, "descriptor", -1)
    made.arm()
    for _ in range(3):
        custom.should_custom_ar(Tensor((1024, 6144)))
    made.tick()
    (told,) = [r for r in probe.of(Dispatch) if r.stage is Stage.EAGER and r.seam == "ask_custom_ar"]
    assert (told.count, told.eligible, told.reason) == (3, False, "12,582,912 >= 8,388,608 B, its limit")
    probe.patches.undo()
    made.disarm()
    assert Custom.__dict__["should_custom_ar"] is plain


def test_a_probe_that_comes_late_hooks_nothing_before_it_is_armed(custom: Custom) -> None:
    plain = Custom.__dict__["should_custom_ar"]
    probe, made = part(Worker(Model(sparse())))
    probe.late = True
    made.loaded()
    assert Custom.__dict__["should_custom_ar"] is plain
    made.captured()
    assert ("sparse_attention", "AITER page-16") in chosen(probe.of(Dispatch))


def test_absent_seams_are_told_and_a_compiled_part_is_a_note(custom: Custom, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = ModuleType("vllm.compilation.wrapper")
    wrapper.TorchCompileWithNoGuardsWrapper = type("Wrapper", (), {"do_not_compile": False})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.compilation.wrapper", wrapper)
    probe, made = part(Worker(Model(wrapper.TorchCompileWithNoGuardsWrapper())))
    made.arm()
    states = {seam.id: (seam.state, seam.hooked) for seam in probe.of(Seam)}
    assert states["ask_custom_ar"] == ("present", True)
    assert states["ask_monokernel"] == ("absent", False)
    assert [note.word for note in probe.of(Note)] == ["compiled_paths"]
    probe.patches.undo()


def test_seams_whose_kernels_are_of_gpus_are_not_hooked_on_cpu(custom: Custom) -> None:
    for kind, expected in (("cpu", False), ("cuda", True)):
        worker = Worker(Model())
        worker.device = SimpleNamespace(type=kind)  # type: ignore[attr-defined]
        probe, made = part(worker)
        made.arm()
        assert ("in_router_gemm" in {seam.id for seam in probe.of(Seam)}) is expected
        probe.patches.undo()


def test_it_works_in_workers_alone() -> None:
    assert COLLECTOR.roles == (Role.WORKER,)
