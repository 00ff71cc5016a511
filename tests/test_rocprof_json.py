"""rocprofv3's JSON: joins, several processes, damage, and the real file against a plain recount."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rocprof_kit import RCCL, STEP, api, dispatch, of, process, results, told
from tree import shared_or_skip

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.readers import _rocprof_json
from m3probe.schema.verdicts import FAMILIES, Family, Outcome

HIP, MARKER, ALL_GATHER, COPY = (1, 1), (2, 1), (3, 1), (4, 1)


def one_step(**more: Any) -> dict[str, Any]:
    """A GEMM and an all-gather in one step, each by a launch; a copy to the device."""
    copy = {**api(*COPY, 6, 90, 95), "src_agent_id": {"handle": 99}, "dst_agent_id": {"handle": 100}, "bytes": 4096}
    return process(
        markers={9: STEP},
        kernel_dispatch=[dispatch(7, 200, 260, 1), dispatch(8, 300, 340, 4, stream=3)],
        hip_api=[api(*HIP, 1, 110, 115), api(*HIP, 4, 121, 124)],
        rccl_api=[api(*ALL_GATHER, 3, 120, 125)],
        marker_api=[api(*MARKER, 9, 100, 140)],
        memory_copy=[copy],
        **more,
    )


def test_records_are_joined(tmp_path: Path) -> None:
    rec = of(results(tmp_path / "501_results.json", one_step()))
    (file,) = rec.files
    assert (file.pid, file.device, file.gpu, file.rank) == (501, "100", 0, 0)
    assert rec.names("kernels") == ["Cijk_gemm", RCCL]
    assert rec.strings.of(rec.launches["name"][rec.kernels["launch"]].tolist()) == ["hipLaunchKernel"] * 2
    assert rec.names("steps") == [STEP]
    assert rec.kernels["step"].tolist() == [0, 0]
    assert rec.strings.of(rec.ops["collective"].tolist()) == ["allgather"]
    assert rec.kernels["op"].tolist() == [-1, 0]
    assert rec.kernels["family"][1] == FAMILIES.index(Family.COMM)
    assert rec.dims[int(rec.kernels["grid"][0])] == (4, 1, 1)
    assert rec.transfers["payload_bytes"].tolist() == [4096]
    assert rec.transfers["device"].tolist() == [0]
    assert [(d.index, d.name, d.units) for d in rec.meta.devices] == [
        (0, "AMD Instinct MI350X", 256),
        (1, "AMD Instinct MI350X", 256),
    ]
    assert rec.outcome is Outcome.OK


def test_a_copy_is_of_its_gpu_where_no_kernel_tells(tmp_path: Path) -> None:
    """99 is the processor, 100 and 101 are GPU 0 and 1."""
    ends = [(99, 101), (100, 99), (101, 100)]
    copies = [
        {**api(*COPY, 6 + n, 90, 95), "src_agent_id": {"handle": src}, "dst_agent_id": {"handle": dst}, "bytes": 1}
        for n, (src, dst) in enumerate(ends)
    ]
    rec = of(results(tmp_path / "501_results.json", process(memory_copy=copies)))
    assert sorted(zip(rec.transfers["correlation"].tolist(), rec.transfers["device"].tolist(), strict=True)) == [
        (6, 1), (7, 0), (8, 1),
    ]  # fmt: skip
    assert [file.gpu for file in rec.files] == [0, 1]


def test_the_order_of_keys_is_free(tmp_path: Path) -> None:
    document = json.loads(results(tmp_path / "a.json", one_step()).read_text())

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(one) for one in value] if isinstance(value, list) else value

    path = tmp_path / "b.json"
    path.write_text(json.dumps(turned(document), indent=2))
    first, second = of(tmp_path / "a.json"), of(path)
    assert first.names("kernels") == second.names("kernels")
    for column in ("launch", "step", "op", "family", "dur_ns", "stream"):
        assert first.kernels[column].tolist() == second.kernels[column].tolist()


def test_processes_of_one_file_keep_their_correlations(tmp_path: Path) -> None:
    two = [
        process(pid, kernel_dispatch=[dispatch(7, 10, 20 + n, 1, 100 + n)], hip_api=[api(1, 1 + n, 1, 1, 2)])
        for n, pid in enumerate((501, 502))
    ]
    rec = of(results(tmp_path / "out_results.json", *two))
    assert [(f.pid, f.rank) for f in rec.files] == [(501, 0), (502, 1)]
    assert rec.kernels["launch"].tolist() == [0, 1]
    assert rec.kernels["in_graph"].tolist() == [False, True]  # hipGraphLaunch


def test_one_process_on_two_gpus_is_two_ranks(tmp_path: Path) -> None:
    records = [dispatch(7, 10, 20, 1, 101), dispatch(7, 30, 50, 2, 100), dispatch(8, 60, 90, 3, 101)]
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=records)))
    assert [(f.device, f.rank) for f in rec.files] == [("100", 0), ("101", 1)]
    facts = pipeline.inspect(rec).facts
    assert facts["kernel_time_ns_by_agent_handle"] == {"100": 20, "101": 40}
    assert facts["gpus"] == 2


def test_an_agent_that_is_not_listed_is_a_device_without_a_rank(tmp_path: Path) -> None:
    handle = 2**64 - 5
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=[dispatch(7, 10, 20, agent=handle)])))
    assert [(f.device, f.rank) for f in rec.files] == [(str(handle), None)]


def test_without_streams_queues_tell_them_apart(tmp_path: Path) -> None:
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=[dispatch(7, 10, 20, stream=None)])))
    assert rec.kernels["stream"].tolist() == [-16]  # 2**64 - 16 keeps its bits


def test_a_kernel_without_a_symbol_has_no_name(tmp_path: Path) -> None:
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=[dispatch(7, 10, 20), dispatch(55, 30, 40)])))
    assert rec.names("kernels") == ["Cijk_gemm", ""]
    assert "1 kernel(s) whose symbol is not in the file" in told(rec)


@pytest.mark.parametrize(
    "bad", [{"kind": 5}, {**dispatch(7, 10, 20), "start_timestamp": "soon"}, [], "text", None, dispatch(7, 1.5, 20)]
)
def test_a_damaged_record_is_lost_and_counted(tmp_path: Path, bad: Any) -> None:
    records = [dispatch(7, 10, 20), bad, dispatch(8, 30, 40)]
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=records)))
    assert rec.names("kernels") == ["Cijk_gemm", RCCL]
    assert "1 record(s) are not as rocprofv3 writes them" in told(rec)
    assert rec.outcome is Outcome.PARTIAL
    assert pipeline.inspect(rec).facts["trust"] == "degraded"


@pytest.mark.parametrize("time", [2**63, 2**64, -(2**63), 10**30])
def test_a_time_beyond_all_clocks_is_not_known(tmp_path: Path, time: int) -> None:
    records = [dispatch(7, 10, 20), {**dispatch(7, 30, 40), "end_timestamp": time}]
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=records)))
    assert rec.kernels["timed"].tolist()[0]
    assert pipeline.inspect(rec).facts["kernel_time_ns"] == 10


def test_bytes_that_are_no_text_are_written(tmp_path: Path) -> None:
    path = results(tmp_path / "x_results.json", one_step())
    path.write_bytes(path.read_bytes().replace(b"Cijk_gemm", b"Cijk_\xffemm"))
    rec = of(path)
    assert rec.names("kernels")[0] == "Cijk_\\xffemm"
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_half_a_character_is_written(tmp_path: Path) -> None:
    path = results(tmp_path / "x_results.json", one_step())
    path.write_bytes(path.read_bytes().replace(b"Cijk_gemm", rb"Cijk_\ud800"))
    rec = of(path)
    assert rec.names("kernels")[0] == "Cijk_\\ud800"
    pipeline.report(rec)


def test_a_cut_file_keeps_its_whole_records(tmp_path: Path) -> None:
    records = [dispatch(7, 10 * n, 10 * n + 5, n) for n in range(1, 40)]
    whole = results(tmp_path / "x_results.json", process(kernel_dispatch=records)).read_bytes()
    path = tmp_path / "cut_results.json"
    path.write_bytes(whole[: whole.rindex(b'"dispatch_info"')])  # in the last record
    rec = of(path)
    assert (len(rec.kernels), rec.files[0].counts.truncated) == (38, True)
    assert rec.outcome is Outcome.PARTIAL
    path.write_bytes(whole[: whole.index(b'"kernel_symbols"')])
    with pytest.raises(UnreadableInput, match="cut before its first record"):
        of(path)


def test_a_cut_gzip_keeps_its_whole_records(tmp_path: Path) -> None:
    records = [dispatch(7, 10 * n, 10 * n + n % 7, n) for n in range(1, 4_000)]
    packed = gzip.compress(results(tmp_path / "x.json", process(kernel_dispatch=records)).read_bytes())
    path = tmp_path / "x_results.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    rec = of(path)
    assert 0 < len(rec.kernels) < 3_999
    assert rec.kernels["dur_ns"].tolist() == [n % 7 for n in range(1, len(rec.kernels) + 1)]


@pytest.mark.parametrize(
    "text",
    [
        '{"rocprofiler-sdk-tool": []}',
        '{"rocprofiler-sdk-tool": 5}',
        '{"rocprofiler-sdk-tool": [{"agents": "x"}]}',
        '{"rocprofiler-sdk-tool": [' + "[" * 100_000,
        '{"rocprofiler-sdk-tool"',
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [' + '{"a":' * 100_000,
    ],
    ids=["empty", "number", "agents", "deep", "key", "deep records"],
)
def test_what_is_no_such_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x_results.json"
    path.write_text(text)
    with pytest.raises(UnreadableInput) as error:
        of(path)
    assert len(error.value.sentence()) < 500


def test_a_document_without_a_record_says_so(tmp_path: Path) -> None:
    found = pipeline.inspect(of(results(tmp_path / "x_results.json", process())))
    assert found.facts["fast_path_verdict"] == "inconclusive"
    assert any("no kernel rows" in note.text for note in found.warnings)


def test_windows_are_cut_between_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument list holds objects too: a cut inside one must lose nothing."""
    monkeypatch.setattr(_rocprof_json, "_WINDOW", 1_500)
    args = [{"kind": n, "value": {"size": n}} for n in range(4)]
    records = [{**dispatch(7, 10 * n + 1, 10 * n + 4, n), "args": args} for n in range(100)]
    rec = of(results(tmp_path / "x_results.json", process(kernel_dispatch=records)))
    assert rec.kernels["start_ns"].tolist() == [10 * n + 1 for n in range(100)]
    assert rec.outcome is Outcome.OK


