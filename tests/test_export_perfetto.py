"""``export --to perfetto``, read back with the package's message classes: times, names and what was judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from builders import kernel, launch, op, recording, step, write_trace
from export_kit import GRAPH, export, ns, perfetto, raw_events, unjudged
from joining_kit import MIDNIGHT_NS, at, trace
from metrics_kit import START, page

from m3probe import exporting
from m3probe.errors import UnreadableInput

DECODE = "execute_context_0(0)_generation_2(2)"
GEMM = "Cijk_Alik_Bljk_MT16x16"


def small(folder: Path) -> Path:
    """Two decode steps: a GEMM and an attention kernel in the first, a GEMM that overlaps another in the second."""
    events = [
        step(100.0, 50.0, DECODE),
        op(101.0, 10.0, "aten::mm", [[2, 8], [8, 4]]),
        launch(102.0, 1),
        launch(104.0, 2),
        kernel(110.0, 20.0, 1, GEMM, stream=7, grid=[3, 2, 1]),
        kernel(130.5, 4.25, 2, "_gqa_sparse_decode_kernel", stream=7),
        step(200.0, 50.0, DECODE),
        launch(202.0, 3),
        launch(203.0, 4),
        kernel(210.0, 10.0, 3, GEMM, stream=7),
        kernel(215.0, 10.001, 4, GEMM, stream=7),
    ]
    return write_trace(folder / "t.json", events, baseTimeNanoseconds=MIDNIGHT_NS)


def test_kernels_lie_at_their_nanosecond_with_what_is_known_of_them(tmp_path: Path) -> None:
    done = export(small(tmp_path), "perfetto", tmp_path / "t.pftrace")
    tracks = perfetto(tmp_path / "t.pftrace")
    stream = tracks["rank 0", "GPU 0 stream 7"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS) for start, end, _, _ in stream] == [
        (110_000, 130_000),
        (130_500, 134_750),
        (210_000, 220_000),
    ]
    args = {
        "family": "gemm",
        "grid": "3 x 2 x 1",
        "op": "aten::mm",
        "dims": "[[2, 8], [8, 4]]",
        "step": 0,
        "correlation": 1,
    }
    assert stream[0][2:] == (GEMM, args)
    overlap = tracks["rank 0", "GPU 0 stream 7 (overlaps 1)"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS) for start, end, _, _ in overlap] == [(215_000, 225_001)]
    assert done.lost == ()
    drawn = sum(len(track.slices) + len(track.instants) + len(track.values) for track in tracks.values())
    assert drawn == done.files[0].rows + 1  # and the instant that says what the file is


def test_steps_phases_and_families_stand_beside_the_kernels(tmp_path: Path) -> None:
    export(small(tmp_path), "perfetto", tmp_path / "t.pftrace")
    tracks = perfetto(tmp_path / "t.pftrace")
    steps = tracks["rank 0", "steps (host)"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS, name) for start, end, name, _ in steps] == [
        (100_000, 150_000, DECODE),
        (200_000, 250_000, DECODE),
    ]
    assert steps[0][3]["phase"] == "decode"
    assert (steps[0][3]["rows"], steps[0][3]["requests"]) == (2, 2)
    phases = tracks["rank 0", "phases (GPU)"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS, name) for start, end, name, _ in phases] == [
        (110_000, 134_750, "decode"),
        (210_000, 225_001, "decode"),
    ]
    runs = tracks["rank 0", "families GPU 0"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS, name, args["kernels"]) for start, end, name, args in runs] == [
        (110_000, 130_000, "gemm", 1),
        (130_500, 134_750, "sparse_attention", 1),
        (210_000, 225_001, "gemm", 2),
    ]


def test_a_family_fills_no_time_in_which_only_another_stream_runs(tmp_path: Path) -> None:
    """A GEMM of 100 us on one stream, 10 us of attention beside it on another."""
    events = [
        launch(102.0, 1),
        launch(104.0, 2),
        kernel(110.0, 100.0, 1, GEMM, stream=7),
        kernel(120.0, 10.0, 2, "_gqa_sparse_decode_kernel", stream=8),
    ]
    path = write_trace(tmp_path / "t.json", events, baseTimeNanoseconds=MIDNIGHT_NS)
    export(path, "perfetto", tmp_path / "t.pftrace")
    runs = perfetto(tmp_path / "t.pftrace")["rank 0", "families GPU 0"].slices
    assert [(start - MIDNIGHT_NS, end - MIDNIGHT_NS, name) for start, end, name, _ in runs] == [
        (110_000, 120_000, "gemm"),
        (120_000, 130_000, "sparse_attention"),
    ]


def test_a_path_has_its_verdict_and_its_calls_in_each_step(tmp_path: Path) -> None:
    export(small(tmp_path), "perfetto", tmp_path / "t.pftrace")
    tracks = perfetto(tmp_path / "t.pftrace")
    found = tracks["rank 0", "path sparse_attention"].slices
    assert [args["calls in this step"] for _, _, _, args in found] == [1, 0]
    assert all("(1 of 2 steps)" in name for _, _, name, _ in found)
    # nothing of this trace tells anything of them
    assert ("rank 0", "path quick_reduce") not in tracks


def test_calls_of_the_host_are_nested_and_asked_for(tmp_path: Path) -> None:
    export(small(tmp_path), "perfetto", tmp_path / "t.pftrace")
    assert not [name for _, name in perfetto(tmp_path / "t.pftrace") if "thread" in name]
    events = [op(0.5, 10.0, "outer"), op(1.0, 2.0, "first"), op(3.0, 2.0, "second"), op(4.0, 20.0, "crosses")]
    export(write_trace(tmp_path / "h.json", events), "perfetto", tmp_path / "h.pftrace", host=True, judged=False)
    tracks = perfetto(tmp_path / "h.pftrace")
    ops = tracks["rank 0", "operators of thread 1 (1)"].slices
    assert [(start, end, name) for start, end, name, _ in ops] == [
        (1_000, 3_000, "first"),
        (3_000, 5_000, "second"),
        (500, 10_500, "outer"),
    ]
    assert [name for _, _, name, _ in tracks["rank 0", "operators of thread 1 (1) (overlaps 1)"].slices] == ["crosses"]


def test_counts_and_sums_of_a_real_trace_are_those_of_plain_json(tmp_path: Path) -> None:
    done = export(GRAPH, "perfetto", tmp_path / "g.pftrace", judged=False)
    tracks = perfetto(tmp_path / "g.pftrace")
    kernels = [e for e in raw_events(GRAPH) if e.get("ph") == "X" and e.get("cat") == "kernel"]
    wanted, wanted_ns = Counter(), Counter()
    for event in kernels:
        wanted[event["args"]["stream"]] += 1
        wanted_ns[event["args"]["stream"]] += ns(event["dur"])
    counted, counted_ns = Counter(), Counter()
    for (_, name), track in tracks.items():
        if name.startswith("GPU 0 stream") and "copies" not in name:
            stream = int(name.split()[3])
            counted[stream] += len(track.slices)
            counted_ns[stream] += sum(end - start for start, end, _, _ in track.slices)
    assert (counted, counted_ns) == (wanted, wanted_ns)
    names = Counter(event["name"] for event in kernels)
    assert len(names) < len(kernels) / 10
    assert done.files[0].bytes < 200 * done.files[0].rows  # names are written once
    assert max(map(len, names)) > 400


def test_queues_and_health_are_counters_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    begins = [0.0, 1.0]
    traced = trace(tmp_path / "t.json", begins, base=START * 10**9, events=[kernel(5.0, 1.0, 0, GEMM)])
    for second, waiting in ((0, 3), (1, 5)):
        values = {"num_requests_running": 8, "num_requests_waiting": waiting, "kv_cache_usage_perc": 0.25}
        (tmp_path / f"metrics_{START + second}.000.prom").write_text(page(values))
    smi = tmp_path / "smi.csv"
    # START is 2025-11-24T16:00:00Z
    smi.write_text(
        "timestamp, index, name, utilization.gpu [%], power.draw [W]\n"
        "2025/11/24 16:00:00.500, 0, NVIDIA H200, 50 %, 400.00 W\n"
        "2025/11/24 16:00:01.500, 0, NVIDIA H200, 70 %, [N/A]\n"
    )
    pages = sorted(tmp_path.glob("*.prom"))
    export([traced, *pages, smi], "perfetto", tmp_path / "t.pftrace", judged=False)
    tracks = perfetto(tmp_path / "t.pftrace")
    counters = {name: (track.values, track.unit) for (_, name), track in tracks.items() if track.values}
    first, second = START * 10**9, (START + 1) * 10**9
    assert counters["waiting (engine 0)"] == ([(first, 3.0), (second, 5.0)], "requests")
    assert counters["KV cache in use (engine 0)"] == ([(first, 25.0), (second, 25.0)], "%")
    assert counters["GPU 0 busy_pct"] == ([(first + 5 * 10**8, 50.0), (second + 5 * 10**8, 70.0)], "%")
    assert counters["GPU 0 power_w"] == ([(first + 5 * 10**8, 400.0)], "W")  # what was not told is no value
    assert tracks["rank 0", "GPU 0 stream 0"].slices[0][0] == first + 5_000


def test_what_is_on_another_clock_is_left_out_and_said(tmp_path: Path) -> None:
    traced = trace(tmp_path / "t.json", [1.0], base=None, events=[kernel(5.0, 1.0, 0, GEMM)])
    scraped = tmp_path / f"metrics_{START}.000.prom"
    scraped.write_text(page({"num_requests_running": 8}))
    done = export([traced, scraped], "perfetto", tmp_path / "t.pftrace", judged=False)
    tracks = perfetto(tmp_path / "t.pftrace")
    assert tracks["rank 0", "GPU 0 stream 0"].slices[0][:2] == (5_000, 6_000)
    assert not [track for track in tracks.values() if track.values]
    assert [sentence for sentence in done.lost if "another clock" in sentence and "metrics_" in sentence]


def test_findings_stand_at_their_evidence(tmp_path: Path) -> None:
    events = [step(100.0, 50.0, DECODE), launch(102.0, 1), kernel(110.0, 20.0, 1, GEMM)]
    events += [kernel(300.0 + n, 0.5, 90 + n, GEMM) for n in range(3)]
    export(write_trace(tmp_path / "t.json", events), "perfetto", tmp_path / "t.pftrace")
    found = perfetto(tmp_path / "t.pftrace")["rank 0", "findings"].instants
    assert {name.partition(".")[0] for _, name, _ in found} >= {"paths"}
    assert all(args["claim"] and args["verdict"] for _, _, args in found)


def test_damaged_times_are_counted_and_not_drawn(tmp_path: Path) -> None:
    events = [kernel(5.0, 1.0, 0, GEMM), kernel(6.0, -2.0, 0, GEMM), kernel(7.0, 2.0**50, 0, GEMM)]
    del (untimed := kernel(0.0, 1.0, 0, GEMM))["ts"]
    done = export(
        write_trace(tmp_path / "t.json", [*events, untimed]), "perfetto", tmp_path / "t.pftrace", judged=False
    )
    tracks = perfetto(tmp_path / "t.pftrace")
    assert len(tracks["rank 0", "GPU 0 stream 0"].slices) == 1
    assert any(sentence.startswith("3 of rank 0: GPU 0 stream 0 have no place") for sentence in done.lost)


def test_no_name_breaks_a_file(tmp_path: Path) -> None:
    names = ["lone", "nul\x00", "\x1b[2J", "", "名前", "x" * 100_000, "<script>"]
    events = [kernel(10.0 * n, 1.0, 0, name) for n, name in enumerate(names, 1)]
    rec = recording(tmp_path, events)
    rec.strings.texts[rec.strings.find("lone")] = "a\ud800b"  # our reader of JSON takes no lone surrogate
    asked = exporting.asked("perfetto", [tmp_path], tmp_path / "t.pftrace")
    asked.write(rec, unjudged(rec))
    found = [name for _, _, name, _ in perfetto(tmp_path / "t.pftrace")["rank 0", "GPU 0 stream 0"].slices]
    assert found[:5] + found[6:] == ["a\\ud800b", "nul\\x00", "\\x1b[2J", "", "名前", "<script>"]
    assert found[5] == f"{'x' * (65_536 - 64)}... (100,000 characters, crc32 fe071171)"  # by zlib of the whole name


def test_more_names_than_messages_are_kept(tmp_path: Path) -> None:
    events = [kernel(float(n + 1), 0.5, 0, f"kernel_{n}") for n in range(4_500)]
    export(write_trace(tmp_path / "t.json", events), "perfetto", tmp_path / "t.pftrace", judged=False)
    found = perfetto(tmp_path / "t.pftrace")["rank 0", "GPU 0 stream 0"].slices
    assert [name for _, _, name, _ in found] == [f"kernel_{n}" for n in range(4_500)]


def test_the_file_says_what_it_is_of(tmp_path: Path) -> None:
    export(small(tmp_path), "perfetto", tmp_path / "t.pftrace")
    (when, name, args) = perfetto(tmp_path / "t.pftrace")["m3probe", "about this file"].instants[0]
    assert (name, args["made_by"], args["outcome"], args["trust"]) == (
        "m3probe export",
        "m3probe export",
        "ok_with_warnings",
        "complete",
    )
    assert when == at(0) + 100_000


def test_nothing_with_a_time_is_an_error(tmp_path: Path) -> None:
    from tree import shared_or_skip

    with pytest.raises(UnreadableInput, match="none of its rows has a place on a clock"):
        export(shared_or_skip("cases/b01_serve_v033.json"), "perfetto", tmp_path / "t.pftrace")
    assert list(tmp_path.iterdir()) == []
