"""The graph census: the reduction inside vLLM says what the trace reader says, and each capture gets one window."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from tree import ROOT, shared_or_skip

from m3probe.collectors._census_nodes import Node, Unread
from m3probe.collectors._census_reduce import Reduced, reduced
from m3probe.collectors._probe import Probe
from m3probe.collectors.census import Census
from m3probe.schema import records
from m3probe.schema.roles import Level, Role
from m3probe.sources import open_recording

SMALL = ROOT / "tests" / "data" / "census" / "graph_capture_rank_0.1.pt.trace.json.gz"
"""The first three captures of the piecewise trace: MI300X, vLLM, roctracer; 46 launches name a kernel, and 34 of them lie
between a begin and an end (4, 15, 15), counted by a walk over the sorted events."""
REAL = {"vllm_decode_full": (421, 1), "vllm_prefilldecode_piecewise": (361, 25)}
Row = tuple[int, str, str, str, str, tuple[int, ...]]


def rows(found: Reduced) -> list[Row]:
    return [(g, k.name, k.op, k.dims, k.types, k.grid) for g, graph in enumerate(found.graphs) for k in graph]


def read_rows(trace: Path) -> list[Row]:
    """The same from the trace reader's ``graphs`` table."""
    recording = open_recording([trace])
    text = ["", *recording.strings.texts]  # -1 is none
    columns = (recording.graphs[name].tolist() for name in ("graph", "name", "op", "dims", "types", "grid"))
    return [
        (g, text[n + 1], text[o + 1], text[d + 1], text[t + 1], recording.dims[r] if r >= 0 else ())
        for g, n, o, d, t, r in zip(*columns, strict=True)
    ]


def test_a_piece_of_a_real_capture_is_reduced_to_what_the_reader_finds_in_it() -> None:
    found = reduced(gzip.decompress(SMALL.read_bytes()))
    assert rows(found) == read_rows(SMALL)
    assert [len(graph) for graph in found.graphs] == [4, 15, 15]
    assert found.unnamed == 0


@pytest.mark.parametrize("name", REAL)
def test_whole_real_captures_are_reduced_to_what_the_reader_finds_in_them(name: str) -> None:
    folder = shared_or_skip(f"traces/tracelens/inference/{name}") / "capture_traces"
    (trace,) = folder.glob("*.json.gz")
    found = reduced(gzip.decompress(trace.read_bytes()))
    assert (sum(map(len, found.graphs)), len(found.graphs)) == REAL[name]
    assert rows(found) == read_rows(trace)


