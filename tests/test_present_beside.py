"""A report on inputs that hold nothing that ran on a device: no blocks of dashes, and no findings on paths that none can show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tree import ROOT

from m3probe.pipeline import analyze
from m3probe.present.text import report_text

CASES = ROOT / "tests" / "data" / "cases"
BENCH = next(CASES.rglob("b20_pd_1024.json"))
LOG = next(CASES.rglob("l06_backend_potential_list.log"))
SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"


def headings(*inputs: Path) -> list[str]:
    text = report_text(analyze(list(inputs)), 100, color=False)
    return [line.split("  ")[0] for line in text.splitlines() if line.endswith("───")]


def test_results_alone_have_their_blocks_and_no_other() -> None:
    assert headings(BENCH) == ["1 to 4", "Benchmark", "5 queues", headings(BENCH)[-1]]
    assert not [f for f in analyze([BENCH]).answer.findings if f.question == "paths"]


def test_a_log_alone_has_the_paths_that_it_speaks_of() -> None:
    assert "4 paths" in headings(LOG)
    assert "1 shapes" not in headings(LOG)


@pytest.mark.parametrize("beside", [BENCH, LOG], ids=["bench", "log"])
def test_a_trace_beside_them_has_all_blocks(beside: Path, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    for path in (SAMPLE, beside):
        shutil.copy(path, folder)
    found = headings(folder)
    assert {"What ran", "1 shapes", "2 repeats", "3 bytes", "4 paths", "5 queues"} <= set(found)
