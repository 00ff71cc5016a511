"""Two real exports of nsys 2025.3 from an H200 (benchmarks/device/nsys_steps.py): the kernels of every step are known.

Two prefill steps launch 3 matrix products and 5 additions each, eight decode steps replay one graph of the same.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tree import ROOT

from m3probe import pipeline
from m3probe.model.recording import Recording
from m3probe.model.report import SummarySection, TrustSection
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES

DATA = ROOT / "tests" / "data" / "nsys"
GEMMS, ADDS = 3, 5


def read(name: str) -> Recording:
    return pipeline.read([DATA / f"h200-{name}.sqlite.gz"])


def plain(name: str, query: str, folder: Path) -> tuple[int, ...]:
    """The first row of a query, by sqlite3 alone."""
    path = folder / f"{name}.sqlite"
    path.write_bytes(gzip.decompress((DATA / f"h200-{name}.sqlite.gz").read_bytes()))
    with sqlite3.connect(path) as base:
        row: tuple[int, ...] = base.execute(query).fetchone()
    base.close()
    return row


@pytest.mark.parametrize("name", ["node", "graph"])
def test_counts_and_times_are_those_of_a_plain_reader(name: str, tmp_path: Path) -> None:
    kernels = read(name).kernels
    count, total = plain(name, "select count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL", tmp_path)
    assert (len(kernels), int(kernels["dur_ns"].sum())) == (count, total)


def test_each_step_owns_the_kernels_that_were_launched_in_it() -> None:
    rec = read("node")
    steps, kernels = rec.steps, rec.kernels
    assert [PHASES[p] for p in steps["phase"]] == ["prefill"] * 2 + ["decode"] * 8
    assert [GRAPH_MODES[m] for m in steps["graph_mode"]] == ["NONE"] * 2 + ["FULL"] * 8
    assert steps["rows"].tolist() == [4000] * 2 + [8] * 8
    for step in range(10):
        families = Counter(str(FAMILIES[f]) for f in kernels["family"][kernels["step"] == step])
        assert families == {"gemm": GEMMS, "elementwise": ADDS}
    assert np.count_nonzero(kernels["in_graph"]) == 8 * (GEMMS + ADDS)


def test_graphs_recorded_as_wholes_hide_their_kernels_and_nothing_else() -> None:
    rec = read("graph")
    owned = np.bincount(rec.kernels["step"][rec.kernels["step"] >= 0], minlength=10)
    assert owned.tolist() == [GEMMS + ADDS] * 2 + [0] * 8
    answer = pipeline.report(rec).answer
    trust, summed = answer.section(TrustSection), answer.section(SummarySection)
    assert trust is not None
    assert trust.trust.verdict == "degraded"
    assert [reason.word for reason in trust.trust.reasons] == ["graph_launches_without_kernels"]
    assert summed is not None
    assert summed.summary.graph_launches == 8


def test_the_device_is_named() -> None:
    device = read("node").meta.devices[0]
    assert (device.name, device.units) == ("NVIDIA H200", 132)