def event(name: str, ts: float, cat: str = "cuda_runtime", dur: float = 0.5, tid: int = 1, **args: Any) -> Any:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def trace(*events: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


CAPTURED = (
    event("hipLaunchKernel", 1.0, kernel="warm_up"),
    event("hipStreamBeginCapture", 10.0),
    event("vllm::outer", 11.0, "cpu_op", 20.0, **{"Input Dims": [[9]]}),
    event("aten::mm", 12.0, "cpu_op", 3.0, **{"Input Dims": [[8, 64], [64, 32]], "Input type": ["float", "float"]}),
    event("aten::other_thread", 12.5, "cpu_op", 3.0, tid=2),
    event("hipLaunchKernel", 13.0, kernel="gemm", grid=[4, 2, 1], block=[256, 1, 1]),
    event("hipExtModuleLaunchKernel", 20.0, kernel="asm", grid=[1000, 2, 1], block=[256, 1, 1]),
    event("hipMemcpyAsync", 22.0, kernel="no launch"),
    event("hipStreamEndCapture", 40.0),
    event("hipLaunchKernel", 50.0, kernel="after"),
)


def test_kernels_between_begin_and_end_have_their_innermost_op_and_grids_in_workgroups() -> None:
    assert rows(reduced(trace(*CAPTURED))) == [
        (0, "gemm", "aten::mm", "[[8, 64], [64, 32]]", '["float", "float"]', (4, 2, 1)),
        (0, "asm", "vllm::outer", "[[9]]", "", (4, 2, 1)),  # 1,000 work-items in blocks of 256 are 4 workgroups
    ]


def test_launches_that_name_no_kernel_are_counted_and_not_invented() -> None:
    found = reduced(trace(*UNNAMED))
    assert (found.unnamed, found.named()) == (2, Reduced(((),)))


def test_nodes_give_names_and_grids_and_launches_give_operators() -> None:
    nodes = [[Node("gemm", (4, 1, 1)), Node("triton", (8, 1, 1))]]
    found, bare = reduced(trace(*UNNAMED)).with_nodes(nodes)
    assert (rows(found), bare) == (
        [(0, "gemm", "aten::mm", "[[8, 64], [64, 32]]", "", (4, 1, 1)), (0, "triton", "", "", "", (8, 1, 1))],
        0,
    )


@pytest.mark.parametrize("nodes", [[[Node("gemm", (4, 1, 1))]], [[Node("gemm", (4, 1, 1))], [Node("gemm", (4, 1, 1))]]])
def test_where_launches_and_nodes_differ_in_number_there_are_no_operators(nodes: list[list[Node]]) -> None:
    found, bare = reduced(trace(*UNNAMED)).with_nodes(nodes)
    assert [(k.name, k.op, k.dims) for graph in found.graphs for k in graph] == [("gemm", "", "")] * len(nodes)
    assert bare == len(nodes)


def test_the_nodes_of_a_real_capture_are_the_kernels_of_its_replay() -> None:
    """H200, torch 2.11, CUDA 13.0: a graph over two streams, its nodes as the driver gave them, one profiled replay."""
    nodes = [
        [Node(name, tuple(grid)) for name, grid in graph]
        for graph in json.loads(H200.with_name("h200_nodes.json").read_text())
    ]
    found, bare = reduced(gzip.decompress(H200.read_bytes())).with_nodes(nodes)
    replay = json.loads(gzip.decompress(H200.with_name("h200_replay.pt.trace.json.gz").read_bytes()))["traceEvents"]
    ran = Counter((e["name"], tuple(e["args"]["grid"])) for e in replay if e["cat"] == "kernel")
    assert Counter((k.name, k.grid) for k in found.graphs[0]) == ran
    assert ran.total() == 13
    assert bare == 1  # CUPTI gave this window's calls no times, so that none lies inside of the capture


def test_what_is_no_trace_is_an_error_of_its_own_type() -> None:
    with pytest.raises(msgspec.MsgspecError):
        reduced(b'{"traceEvents": [{"ph": "X"')


UNNAMED = (
    event("cudaStreamBeginCapture", 1),
    event("aten::mm", 2, "cpu_op", 3.0, **{"Input Dims": [[8, 64], [64, 32]]}),
    event("cudaLaunchKernelExC", 3),
    event("cudaMemcpyAsync", 6),
    event("cudaLaunchHostFunc", 7),
    event("cuLaunchKernelEx", 8, "cuda_driver"),
    event("cudaStreamEndCapture", 9),
)
H200 = SMALL.with_name("h200_capture.pt.trace.json.gz")


class Torch:
    """Stands for torch: each window's trace is CAPTURED, or what a test puts there."""

    def __init__(self) -> None:
        self.trace = trace(*CAPTURED)
        self.said: Counter[str] = Counter()
        self.open = False
        torch = self

        class Profile:
            def __init__(self, **asked: Any) -> None:
                assert (asked["record_shapes"], asked["with_stack"]) == (True, False)

            def start(self) -> None:
                assert not torch.open, "torch has one profiler at a time"
                torch.said["start"] += 1
                torch.open = True

            def stop(self) -> None:
                torch.open = False

            def export_chrome_trace(self, path: str) -> None:
                torch.said["export"] += 1
                Path(path).write_bytes(torch.trace)

        self.profiler = SimpleNamespace(profile=Profile, ProfilerActivity=SimpleNamespace(CPU=0, CUDA=1))


def descriptor(mode: str, rows: int) -> Any:
    return SimpleNamespace(cg_mode=SimpleNamespace(name=mode), num_tokens=rows)


class Manager:
    """As vLLM's CudaGraphManager asks its factory: warm-up, then capture; compiled pieces use the warm-up's function."""

    use_breakable_cg = False

    def __init__(self, torch: Torch, *descs: Any) -> None:
        self.torch, self.descs = torch, descs
        self.open: list[bool] = []

    def capture(self, create_forward_fn: Any, progress_bar_desc: str = "") -> str:
        for desc in self.descs:
            create_forward_fn(desc, warmup=True)
            if desc.cg_mode.name == "FULL" or self.use_breakable_cg:
                create_forward_fn(desc, warmup=False)
            self.open.append(self.torch.open)  # the capture itself
        return "captured"


class Runner:
    def then(self) -> Any:
        """What the capture does."""

    def _warmup_and_capture(self, desc: Any, cudagraph_runtime_mode: Any, num_warmups: int = 1) -> str:
        self.then()
        return "captured"


class Guest(Probe):
    def __init__(self, device: str = "cuda", **profiler: bool) -> None:
        super().__init__(Level.LEDGER)
        config = SimpleNamespace(profiler_config=SimpleNamespace(**profiler))
        self.worker = SimpleNamespace(device=SimpleNamespace(type=device), vllm_config=config)
        self.kept: list[records.AnyRecord] = []
        self.part = Census(self)

    def host(self, role: Role) -> Any:
        return self.worker if role is Role.WORKER else None

    def ledger(self, record: records.AnyRecord) -> None:
        self.kept.append(record)

    def census(self) -> list[records.Census]:
        self.part.captured()
        return [record for record in self.kept if isinstance(record, records.Census)]

    def notes(self) -> dict[str, str]:
        return {record.word: record.text for record in self.kept if isinstance(record, records.Note)}


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Torch:
    made = Torch()
    monkeypatch.setenv("M3PROBE_CENSUS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setitem(sys.modules, "torch", made)
    for name, kind in (("gpu.cudagraph_utils", Manager), ("gpu_model_runner", Runner)):
        module = ModuleType(f"vllm.v1.worker.{name}")
        setattr(module, {"Manager": "CudaGraphManager", "Runner": "GPUModelRunner"}[kind.__name__], kind)
        monkeypatch.setitem(sys.modules, f"vllm.v1.worker.{name}", module)
    return made


def test_each_descriptor_of_v2_gets_one_window_around_its_capture(torch: Torch, tmp_path: Path) -> None:
    guest, before = Guest(), dict(vars(Manager))
    guest.part.loaded()
    manager = Manager(torch, descriptor("PIECEWISE", 16), descriptor("FULL", 8), descriptor("FULL", 4))
    asked: list[bool] = []
    assert manager.capture(lambda _desc, warmup: asked.append(warmup)) == "captured"
    assert asked == [True, True, False, True, False]
    assert manager.open == [True, True, True]
    assert torch.said == {"start": 3, "export": 3}
    found = guest.census()
    assert [(record.piece, [k.name for k in record.kernels]) for record in found] == [(0, ["gemm", "asm"])] * 3
    assert [record.source.split()[0] for record in found] == ["PIECEWISE", "FULL", "FULL"]
    assert list(tmp_path.iterdir()) == []
    assert dict(vars(Manager)) == before
    assert guest.patches.standing == []
    assert "3 descriptors" in guest.notes()["census"]


def test_a_census_has_the_number_of_its_descriptor_and_a_drafts_has_none(torch: Torch) -> None:
    guest, full = Guest(), descriptor("FULL", 8)
    target, draft = Manager(torch, full), Manager(torch, full)
    guest.worker.model_runner = SimpleNamespace(cudagraph_manager=target)
    guest.part.loaded()
    for manager in (target, draft):
        manager.capture(lambda _desc, warmup: warmup)
    for number, (mode, text) in enumerate([("PIECEWISE", str(full)), ("FULL", "rows 9"), ("FULL", str(full)[:200])]):
        guest._ledger.keep(records.Descriptor(id=number, mode=mode, padded_rows=8, text=text))
    assert [(r.descriptor, r.source.split()[0]) for r in guest.census()] == [(2, "FULL"), (-1, "draft")]


def test_breakable_graphs_are_watched_at_their_second_call(torch: Torch) -> None:
    guest = Guest()
    guest.part.loaded()
    manager = Manager(torch, descriptor("PIECEWISE", 16))
    manager.use_breakable_cg = True
    manager.capture(lambda _desc, warmup: warmup)
    assert torch.said == {"start": 1, "export": 1}
    assert manager.open == [True]


def test_the_last_capture_of_a_descriptor_is_kept(torch: Torch) -> None:
    guest, full = Guest(), SimpleNamespace(name="FULL")
    guest.part.loaded()
    runner = Runner()
    assert runner._warmup_and_capture("rows 8", cudagraph_runtime_mode=full) == "captured"
    torch.trace = trace(*CAPTURED[:6], *CAPTURED[7:])
    runner._warmup_and_capture("rows 8", cudagraph_runtime_mode=full)
    (found,) = guest.census()
    assert [kernel.name for kernel in found.kernels] == ["gemm"]
    assert found.source == "FULL rows 8"


def test_a_gpu_whose_launches_name_no_kernel_gets_one_window_and_a_note(torch: Torch) -> None:
    torch.trace = trace(*UNNAMED)
    guest = Guest()
    guest.part.loaded()
    Manager(torch, descriptor("FULL", 8), descriptor("FULL", 4)).capture(lambda _desc, warmup: warmup)
    assert torch.said == {"start": 1, "export": 1}
    assert guest.census() == []
    assert "nor do the graph's nodes: no end of a capture was seen" in guest.notes()["no_census"]


class Graph:
    """Stands for torch's CUDAGraph: each capture ends in it."""

    def capture_end(self) -> str:
        return "ended"


def on_cuda(torch: Torch, monkeypatch: pytest.MonkeyPatch, kernels: Any) -> Graph:
    """A CUDA build of torch whose driver tells ``kernels`` of the graph that is being captured."""
    graphs = ModuleType("torch.cuda.graphs")
    graphs.CUDAGraph = Graph  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.cuda.graphs", graphs)
    monkeypatch.setattr("m3probe.collectors._census_window.kernels", kernels)
    torch.version = SimpleNamespace(cuda="13.0")  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=7))  # type: ignore[attr-defined]
    return Graph()


