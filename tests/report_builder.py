"""A report with every row type, written by hand: figures that can be checked by eye."""

from __future__ import annotations

from typing import Any

from m3probe.model.bench_report import BenchRow, BenchSection, SweepStep
from m3probe.model.counter_report import CounterRow, Counters, CountersSection
from m3probe.model.findings import Bound, Evidence, Finding
from m3probe.model.idle_report import IdlePart, IdleSection
from m3probe.model.path_report import GateRow, PathRow, PathsSection, RecipeRow
from m3probe.model.repeat_report import Costs, CoverageRow, RepeatRow, RepeatsSection
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    BytePlanes,
    BytesSection,
    FamilyRow,
    ModelMatch,
    NextBottleneck,
    PhaseRow,
    PlaneRow,
    QueuesSection,
    ReadNote,
    Reason,
    Report,
    ShapeRow,
    ShapesSection,
    StepRow,
    Summary,
    SummarySection,
    TrustRow,
    TrustSection,
)
from m3probe.model.roofline_report import (
    ControlPlaneRow,
    DecodeFloorRow,
    FloorPart,
    Roofline,
    RooflineRow,
    RooflineSection,
)
from m3probe.schema.gates import GateState

LONG_NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>>"


def trust() -> TrustSection:
    reasons = (Reason("lost_events", "3 event(s) lost: kernels may be among them", hides_kernels=True),)
    return TrustSection(TrustRow("degraded", reasons), coverage())


def coverage() -> dict[str, Any]:
    return {
        "files": 1,
        "ranks": [0],
        "steps": 3,
        "kernels": 610,
        "kernels_linked": 600,
        "ops_with_shapes": 40,
        "graph_launches": 2,
        "graph_launches_with_census": 0,
        "processes": 0,
        "steps_counted": 0,
        "modules": 0,
        "configuration": False,
        "queues": False,
    }


def summary() -> SummarySection:
    families = (
        FamilyRow("moe_gemm", 30, 6_000_000, 0.6),
        FamilyRow("gemm", 120, 3_000_000, 0.3),
        FamilyRow("norm", 60, 970_000, 0.097),
        FamilyRow("unknown", 4, 20_000, 0.002),
        FamilyRow("other", 1, 10_000, 0.001),
    )
    phases = (PhaseRow("prefill", 1, 196, 4_000_000, 0.25), PhaseRow("decode", 2, 414, 6_000_000, 0.5, 0, 12_000_000))
    return SummarySection(
        meta(),
        Summary(610, 10_000_000, 9_000_000, 20_000_000, 2, (0,), families, phases),
        (
            StepRow(0, "execute_context_1(4000)_generation_0(0)", "prefill", 4000, 1, 196, 4_000_000, "NONE"),
            StepRow(0, "execute_context_0(0)_generation_8(8)", "decode", 8, 8, 207, 3_000_000, "FULL"),
            StepRow(None, "execute_context_0(0)_generation_8(8)", "decode", None, None, 207, None, "FULL"),
        ),
    )


def meta() -> dict[str, Any]:
    return {
        "files": [{"path": "rank0.json.gz", "kind": "kineto", "role": "rank", "rank": 0}],
        "versions": {"vllm": "0.33.0"},
        "flags": {},
        "backend": None,
        "world_size": 4,
        "device": {"name": "NVIDIA H200", "identified_as": "h200", "certain": True, "units": 132, "memory_bytes": 150},
        "model": "MiniMax-M3",
        "tp": 4,
        "ep": None,
    }


def shapes() -> ShapesSection:
    rows = tuple(
        ShapeRow(
            "decode",
            "aten::mm",
            8,
            n,
            6144,
            54 - i,
            predicted=True,
            module="qkv_proj",
            dtype="bf16",
            tile="16x64x256",
            programs=40,
            units=132,
            k_loops=24,
            grid=(40, 1, 1),
            evidence="kernels",
        )
        for i, n in enumerate((2560, 2304, 1536, 6144, 128, 64, 32))
    )
    prefill = ShapeRow("prefill", LONG_NAME, 4000, 2560, 6144, 6, None, "", "", "", None, None, None, None, "census")
    return ShapesSection(
        (*rows, prefill), ModelMatch("MiniMax-M3", 4, 1, ("router left out",), ("lm_head", "dense down"))
    )


def repeats() -> RepeatsSection:
    rows = (
        RepeatRow("decode", "moe_gemm", 12.0, 2.0, 150_000.0, 1_200_000.0, "kernels"),
        RepeatRow("decode", "sparse_attention", 12.5, None, None, 98_000.0, "census"),
    )
    coverage = (CoverageRow("FULL", 2, 2 / 3, 16 / 4016, 1.0), CoverageRow("NONE", 1, 1 / 3, None, None))
    return RepeatsSection(rows, coverage, Costs(375_000.0, 375_000_000.0, 47_000.0, 0, None, launch_bound=True))


