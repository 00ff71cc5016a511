"""Faults that a tester found in inputs, each with the smallest input that showed it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from rich.cells import cell_len
from tree import ROOT

from m3probe.model.report import QueuesSection
from m3probe.pipeline import analyze, inspect, read
from m3probe.present.inspect_text import inspect_text
from m3probe.present.json import report_json
from m3probe.rules.formula import FormulaError, read_formula

HEADER = "timestamp, index, clocks.sm [MHz], temperature.gpu, ecc.errors.uncorrected.volatile.total\n"
AT = "2026/11/20 10:00:00.000"


def csv(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "smi.csv"
    path.write_text(HEADER + "".join(f"{AT}, {row}\n" for row in rows), newline="")
    return path


def test_a_lone_carriage_return_leaves_its_row_out(tmp_path: Path) -> None:
    found = inspect(read([csv(tmp_path, "0, 1980 MHz, 50, 0", "0, 1980 MHz\rx, 50, 0")]))
    assert (str(found.outcome), found.facts["gpus"]) == ("partial", 1)


def test_an_index_below_zero_is_no_gpu_s(tmp_path: Path) -> None:
    rec = read([csv(tmp_path, "-1, 1980 MHz, 50, 1", "0, 1980 MHz, 50, 0")])
    assert inspect(rec).facts["gpus"] == 1
    findings = analyze([csv(tmp_path, "-1, 1980 MHz, 50, 1", "0, 1980 MHz, 50, 0")]).answer.findings
    assert not [f for f in findings if "uncorrected" in f.claim]


@pytest.mark.parametrize("config", ["a=1, b=1", "model='x', tensor_parallel_size=4"])
def test_a_log_without_its_parallel_sizes_has_those_that_it_tells(config: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"INFO 11-20 10:00:00 [core.py:5] Initializing a V1 LLM engine (v0.33.0) with config: {config}\n")
    sizes = {key: value for key, value in inspect(read([log])).facts.items() if key.endswith("_parallel_size")}
    assert sizes == ({"tensor_parallel_size": 4} if "tensor" in config else {})


def test_a_report_on_readings_of_devices_fits_the_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    said = json.loads(report_json(analyze([csv(tmp_path, "0, 1980 MHz, 50, 0")])))
    jsonschema.validate(said, schema)
    assert said["meta"]["files"][0]["role"] == "device"


def test_a_number_that_is_nearly_whole_is_shown_as_it_is() -> None:
    with pytest.raises(FormulaError, match=r"is 6\.0000000001, which is no whole number"):
        read_formula("6.0000000001")


def test_a_run_that_cannot_be_is_not_told_as_a_queue(tmp_path: Path) -> None:
    """100 requests in 100 s are 1/s and not 3; at 3/s and 5 s of TTFT 15 of 10 requests would wait."""
    run = {
        "model_id": "m",
        "duration": 100.0,
        "completed": 100,
        "request_throughput": 3.0,
        "max_concurrency": 10,
        "mean_ttft_ms": 5000.0,
        "median_ttft_ms": 5000.0,
        "mean_tpot_ms": 50.0,
        "total_input_tokens": 1000,
        "total_output_tokens": 10100,
    }
    path = tmp_path / "rate.json"
    path.write_text(json.dumps(run))
    section = analyze([path]).answer.section(QueuesSection)
    assert section is not None
    assert "contradict each other" in section.queues["prefill"]
    assert "15.0" not in section.queues["prefill"] and "30.0" not in section.queues["outside_vllm"]


@pytest.mark.parametrize("width", [40, 80])
def test_lines_of_inspect_are_measured_in_cells(width: int) -> None:
    label = "日" * 60  # 120 cells
    text = inspect_text("prometheus", "ok", {"engines": [label, "0"]}, [f"engine {label} is gone"], width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert text.count("日") == 120