def capture(torch: Torch, graph: Graph, *descs: Any) -> list[str]:
    """vLLM's loop, in which each capture ends a graph."""
    ended: list[str] = []
    runner = Runner()
    for desc in descs:
        runner.then = lambda: ended.append(graph.capture_end())  # type: ignore[method-assign]
        runner._warmup_and_capture(desc, cudagraph_runtime_mode=SimpleNamespace(name="FULL"))
    return ended


def test_on_cuda_the_nodes_are_read_before_a_capture_ends(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def kernels(stream: int) -> list[Node]:
        asked.append(stream)
        return [Node("gemm", (4, 1, 1)), Node("triton", (8, 1, 1))]

    torch.trace, before = trace(*UNNAMED), dict(vars(Graph))
    graph, guest = on_cuda(torch, monkeypatch, kernels), Guest()
    guest.part.loaded()
    assert capture(torch, graph, "rows 8", "rows 4") == ["ended", "ended"]
    found = guest.census()
    assert [[(k.name, k.op) for k in record.kernels] for record in found] == [
        [("gemm", "aten::mm"), ("triton", "")]
    ] * 2
    assert asked == [7, 7]
    assert dict(vars(Graph)) == before
    assert set(guest.notes()) == {"census"}


def test_a_driver_that_does_not_tell_ends_the_census_and_not_the_capture(
    torch: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernels(stream: int) -> list[Node]:
        raise Unread("cuGraphGetNodes: error 900")

    torch.trace = trace(*UNNAMED)
    graph, guest = on_cuda(torch, monkeypatch, kernels), Guest()
    guest.part.loaded()
    assert capture(torch, graph, "rows 8", "rows 4") == ["ended", "ended"]
    assert guest.census() == []
    assert torch.said == {"start": 1, "export": 1}
    assert "cuGraphGetNodes: error 900" in guest.notes()["no_census"]


def test_a_broken_trace_ends_the_census_and_not_the_capture(torch: Torch, tmp_path: Path) -> None:
    torch.trace = b'{"traceEvents": ['
    guest = Guest()
    guest.part.loaded()
    manager = Manager(torch, descriptor("FULL", 8), descriptor("FULL", 4))
    assert manager.capture(lambda _desc, warmup: warmup) == "captured"
    assert guest.census() == []
    assert "the census ended: DecodeError" in guest.notes()["no_census"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("guest", "said"),
    [
        (Guest(capture_torch_profiler=True), "capture_torch_profiler"),
        (Guest(proton_graph_attribution=True), "proton_graph_attribution"),
        (Guest("cpu"), "no graphs are captured on this device"),
    ],
)
def test_a_census_that_cannot_be_taken_says_why(torch: Torch, guest: Guest, said: str) -> None:
    guest.part.loaded()
    assert said in guest.notes()["no_census"]
    assert guest.patches.standing == []


def test_nothing_is_done_unless_asked_for(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("M3PROBE_CENSUS")
    guest = Guest()
    guest.part.loaded()
    guest.part.captured()
    assert (guest.kept, guest.patches.standing) == ([], [])
