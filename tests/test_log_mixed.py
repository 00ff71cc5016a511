"""Logs beside everything else that ``assert`` takes: traces, profile folders with what vLLM lays there, live recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace
from log_kit import READY, START, args_line, config_line, record, written
from tree import ROOT

from m3probe import pipeline
from m3probe.model.judgement import Judgement
from m3probe.model.recording import Recording
from m3probe.model.report import TrustSection
from m3probe.rules import judge, load_rules

LIVE = ROOT / "samples/live-cpu-moe-tp2"
TRITON = record("Using 'TRITON' MxFp8 MoE backend.", source="mxfp8.py:139")
TABLE = """-------  ------------  ------------
   Name  Self CUDA     # of Calls
-------  ------------  ------------
      k     250.250ms            96
-------  ------------  ------------
"""


def profile_folder(folder: Path, ranks: int = 2) -> Path:
    """As vLLM's torch profiler leaves it: a trace and a table for each rank, and the capture traces."""
    (folder / "capture_traces").mkdir(parents=True)
    for rank in range(ranks):
        events = [step(0.0, 900.0, "execute_context_0(0)_generation_8(8)"), launch(10.0, 1)]
        events.append(kernel(15.0, 4.0, 1, "fused_moe_kernel"))
        info = {"rank": rank, "world_size": ranks}
        name = f"dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.1.pt.trace.json"
        write_trace(folder / name, events, distributedInfo=info, vllm_version="0.33.0")
        captured = [step(0.0, 90.0, "capture_8_FULL"), launch(1.0, 0, "hipStreamBeginCapture")]
        captured.append(launch(5.0, 0, "hipExtModuleLaunchKernel", kernel="fused_moe_kernel"))
        captured.append(launch(8.0, 0, "hipStreamEndCapture"))
        write_trace(folder / "capture_traces" / f"graph_capture_rank_{rank}.1.pt.trace.json", captured)
        (folder / f"profiler_out_{rank}.txt").write_text(TABLE)
    return folder


def two_ranks(*more: str) -> tuple[str, ...]:
    return (args_line(tensor_parallel_size=2), config_line(tensor_parallel_size="2"), READY, *more)


def asserted(tmp_path: Path, rules: str, *paths: Path) -> Judgement:
    file = tmp_path / "rules.toml"
    file.write_text(rules)
    rec = pipeline.read(paths)
    return judge(load_rules(file), rec, pipeline.report(rec).answer)


def roles(rec: Recording) -> list[str]:
    return sorted(file.role for file in rec.files if file.role != "summary")


COUNTS = '[require]\ntrust = "complete"\n[[rule]]\nkernel = "fused_moe_kernel"\nphase = "decode"\nper_step = 1\n'
OFF = '[[rule]]\npath = "kv_transfer"\nverdict = "off"\nphase = "decode"\n'


def test_a_profile_folder_with_a_log_in_it_or_beside_it(tmp_path: Path) -> None:
    """What the log adds is the configuration; counts and trust are those of the folder."""
    folder = profile_folder(tmp_path / "profile")
    bare = asserted(tmp_path, COUNTS + OFF, folder)
    assert bare.exit_code == 4
    assert [str(r.outcome) for r in bare.results] == ["holds", "holds", "inconclusive"]
    beside = written(tmp_path / "vllm.out", *two_ranks(TRITON))
    assert asserted(tmp_path, COUNTS + OFF, folder, beside).exit_code == 0
    shutil.copy(beside, folder / "server.log")
    assert asserted(tmp_path, COUNTS + OFF, folder).exit_code == 0
    rec = pipeline.read([folder])
    assert roles(rec) == ["capture", "capture", "log", "rank", "rank"]
    assert (rec.meta.tp, len(rec.meta.logs)) == (2, 1)


def test_a_live_recording_and_the_log_of_another_server(tmp_path: Path) -> None:
    """The recording is of 0.32.0 at TP2: its own configuration counts, and the log is told to be another one's."""
    rules = '[[rule]]\npath = "moe_backend"\nverdict = "executed"\n[[rule]]\npath = "graph_replay"\nverdict = "off"\n'
    log = written(tmp_path / "server.log", *START)
    assert asserted(tmp_path, rules, LIVE, log).exit_code == 0
    rec = pipeline.read([LIVE, log])
    assert rec.meta.recipe is not None
    assert rec.meta.recipe.source == "what the server itself resolved"
    ids = [f.id for f in pipeline.report(rec).answer.findings]
    assert "paths.log_of_another_server" in ids


def test_everything_at_once_is_one_recording(tmp_path: Path) -> None:
    folder, log = profile_folder(tmp_path / "profile"), written(tmp_path / "a", *two_ranks())
    rec = pipeline.read([log, LIVE, folder])
    assert set(roles(rec)) == {"log", "guest", "capture", "rank"}
    json.dumps(pipeline.inspect(rec).facts)


def test_a_log_of_another_program_is_no_loss_to_a_folder(tmp_path: Path) -> None:
    folder = profile_folder(tmp_path / "profile")
    (folder / "nginx.log").write_text("127.0.0.1 - - GET /\n" * 50)
    (folder / "empty.log").write_bytes(b"")
    rec = pipeline.read([folder])
    assert rec.meta.logs == ()
    assert [note.word for note in rec.notes if note.lossy] == []
    section = pipeline.report(rec).answer.section(TrustSection)
    assert section is not None
    assert section.trust.verdict == "complete"


@pytest.mark.parametrize("name", ["x.log", "x"])
def test_a_log_that_is_named_is_read_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    rec = pipeline.read([written(tmp_path / name, *START)])
    assert [file.kind for file in rec.files] == ["vllm-log"]
    section = pipeline.report(rec).answer.section(TrustSection)
    assert section is not None
    (reason,) = section.trust.reasons
    assert (section.trust.verdict, reason.word) == ("unusable", "log_only")
