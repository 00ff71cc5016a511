"""The roofline of small traces, worked out by hand, and of the H200 recordings, held against plain recounts."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step
from roofline_kit import KEYED, as_m3, index_of, judged, on_h200, part, shape
from shapes_kit import DECODE, call, linears, mm
from steps import ATTEND, MODEL, SCORE, steps
from tree import ROOT

from m3probe.model.report import Answer, Reason, Report, TrustRow, TrustSection
from m3probe.model.roofline_report import RooflineSection
from m3probe.present.text import report_text
from m3probe.sources import open_recording

GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
LIVE = ROOT / "samples" / "live-h200-m3-graph"
QKV_US = (2560 * 6144 + 8 * 6144 + 8 * 2560) * 2 / 4.8e12 * 1e6
"""6.58 us: the bytes of 8 x 2560 x 6144 in BF16 at 4.8 TB/s."""


# --- GEMMs with a shape ------------------------------------------------------------------------------


def test_a_gemm_beside_its_floor(tmp_path: Path) -> None:
    found, findings = judged(on_h200(tmp_path, linears([(2560, 6144)])))
    row = shape(found, "8 x 2560 x 6144")
    assert (found.device, found.certain, found.bytes_per_s) == ("H200", True, 4.8e12)
    assert (row.count, row.bound_by, row.dtype, row.phase) == (1, "memory", "bf16", "decode")
    assert row.observed_ns == 10_000
    assert row.floor_ns == pytest.approx(QKV_US * 1e3)
    assert row.ratio == pytest.approx(10 / QKV_US)
    # one kernel of 10 us is the whole step: all of it but the floor could go
    bound = findings["roofline.headroom.8x2560x6144"].bound
    assert bound is not None
    assert bound.high == pytest.approx(1 - QKV_US / 10)
    assert bound.basis == "decode step time"
    assert bound.arithmetic == ("((10,000 ns - 0 ns) / 10,000 ns) * (1 - 6,583 ns / 10,000 ns)",)


def test_the_bound_is_of_the_time_that_is_freed(tmp_path: Path) -> None:
    # 10 us of a step of 110 us: the second GEMM's kernel starts 100 us after the first one's
    _, findings = judged(on_h200(tmp_path, linears([(2560, 6144), (2560, 6144)])))
    bound = findings["roofline.headroom.8x2560x6144"].bound
    assert bound is not None
    assert bound.high == pytest.approx(20 / 110 * (1 - QKV_US / 10))


def test_a_time_below_the_floor_is_a_contradiction_and_no_efficiency(tmp_path: Path) -> None:
    # 2.46 GB in 10 us would be 246 TB/s
    found, findings = judged(on_h200(tmp_path, linears([(200_064, 6144)])))
    row = shape(found, "8 x 200064 x 6144")
    assert row.ratio is not None and row.ratio < 0.02
    finding = findings["roofline.below_floor.8x200064x6144.decode"]
    assert (finding.verdict, finding.bound, finding.confidence) == ("contradiction", None, "low")
    assert "something assumed of it is wrong" in finding.claim
    assert not [name for name in findings if name.startswith("roofline.headroom")]


def test_operands_of_unknown_format_have_no_floor(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::mm", mm(8, 2560, 6144), ["c10::BFloat16", "unsigned char"])]
    row = shape(judged(on_h200(tmp_path, events))[0], "8 x 2560 x 6144")
    assert (row.floor_ns, row.bytes, row.ratio, row.bound_by) == (None, None, None, "")
    assert row.observed_ns == 10_000
    assert "bf16 x uint8" in row.note


def test_an_fp32_router_is_judged_by_its_bytes_and_says_so(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::mm", mm(8, 128, 6144), ["float", "float"])]
    row = shape(judged(on_h200(tmp_path, events))[0], "8 x 128 x 6144")
    assert row.bytes == (128 * 6144 + 8 * 6144 + 8 * 128) * 4
    assert row.note == "no fp32 peak of H200"


def test_without_a_device_there_is_no_floor(tmp_path: Path) -> None:
    found, findings = judged(recording(tmp_path, linears([(2560, 6144)])))
    assert (found.device, found.rows, found.decode) == (None, (), None)
    assert "the input names no device" in found.unknown[0]
    assert not findings


def test_a_device_that_is_none_of_the_known_ones_is_named(tmp_path: Path) -> None:
    other = {"deviceProperties": [{"id": 0, "name": "NVIDIA L4", "numSms": 58, "warpSize": 32}]}
    found, _ = judged(recording(tmp_path, linears([(2560, 6144)]), **other))
    assert "NVIDIA L4 with 58 units" in found.unknown[0]


def test_a_device_that_may_be_another_says_so(tmp_path: Path) -> None:
    """gfx942 with 304 units is an MI300X or an MI325X, whose memories differ by 13 %."""
    signature = {"name": "", "numSms": 304, "warpSize": 64, "computeMajor": 9, "computeMinor": 4}
    found, findings = judged(recording(tmp_path, linears([(2560, 6144)]), deviceProperties=[{"id": 0, **signature}]))
    assert findings["roofline.headroom.8x2560x6144"].confidence == "low"
    assert (found.device, found.certain) == ("MI300X", False)
    assert "MI325X" in found.unknown[0]


# --- parts of a decode step --------------------------------------------------------------------------

EXPERT = 3 * 6144 * 768 * 2
"""Bytes of one expert of a TP4 rank in BF16: 28,311,552."""


def moe_us() -> float:
    """Two layers, two rows: 7.875 experts each, and the rows that go in and out of both weights."""
    moved = 7.875 * EXPERT + 2 * (2 * 6144 + 8 * 1536 + 8 * 768 + 2 * 6144)
    return 2 * moved / 4.8e12 * 1e6


def test_a_family_beside_the_components_that_it_computes(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(3, every_us=31.0, dur_us=31.0, said=KEYED)))
    found, findings = judged(rec, index_of("bf16"))
    row = part(found, "moe_gemm")
    # two layers of two grouped GEMMs of 31 us
    assert (row.count, row.observed_ns) == (3, 124_000)
    assert row.floor_ns == pytest.approx(moe_us() * 1e3)
    assert row.note == "7.9 experts hit in each layer; experts as if evenly chosen"
    bound = findings["roofline.headroom.moe_gemm"].bound
    assert bound is not None
    # steps of 1,000, 1,000 and 992 us; the last has no next one
    assert bound.high == pytest.approx(3 * 124 / 2992 * (1 - moe_us() / 124))


def test_attention_reads_what_the_context_holds(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(2, every_us=31.0, dur_us=31.0, said=KEYED)))
    found, _ = judged(rec, index_of("bf16"))
    # 2 requests x 2,048 of 3,000 tokens x 256 B in 2 layers, and queries and results of 16 heads
    queries = 2 * 16 * 128 * 2 * 2
    assert part(found, "sparse_attention").bytes == 2 * (2 * 2048 * 256 + queries)
    assert part(found, "attention").bytes == 2 * 3000 * 256 + queries
    score = part(found, "indexer").bytes
    assert score is not None
    blocks = 24  # of 128 tokens in 3,000
    assert score == 2 * (2 * 3000 * 256 + 2 * (2 * blocks * 4) + 2 * 16 * 4)
    assert found.decode is not None
    assert (found.decode.context, found.decode.rows, found.decode.requests) == (3000, 2, 2)
    assert found.decode.step_ns == (1_000_000 + 992_000) / 2


def test_the_softmax_of_a_sampler_is_in_no_part(tmp_path: Path) -> None:
    """It stands behind lm_head and has attention's name: neither its time nor a fourth layer is attention's."""
    soft = (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*, float const*, int)"
    )
    rec = as_m3(on_h200(tmp_path, steps(2, [*MODEL, soft], every_us=30.0, dur_us=20.0, said=KEYED)))
    found, _ = judged(rec, index_of("bf16"))
    row = part(found, "attention")
    assert row.observed_ns == 20_000
    assert row.bytes == 2 * 3000 * 256 + 2 * 16 * 128 * 2 * 2
    assert found.decode is not None
    (written,) = (part for part in found.decode.parts if part.what == "kv_write")
    assert written.calls == 3


def test_without_a_context_attention_has_no_floor(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(2)))
    found, findings = judged(rec, index_of("bf16"))
    row = part(found, "sparse_attention")
    assert (row.floor_ns, row.ratio, row.note) == (None, None, "the context is not known")
    assert row.observed_ns == 4_000
    assert found.decode is not None
    assert found.decode.context is None
    assert found.decode.left_out["index_score"] == "the context is not known"
    assert "not in it: attend_dense, attend_sparse, index_score" in findings["roofline.decode_floor"].claim


def test_without_a_format_of_the_experts_they_have_no_floor(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(2, said=KEYED)), moe_quant=None)
    row = part(judged(rec)[0], "moe_gemm")
    assert (row.floor_ns, row.note) == (None, "the format of its weights is not known")


def test_a_format_that_only_the_configuration_tells_is_told_as_such(tmp_path: Path) -> None:
    found, _ = judged(as_m3(on_h200(tmp_path, steps(2, said=KEYED)), moe_quant="mxfp8"))
    said = "experts' weights are taken as mxfp8, as configured: no operator and no guest shows them"
    assert said in found.unknown
    assert "no mxfp8 peak of H200" in part(found, "moe_gemm").note


def test_operators_that_ran_are_believed_before_the_configuration() -> None:
    rec = as_m3(open_recording([GRAPH]), linear_quant="mxfp8")
    row = part(judged(rec)[0], "gemm")
    # BF16 weights of nine layers and the whole vocabulary, 8 rows: 3,476 MB; as MXFP8 they were 2,986
    assert row.bytes == pytest.approx(3_476.3e6, rel=1e-4)


def test_without_a_model_only_shapes_are_judged(tmp_path: Path) -> None:
    found, findings = judged(on_h200(tmp_path, steps(2, said=KEYED)))
    assert found.decode is None
    assert not found.rows
    assert any("the model is not known" in text for text in found.unknown)
    assert set(findings) == {"roofline.control_plane"}


def test_a_step_is_held_against_the_sum_of_its_parts(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(2, every_us=31.0, dur_us=31.0, said=KEYED)))
    found, findings = judged(rec, index_of("bf16"))
    row = found.decode
    assert row is not None
    assert row.floor_ns == pytest.approx(sum(p.floor_ns for p in row.parts))
    assert row.busy_ns == 992_000
    assert {p.what: p.calls for p in row.parts}["o_proj"] == 3
    assert not [p for p in row.parts if p.what == "all_reduce"]  # world_size 1: it reduces with nobody
    finding = findings["roofline.decode_floor"]
    assert finding.bound is None  # a step at its floor is no one change away
    assert f"{row.step_ns / row.floor_ns:,.1f} x" in finding.claim if row.step_ns else False


# --- choosing blocks ---------------------------------------------------------------------------------


def test_choosing_blocks_beside_attending(tmp_path: Path) -> None:
    names = [SCORE, "_topk_index_kernel", "_insert_index_cache_kernel", ATTEND]
    rec = as_m3(on_h200(tmp_path, steps(2, names, every_us=10.0, dur_us=2.0, said=KEYED)))
    found, findings = judged(rec, index_of("bf16"))
    row = found.control_plane
    assert row is not None
    assert row.parts_ns == {"index score": 2000, "top-k": 2000, "index write": 2000}
    assert (row.choose_ns, row.attend_ns, row.crossover_tokens) == (6000, 2000, 2048)
    assert row.choose_bytes is not None and row.attend_bytes is not None
    # 3,000 tokens x 256 B against 2,048 x 256 B
    assert row.choose_bytes > row.attend_bytes
    finding = findings["roofline.control_plane"]
    assert (finding.verdict, finding.bound.high if finding.bound else None) == (
        "above_attend",
        pytest.approx(2 * 6 / (1000 + 32)),
    )
    assert "3.00 x" in finding.claim
    assert "from 2,048 tokens on" in finding.advice


def test_a_page_table_that_was_built_is_in_the_bytes(tmp_path: Path) -> None:
    plain, paged = (
        judged(as_m3(on_h200(tmp_path, steps(2, names, said=KEYED))), index_of("bf16"))[0].control_plane
        for names in ([SCORE, ATTEND], [SCORE, "_build_sparse_block_table_kernel", ATTEND])
    )
    assert plain is not None and paged is not None
    assert paged.parts_ns["page table"] == 2000
    assert plain.choose_bytes is not None and paged.choose_bytes is not None
    # ids of 16 blocks of 8 pages for two rows of one layer, written and read
    assert paged.choose_bytes - plain.choose_bytes == 2 * 2 * 16 * 8 * 4


def test_a_model_without_sparse_attention_has_no_control_plane(tmp_path: Path) -> None:
    found, findings = judged(on_h200(tmp_path, linears([(2560, 6144)])))
    assert found.control_plane is None
    assert "roofline.control_plane" not in findings


def test_without_a_device_the_control_plane_is_time_alone(tmp_path: Path) -> None:
    found, findings = judged(recording(tmp_path, steps(2, [SCORE, ATTEND])))
    assert found.control_plane is not None
    assert (found.control_plane.choose_ns, found.control_plane.choose_bytes) == (2000, None)
    assert "roofline.control_plane" in findings


# --- evidence that hides kernels, and the page -------------------------------------------------------


def test_evidence_that_hides_kernels_is_not_trusted(tmp_path: Path) -> None:
    reason = Reason("graph_launches_without_kernels", "9 of 9", hides_kernels=True)
    doubt = Answer((TrustSection(TrustRow("degraded", (reason,)), {}),))
    _, findings = judged(on_h200(tmp_path, linears([(2560, 6144)])), doubt)
    assert findings and not any(finding.trusted for finding in findings.values())


def test_lost_replays_leave_no_floor_of_a_step(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), launch(1.0, 1, "hipGraphLaunch"), launch(5.0, 2), kernel(9.0, 2.0, 2, SCORE)]
    found, findings = judged(as_m3(on_h200(tmp_path, events)))
    assert found.decode is None
    assert not [name for name in findings if name.startswith("roofline.headroom")]


def test_the_page_shows_parts_steps_and_the_control_plane(tmp_path: Path) -> None:
    rec = as_m3(on_h200(tmp_path, steps(2, every_us=31.0, dur_us=31.0, said=KEYED)))
    found, _ = judged(rec, index_of("bf16"))
    shown = report_text(Report("ok", (), Answer((RooflineSection(found),))), 110, color=False)
    assert "H200: 4.80 TB/s" in shown
    assert "moe_gemm" in shown
    assert "decode step 2.0 rows of 3,000 tokens: at the least" in shown
    assert "control plane choosing blocks 62.0 µs a step (index score 62.0), attending 62.0 µs" in shown
    low = replace(found.rows[0], ratio=0.5)
    wrong = report_text(Report("ok", (), Answer((RooflineSection(replace(found, rows=(low,))),))), 110, color=False)
    assert "below: wrong" in wrong


# --- the H200 recordings -----------------------------------------------------------------------------


def events_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return found


def test_the_head_of_the_h200_reads_at_86_per_cent_of_its_bandwidth() -> None:
    """9 steps of a whole vocabulary: 2,461,685,760 B each, by the kernels' own durations."""
    found, _ = judged(open_recording([GRAPH]))
    row = next(r for r in found.rows if r.phase == "decode" and not r.part and r.shape.endswith("lm_head"))
    durations = [e["dur"] for e in events_of(GRAPH) if e.get("cat") == "kernel" and "nvjet_sm90_tst_512x8" in e["name"]]
    assert len(durations) == 10  # one of them in prefill
    assert row.bytes == 200_064 * 6144 * 2 + 8 * 6144 * 2 + 8 * 200_064 * 2 == 2_461_685_760
    assert row.observed_ns == pytest.approx(sum(sorted(durations)[:9]) / 9 * 1e3, rel=0.02)
    assert row.ratio == pytest.approx(1.16, abs=0.01)


