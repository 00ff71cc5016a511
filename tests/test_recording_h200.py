"""The bundled recordings of an H200: MiniMax M3's AMD file in vLLM 0.25.1, nine layers with the shapes of one TP4 rank.

Truth is what was asked of it (docs/recording.md) and the model's config: 3 dense and 6 sparse layers, 6 of them with
experts, graphs for 1, 2, 4, ... 64 rows, prompts in chunks of 8,192 (``graph``) or 4,096 tokens (``attach``).
"""

from __future__ import annotations

import itertools
import re
import statistics
from functools import cache
from pathlib import Path

import pytest
from tree import ROOT

from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.report import Report, ShapesSection
from m3probe.pipeline import analyze, inspect, read, reading
from m3probe.present.text import report_text
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as framed
from m3probe.schema.roles import Role

ATTACH, GRAPH, EAGER = (ROOT / "samples" / f"live-h200-m3-{name}" for name in ("attach", "graph", "eager"))
TP4 = {
    (2304, 6144), (2560, 6144),  # query, key, value; with the indexer's in sparse layers
    (6144, 2048), (6144, 6144), (6144, 3072),  # attention's output, the dense MLP
    (1536, 6144), (6144, 768),  # shared expert, and each routed one
    (128, 6144), (200064, 6144),  # router, LM head
}  # fmt: skip


@cache
def report(sample: Path) -> Report:
    return analyze([sample])


def path(sample: Path, name: str) -> PathRow:
    section = report(sample).answer.section(PathsSection)
    assert section is not None
    return next(row for row in section.paths if row.id == name)


@pytest.mark.parametrize("sample", [ATTACH, GRAPH, EAGER], ids=lambda sample: sample.name)
def test_all_of_it_is_read_and_trusted(sample: Path) -> None:
    assert reading(read([sample]))[0] in {"ok", "ok_with_warnings"}
    assert inspect(read([sample])).facts["trust"] == "complete"


@pytest.mark.parametrize("sample", [ATTACH, GRAPH, EAGER], ids=lambda sample: sample.name)
def test_local_shapes_are_those_of_one_of_four_ranks(sample: Path) -> None:
    section = report(sample).answer.section(ShapesSection)
    assert section is not None
    assert {(row.N, row.K) for row in section.shapes} == TP4


def test_graphs_replay_in_decode_and_prompts_are_too_long_for_them() -> None:
    row = path(GRAPH, "graph_replay")
    assert (row.by_phase["decode"], row.by_phase["prefill"], row.by_phase["mixed"]) == (
        "executed",
        "declined",
        "declined",
    )
    assert any("8,192 rows > 64" in reason for reason in row.reasons)
    assert (path(GRAPH, "moe_backend").verdict, path(GRAPH, "moe_backend").variant) == ("executed", "Triton fused_moe")


def test_an_eager_server_has_its_graphs_off_and_nothing_else_changes() -> None:
    assert path(EAGER, "graph_replay").verdict == "off"
    assert path(EAGER, "sparse_attention").verdict == "executed"


def test_paths_of_another_vendor_are_off_and_not_missed() -> None:
    section = report(ATTACH).answer.section(PathsSection)
    assert section is not None
    verdicts = {row.id: row.verdict for row in section.paths}
    ran = {
        "moe_backend": "executed",
        "router_gemm": "executed",
        "sparse_attention": "executed",
        "graph_replay": "declined",
    }
    assert verdicts == dict.fromkeys(verdicts, "off") | ran


def test_seams_that_this_release_never_had_are_one_line() -> None:
    """Absent at 0.25.1 by docs/seams.md, but one that vLLM sets to None where FlashInfer has no such kernel for the device."""
    text = report_text(report(GRAPH), 100, color=False)
    assert text.count("seams are not in this vLLM") == 1
    assert "9 seams are not in this vLLM" in text
    assert "? not seen: " not in text
    rows = {
        line.split("`")[1]: line for line in (ROOT / "docs/seams.md").read_text().splitlines() if line.startswith("| `")
    }
    named = re.search(r"what is behind them not seen: (.*?) and 3 more", " ".join(text.split()))
    assert named is not None
    seams = set(named[1].split(", ")) - {"comm_fused_flashinfer"}
    assert len(seams) == 5
    assert {rows[seam].split(" | ")[3].strip(" |") for seam in seams} == {"**absent**"}


def test_the_census_of_the_graphs_gives_replayed_gemms_their_shapes() -> None:
    """Under FULL graphs a replay has no operators: of 530 GEMMs in the window's 10 replays the census knows each aten one."""
    rec = read([GRAPH])
    of = rec.tables["graphs"]
    names = {rec.strings[n] for n in of["op"].tolist() if n >= 0}
    assert "aten::mm" in names
    assert len({int(g) for g in of["graph"].tolist()}) >= 14  # 7 FULL graphs, and the pieces of 7 more


def medians(folder: Path, padded: int) -> tuple[float, float]:
    """ms from step to step of FULL decode steps, inside of the profiler window and outside, from the records themselves."""
    (file,) = folder.glob("worker-*.m3p")
    all_ = list(framed(file.read_bytes(), Cut(), len(MAGIC)))
    (window,) = [r for r in all_ if isinstance(r, records.Kernels)]
    steps = sorted((r for r in all_ if isinstance(r, records.StepRow) and r.role is Role.WORKER), key=lambda r: r.step)
    took: dict[bool, list[float]] = {True: [], False: []}
    for a, b in itertools.pairwise(steps):
        alike = (a.phase, a.mode, a.padded_rows) == (b.phase, b.mode, b.padded_rows) == ("decode", "FULL", padded)
        if alike and b.step == a.step + 1 and a.step != window.first_step - 1 and a.t_start and b.t_start:
            took[window.first_step <= a.step < window.first_step + window.steps].append((b.t_start - a.t_start) / 1e6)
    return statistics.median(took[True]), statistics.median(took[False])


def test_what_the_profiler_cost_is_said() -> None:
    (found,) = [f for f in report(ATTACH).answer.findings if f.id == "live.profiled_slower.full.16"]
    inside, outside = medians(ATTACH, 16)
    assert f"{inside:.2f} ms under the profiler and {outside:.2f} ms without it" in found.claim
    assert inside > 1.4 * outside