def planes() -> BytesSection:
    state = (
        PlaneRow("KV write", 18, 3 << 20, 40_000, "bf16", "paged 128", "kernels"),
        PlaneRow("index write", 6, None, None, "fp8", "", "kernels"),
    )
    comm = (PlaneRow("all_reduce", 24, 24 * 98_304, 500_000, "bf16", "", "kernels"),)
    return BytesSection(BytePlanes((), state, comm, ("which bytes were useful",)))


def roofline() -> RooflineSection:
    rows = (
        RooflineRow(
            "decode", "moe_gemm", part=True, shape="moe_w13, moe_w2", dtype="", count=2, flops=4.8e9, bytes=4.8e9,
            floor_ns=1_000_000.0, observed_ns=1_250_000.0, ratio=1.25, bound_by="memory", evidence="kernels", note="28.7 hit",
        ),
        RooflineRow(
            "decode", "aten::mm", part=False, shape="8 x 2560 x 6144", dtype="bf16", count=54, flops=2.5e8, bytes=3.2e7,
            floor_ns=6_600.0, observed_ns=3_300.0, ratio=0.5, bound_by="memory", evidence="kernels",
        ),
        RooflineRow(
            "prefill", "aten::mm", part=False, shape="4000 x 128 x 6144", dtype="bf16 x uint8", count=0, flops=None,
            bytes=None, floor_ns=None, observed_ns=None, ratio=None, bound_by="", evidence="census", note="format not known",
        ),
    )  # fmt: skip
    step = DecodeFloorRow(
        2, 8.0, 8.0, 3000.0, 4.8e9, 1_000_000.0, 900_000.0, 6_000_000.0, 3_000_000.0,
        (FloorPart("moe_w13", 6, 4.8e9, 4.8e9, 1_000_000.0, "memory", "28.7 hit"),), {"lm_head": "not known"},
    )  # fmt: skip
    control = ControlPlaneRow(
        60_000.0, 50_000.0, 3e7, 4e7, 3000.0, 4096.0, {"index score": 25_000.0, "top-k": 35_000.0}
    )
    return RooflineSection(
        Roofline(
            device="H200",
            certain=True,
            bytes_per_s=4.8e12,
            peak_tflops={"bf16": 989.4, "fp8": 1978.9},
            rows=rows,
            decode=step,
            control_plane=control,
            unknown=("the context of 1 step",),
        )
    )


def counters() -> CountersSection:
    """A GEMM that reads 1.5 times its least at 40 % of the peak, and a copy of which neither sizes nor the least are known."""
    gemm = CounterRow(
        "gemm_kernel", groups=320, dispatches=54, read_bytes_low=4.8e7, read_bytes_high=4.8e7, written_bytes_low=2e6,
        written_bytes_high=2e6, how="128 B x 375,000 + 64 B x 0 + 32 B x 0", local_share=1.0, time_ns=20_000.0,
        bytes_per_s_low=2.5e12, bytes_per_s_high=2.5e12, peak_share_low=0.4, peak_share_high=0.4, shape="8 x 2560 x 6144",
        least_read_bytes=3.2e7, refetch_low=1.5, refetch_high=1.5,
    )  # fmt: skip
    copy = CounterRow(
        "copy_kernel", groups=None, dispatches=3, read_bytes_low=4.2e6, read_bytes_high=8.4e6, written_bytes_low=None,
        written_bytes_high=None, how="65,625 requests of 64 or 128 B, 0 of 32 B", local_share=None, time_ns=None,
        bytes_per_s_low=None, bytes_per_s_high=None, peak_share_low=None, peak_share_high=None, shape="",
        least_read_bytes=None, refetch_low=None, refetch_high=None, note="its grid is not told",
    )  # fmt: skip
    return CountersSection(Counters("MI355X", "gfx950", (gemm, copy), ()))


def paths() -> PathsSection:
    def row(verdict: str, **more: Any) -> PathRow:
        words: dict[str, Any] = {"configured": "unknown", "eligible": "unknown", "reasons": (), "evidence": ()}
        words |= {"variant": "", "counts": {}, "names_from_source": False} | more
        return PathRow(id=f"path_{verdict}", title=f"Path {verdict}", verdict=verdict, **words)

    return PathsSection(
        (
            row(
                "executed",
                variant="Triton",
                counts={"executed": 54},
                by_phase={"prefill": "unproven", "decode": "executed"},
            ),
            row("missed", counts={"missed": 10, "executed": 990}, evidence=("10 of 1,000 calls ran the fallback",)),
            row("declined", reasons=("1,572,864 < 16,777,216",), configured="yes", eligible="no"),
            row("unexpected"),
            row("unproven", names_from_source=True),
            row("off", configured="no"),
            row("refused_at_start", gates=("block_equal",), correct=GateState.BROKEN),
        ),
        (GateRow("block_equal", "KV block = sparse block = 128", GateState.BROKEN, "KV block 16, sparse block 128"),),
        RecipeRow(
            "serve.sh", "0.33.0", "vLLM 0.33.0: 39 of 39 rules", "MI355X", ("of H200",), ("X has no effect",), ("y",)
        ),
    )


