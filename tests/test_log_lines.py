"""Lines of server logs in every form that vLLM and those around it write: who said what, and what is only noise."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from log_kit import START, log_of, opened, record, written

from m3probe.errors import UnreadableInput
from m3probe.model.server_log import LogKind, ServerLog
from m3probe.readers._log_lines import MOST_LINE
from m3probe.sources import open_recording

CHOSE = "Using ROCM_AITER_FA backend (selected via --attention-backend)."
ROCM = "rocm.py:546"


def attention(log: ServerLog) -> list[tuple[str, str, int | None]]:
    return [(line.process, line.value, line.rank) for line in log.of(LogKind.ATTENTION)]


@pytest.mark.parametrize(
    ("line", "process", "rank"),
    [
        (f"(Worker_TP2 pid=9) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "Worker_TP2", 2),
        (f"(Worker_TP3_EP3 pid=9) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "Worker_TP3_EP3", 3),
        (f"(VllmWorker TP1 pid=9) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "VllmWorker TP1", 1),
        (f"[Worker_TP0 pid=9] INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "Worker_TP0", 0),
        (f"INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "", None),
        (f"INFO 02-22 22:08:58 {ROCM}] {CHOSE}", "", None),
        (f"vllm-1  | (Worker_TP1 pid=9) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "Worker_TP1", 1),
        (f"2026-05-12T08:01:39.331095044Z INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "", None),
        (f"node7: (Worker_TP1 pid=9) INFO 11-20 10:00:00 [v1/worker/{ROCM}] {CHOSE}", "Worker_TP1", 1),
        (
            (f"(EngineCore pid=1) (RayWorkerWrapper pid=2, ip=10.0.0.1) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}"
            " [repeated 3x across cluster]"),
            "RayWorkerWrapper",
            None,
        ),
        (f"\x1b[0;36m(Worker_TP0 pid=9)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-20 10:00:00\x1b[0m \x1b[90m[{ROCM}]\x1b[0m {CHOSE}", "Worker_TP0", 0),
        (f"Loading:   0%|  | 0/7\rLoading: 100%|##| 7/7\r(Worker_TP0 pid=9) INFO 11-20 10:00:00 [{ROCM}] {CHOSE}", "Worker_TP0", 0),
        (
            json.dumps({"asctime": "2026-11-20 10:00:00,1", "levelname": "INFO", "name": "vllm.platforms.rocm",
                        "processName": "Worker_TP0", "process": 8, "message": CHOSE}),
            "Worker_TP0",
            0,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_prefix_is_taken_off_and_says_who_it_was(
    tmp_path: Path, line: str, process: str, rank: int | None, end: str
) -> None:
    assert attention(log_of(tmp_path, line, end=end)) == [(process, "ROCM_AITER_FA", rank)]


@pytest.mark.parametrize(
    ("label", "sizes", "rank"),
    [
        ("Worker_TP1", (4, 1, 1), 1),
        ("Worker_PP1_TP2", (4, 2, 1), 6),
        ("Worker_DP1_TP3", (4, 1, 2), 7),
        ("EngineCore", (1, 1, 1), 0),
        ("EngineCore_DP3", (1, 1, 8), 3),
        ("EngineCore_DP0", (4, 1, 1), None),
        ("APIServer", (1, 1, 1), None),
        ("Worker", (4, 1, 1), None),
    ],
)
def test_a_label_tells_the_global_rank_where_the_sizes_are_known(
    tmp_path: Path, label: str, sizes: tuple[int, int, int], rank: int | None
) -> None:
    """Data-parallel replicas first, then stages, then tensor ranks: (1 x 1 + 0) x 4 + 3 = 7."""
    tp, pp, dp = sizes
    config = f"Initializing a V1 LLM engine (v0.33.0) with config: tensor_parallel_size={tp}, pipeline_parallel_size={pp}, data_parallel_size={dp}"
    log = log_of(tmp_path, record(config, "EngineCore pid=1"), record(CHOSE, f"{label} pid=2", source=ROCM))
    assert attention(log) == [(label, "ROCM_AITER_FA", rank)]


def test_a_prompt_that_looks_like_a_choice_is_none(tmp_path: Path) -> None:
    """What clients send stands in lines of logger.py, and inside of other sentences."""
    log = log_of(
        tmp_path,
        record(CHOSE, "APIServer pid=1", source="logger.py:49"),
        record(f"Received request cmpl-1: prompt: '{CHOSE}'", "APIServer pid=1"),
        f'{{"prompt": "{CHOSE}"}}',
        f"(APIServer pid=1) {CHOSE}",
    )
    assert log.said == ()
    assert log.counts.records == 2


def test_lines_that_say_the_same_are_one_statement_with_a_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[record(CHOSE, source=ROCM)] * 3, record(CHOSE, "Worker_TP1 pid=8", source=ROCM))
    assert [(line.process, line.number, line.count) for line in log.said] == [
        ("Worker_TP0", 1, 3),
        ("Worker_TP1", 4, 1),
    ]


def test_a_log_is_known_by_its_content_and_may_be_gzip(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(("x\n" * 500 + record(CHOSE, source=ROCM) + "\n").encode()))
    assert attention(opened(path)) == [("Worker_TP0", "ROCM_AITER_FA", 0)]


@pytest.mark.parametrize("text", ["hello\nworld\n", "INFO: started\n", "2026-01-01 INFO main.py:3: x\n", "\0" * 5000])
def test_a_text_of_another_program_is_no_log_of_vllm(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    with pytest.raises(UnreadableInput, match="not a trace"):
        open_recording([path])


# --- hostile ------------------------------------------------------------------------------------------------------


def test_one_endless_line_is_cut_and_told_and_what_follows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with path.open("wb") as file:
        file.write(record("before").encode() + b"\n")
        for _ in range(12):
            file.write(b"x" * MOST_LINE)
        file.write(b"\n" + record(CHOSE, source=ROCM).encode() + b"\n")
    rec = open_recording([path])
    assert attention(rec.meta.logs[0]) == [("Worker_TP0", "ROCM_AITER_FA", 0)]
    assert [(n.word, n.count, n.lossy) for n in rec.notes] == [("long_line", 1, False)]
    assert rec.meta.logs[0].counts.records == 2


def test_a_choice_far_into_a_long_line_is_not_looked_for(tmp_path: Path) -> None:
    log = log_of(tmp_path, record("before"), "y" * (MOST_LINE + 10) + record(CHOSE, source=ROCM))
    assert (log.said, log.counts.cut) == ((), 1)


def test_bad_bytes_are_told_and_the_rest_of_their_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "l"
    bad = record("Using \0\xff backend", source=ROCM).encode("latin-1") + b"\n"
    path.write_bytes(b"\0" * 100 + record(CHOSE, source=ROCM).encode() + b"\n" + bad)
    rec = open_recording([path])
    assert [line.value for line in rec.meta.logs[0].said] == ["ROCM_AITER_FA"]
    assert [(n.word, n.count) for n in rec.notes] == [("repaired_lines", 2)]


def test_a_flood_of_different_statements_keeps_the_first_of_each_kind(tmp_path: Path) -> None:
    """300 of 1,000 shapes without a tuned row are kept, and the choice that comes last is not lost for it."""
    untuned = [f"(Worker_TP0 pid=9) [aiter] shape M:{m}, N:1, K:2 not found tuned config in a.csv" for m in range(1000)]
    log = log_of(tmp_path, record("x"), *untuned, record(CHOSE, source=ROCM))
    assert len(log.of(LogKind.UNTUNED)) == 300
    assert (log.counts.beyond, log.counts.foreign) == (700, 1000)
    assert attention(log) == [("Worker_TP0", "ROCM_AITER_FA", 0)]


def test_a_log_that_ends_in_the_middle_of_its_configuration_has_no_such_sizes(tmp_path: Path) -> None:
    text = "\n".join(START)
    path = tmp_path / "l"
    path.write_text(text[: text.index("pipeline_parallel_size=1")])
    log = opened(path)
    assert log.asked is not None
    assert log.config is not None
    assert "data_parallel_size" not in log.config


def test_escapes_of_a_terminal_reach_no_statement(tmp_path: Path) -> None:
    path = written(tmp_path / "l", record("Using \x1b]0;owned\x07EVIL\x1b[2J backend.", source=ROCM))
    assert [line.value for line in opened(path).said] == ["EVIL"]