def test_the_experts_of_the_h200_are_near_the_bandwidth_of_those_hit() -> None:
    """Six layers, BF16 by the live module map: 8 rows hit 28.7 of 128 experts of 28,311,552 B, as if evenly chosen."""
    found, _ = judged(open_recording([LIVE]))
    row = part(found, "moe_gemm")
    batches = {8: 7, 6: 1, 3: 1, 1: 1}  # rows of the ten decode steps in the window
    hit = sum(n * 128 * (1 - (31 / 32) ** rows) for rows, n in batches.items()) / 10
    rows = sum(rows * n for rows, n in batches.items()) / 10
    moved = 6 * (hit * EXPERT + rows * 2 * (6144 + 4 * 1536 + 4 * 768 + 6144))
    assert row.bytes == pytest.approx(moved)
    trace = next(LIVE.rglob("*.pt.trace.json.gz"))
    spent = decode_time_us(events_of(trace), "fused_moe_kernel")
    assert row.observed_ns == pytest.approx(spent / 10 * 1e3, rel=1e-3)
    assert row.ratio is not None and 1.2 < row.ratio < 1.45


def decode_time_us(events: list[dict[str, Any]], name: str) -> float:
    """Kernels of this name that graph launches of the trace own: the decode steps are its only graphs."""
    graphs = {e["args"]["correlation"] for e in events if "GraphLaunch" in e.get("name", "") and "args" in e}
    kernels = (e for e in events if e.get("cat") == "kernel" and name in e["name"])
    return sum(e["dur"] for e in kernels if e["args"]["correlation"] in graphs)


def test_contexts_are_those_of_the_steps_in_the_window() -> None:
    """Prompts of 3,000 tokens were decoded in the window, and of 16 outside: the guests' rows tell them apart."""
    found, _ = judged(open_recording([LIVE]))
    assert found.decode is not None and found.decode.context is not None
    assert 2600 < found.decode.context < 3100


def test_real_recordings_have_no_time_below_a_floor() -> None:
    for path in (GRAPH, LIVE):
        found, findings = judged(open_recording([path]))
        assert not [name for name in findings if "below_floor" in name]
        assert all(row.ratio is None or row.ratio > 1 for row in found.rows)