def findings() -> tuple[Finding, ...]:
    rows = (Evidence("kernels", (12, 15, 17, 19, 23), 54, "6 launches per step", "3"),)
    big = Finding(
        "shapes.starved.qkv",
        "shapes",
        "missed",
        "The QKV GEMM starts 40 programs on 132 units.",
        "decode",
        rows,
        "Take a tile with smaller N.",
        Bound(0.05, 0.12, "share x (1 - 40/132)"),
    )
    small = Finding(
        "repeats.relayout",
        "repeats",
        "executed",
        "A relayout kernel recurs per decode step.",
        "",
        rows,
        "Move it to load time.",
        Bound(0.02, 0.02, "its share"),
        "medium",
    )
    vague = Finding(
        "paths.unproven",
        "paths",
        "unproven",
        "The path inside graphs is unproven.",
        "",
        (),
        "",
        Bound(0.0, 0.9, "all of it"),
        "low",
        trusted=False,
    )
    plain = Finding(
        "bytes.copies", "bytes", "executed", "Copies move 3 MiB per step.", "", (), "Move metadata instead."
    )
    return (plain, vague, small, big)


def full_report() -> Report:
    """All sections, seven path verdicts, four findings in no order."""
    bottleneck = NextBottleneck(
        "shapes.starved.qkv", Bound(0.05, 0.12, "share x (1 - 40/132)"), "it has the largest trusted bound"
    )
    sections = (
        trust(),
        summary(),
        shapes(),
        repeats(),
        planes(),
        counters(),
        roofline(),
        paths(),
        queues(),
        bench(),
        idle(),
        BottleneckSection(bottleneck),
    )
    notes = (ReadNote("lost_events", "3 event(s) lost: kernels may be among them", "rank0.json.gz", 3),)
    return Report("partial", notes, Answer(sections, findings()))


def idle() -> IdleSection:
    """Of 12 ms of decode: 3 ms inside two steps, 3 ms after the first of them."""
    return IdleSection(
        "decode step time",
        (
            IdlePart("kernels", "between kernels of a step", "launch", 3_000_000, 0.25, 2),
            IdlePart("between_steps", "between steps", "queue", 3_000_000, 0.25, 1),
        ),
    )


def queues() -> QueuesSection:
    return QueuesSection({"admission": "give the server's /metrics page", "kv_transfer": "give the connector's log"})


def bench() -> BenchSection:
    def run(concurrency: int, total: float, ttft: float, **more: Any) -> BenchRow:
        known: dict[str, Any] = {
            "name": f"c{concurrency}", "file": "sweep.json", "backend": "vllm", "model": "m3", "completed": 640, "failed": 0,
            "comparable": True, "max_concurrency": concurrency, "request_rate": None, "closed_loop": True, "num_gpus": 4,
            "prefill_gpus": None, "decode_gpus": None, "mean_input_tokens": 900.0, "mean_output_tokens": 101.0,
            "request_throughput": total / 1001, "output_throughput": total * 101 / 1001, "total_token_throughput": total,
            "total_per_gpu": total / 4, "ttft_ms": ttft, "ttft_of": "mean", "ttft_p99_ms": 3 * ttft, "tpot_ms": 20.0,
            "tpot_of": "median", "waiting": 1.5, "decoding": 30.5, "in_flight": 32.0, "measured_in_flight": None,
            "expected": concurrency, "consistent": True,
        }  # fmt: skip
        return BenchRow(**known | more)

    rows = (run(32, 16_016.0, 100.0), run(64, 16_416.4, 250.0, failed=1, consistent=False, measured_in_flight=48.0))
    return BenchSection(rows, (SweepStep("c32", "c64", 32, 64, 0.025, 2.5, knee=True),))


def empty_report() -> Report:
    """Nothing was answered."""
    return Report("ok", (), Answer())


def hollow_report() -> Report:
    """Every section is there and holds nothing."""
    nothing = dict.fromkeys(meta())
    sections = (
        TrustSection(TrustRow("unusable", ()), coverage()),
        SummarySection(
            nothing | {"files": [], "versions": {}, "flags": {}}, Summary(0, None, None, None, 0, (), (), ()), ()
        ),
        ShapesSection((), None),
        RepeatsSection((), (), Costs(None, None, None, None, None, None)),
        BytesSection(BytePlanes()),
        PathsSection(()),
        QueuesSection({}),
        BottleneckSection(None),
    )
    return Report("ok_with_warnings", (), Answer(sections))