def test_the_real_file_equals_a_plain_recount() -> None:
    path = shared_or_skip("traces/rocprof/908_results.json.gz")
    with gzip.open(path) as stream:
        (tool,) = json.load(stream)["rocprofiler-sdk-tool"]
    names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in tool["kernel_symbols"]}
    count, ns = Counter[tuple[str, int, str]](), Counter[tuple[str, int, str]]()
    for one in tool["buffer_records"]["kernel_dispatch"]:
        info = one["dispatch_info"]
        key = (str(info["agent_id"]["handle"]), one["stream_id"]["handle"], names[info["kernel_id"]])
        count[key] += 1
        ns[key] += one["end_timestamp"] - one["start_timestamp"]
    rec = of(path)
    devices = [rec.files[i].device for i in rec.kernels["file"].tolist()]
    keys = list(zip(devices, rec.kernels["stream"].tolist(), rec.names("kernels"), strict=True))
    found = Counter[tuple[str, int, str]]()
    for key, dur in zip(keys, rec.kernels["dur_ns"].tolist(), strict=True):
        found[key] += dur
    assert Counter(keys) == count
    assert found == ns
    assert (len(rec.kernels), len(rec.files), rec.files[0].rank) == (43_915, 1, 0)
    assert len(rec.meta.devices) == 8
