"""Question 4 as pages: the matrix of paths, phases and ranks, and one path whole."""

from dataclasses import replace
from typing import Any

import pytest
from page_kit import (
    GRAPH,
    HOSTILE,
    LIVE,
    column,
    full,
    grid,
    hollow,
    line,
    marks,
    nothing,
    page,
    said,
    sample,
    texts,
    view,
)

from m3probe.model.findings import Evidence, Finding
from m3probe.model.path_report import GateRow, PathCell, PathRow, PathsSection
from m3probe.present.sheets.sheet import Lens, Said
from m3probe.schema.gates import GateState


def cell(rank: int, verdict: str, executed: int, phase: str = "decode") -> PathCell:
    return PathCell(
        rank, phase, verdict, "fast" if executed else "", 10, executed, 2 * executed, 10 - executed, decides=True
    )


def row(name: str, verdict: str, *cells: PathCell, **more: Any) -> PathRow:
    words: dict[str, Any] = {"configured": "yes", "eligible": "yes", "reasons": (), "evidence": ()} | more
    return PathRow(
        name, f"Path {name}", verdict, "fast", {"calls": 7}, names_from_source=False,
        by_phase={c.phase: verdict for c in cells}, cells=cells, **words,
    )  # fmt: skip


EIGHT = tuple(cell(rank, "missed" if rank == 3 else "executed", 0 if rank == 3 else 10) for rank in range(8))


def test_paths_that_need_a_look_come_first_with_glyph_and_word() -> None:
    table = grid(page("paths", full()), "Fast paths")
    order = ["missed", "unexpected", "refused_at_start", "executed", "declined", "unproven", "off"]
    assert marks(table, "verdict") == order
    assert texts(table, "verdict") == [word.replace("_", " ") for word in order]


def test_cell_counts_steps_of_all_ranks_and_says_how_many_ranks_differ() -> None:
    table = grid(page("paths", view(PathsSection((row("a", "missed", *EIGHT),)))), "Fast paths")
    assert texts(table, "decode") == ["missed 70/80, 1 of 8 ranks"]


def test_rank_filter_shows_that_ranks_own_verdict() -> None:
    shown = view(PathsSection((row("a", "missed", *EIGHT),)))
    assert texts(grid(page("paths", shown, Lens(rank=0)), "Fast paths"), "decode") == ["executed 10/10"]
    assert texts(grid(page("paths", shown, Lens(rank=3)), "Fast paths"), "decode") == ["missed 0/10"]


def test_filter_without_a_path_says_which_keys_change_it() -> None:
    table = grid(page("paths", full(), Lens(verdict="missed", rank=9, phase="decode")), "Fast paths")
    one = grid(
        page("paths", view(PathsSection((row("a", "missed", *EIGHT),))), Lens(verdict="off")), "Fast paths 0 of 1"
    )
    assert len(one.lines) == 0
    assert one.empty == "No path with verdict off. Press v to change the filter."
    assert column(table, "path") == ["Path missed"], "a path without cells is left out by no rank"


def test_answer_names_the_worst_and_counts_all() -> None:
    first = page("paths", full()).blocks[0]
    assert isinstance(first, Said)
    assert first.mark == "missed"
    assert first.text.startswith("missed: of 7 fast paths 1 missed, 1 unexpected, 1 refused at start, 1 executed")


def test_executed_beside_unproven_is_no_pass() -> None:
    some = PathsSection((row("a", "unproven", cell(0, "unproven", 0)), row("b", "executed", cell(0, "executed", 10))))
    every = PathsSection((row("b", "executed", cell(0, "executed", 10)), row("c", "off", cell(0, "off", 0))))
    firsts = [page("paths", view(found)).blocks[0] for found in (some, every)]
    assert [(b.text.partition(":")[0], b.mark) for b in firsts if isinstance(b, Said)] == [
        ("in part", ""),
        ("executed", "executed"),
    ]


def test_unproven_leads_before_what_is_off() -> None:
    both = PathsSection((row("b", "off", cell(0, "off", 0)), row("a", "unproven", cell(0, "unproven", 0))))
    first = page("paths", view(both)).blocks[0]
    assert isinstance(first, Said)
    assert (first.text, first.mark) == ("unproven: of 2 fast paths 1 unproven, 1 off", "unproven")


def test_broken_gate_is_said_on_the_matrix() -> None:
    assert "gate broken: KV block = sparse block = 128: KV block 16, sparse block 128" in said(page("paths", full()))


@pytest.mark.parametrize("shown", [hollow(), nothing()])
def test_nothing_judged_is_unproven(shown: object) -> None:
    first = page("paths", shown).blocks[0]  # type: ignore[arg-type]
    assert isinstance(first, Said)
    assert first.mark == "unproven"


def finding(name: str) -> Finding:
    rows = (
        Evidence("kernels", (4, 9), 60, "60 calls of the fallback", "fast"),
        Evidence("steps", (1,), 10, "10 steps"),
    )
    return Finding(f"paths.{name}", "paths", "missed", "It fell back.", "decode", rows, "Set the flag.")


def test_one_path_shows_needs_cells_evidence_gates_and_advice() -> None:
    one = row("a", "missed", *EIGHT, reasons=("rank 3: 1,572,864 B < 16,777,216 B",), gates=("block_equal", "cosine"))
    gates = (GateRow("block_equal", "KV block = sparse block", GateState.HOLDS, "128 and 128"),)
    sheet = page("path/a", view(PathsSection((one,), gates), findings=(finding("a"), finding("a.other"))))
    told = said(sheet)
    assert told[:4] == [
        "Path a is missed, ran as fast",
        "configured: yes",
        "eligible: yes",
        "reason: rank 3: 1,572,864 B < 16,777,216 B",
    ]
    assert told[4] == "What to change: Set the flag.", "what to do stands before what proves it"
    assert sheet.whole, "y copies the page"
    cells = grid(sheet, "By phase and rank")
    assert column(cells, "rank") == list(range(8))
    assert column(cells, "executed") == [10, 10, 10, 0, 10, 10, 10, 10]
    proofs = grid(sheet, "Evidence rows")
    assert [one.opens for one in proofs.lines] == ["evidence/paths.a/0", "evidence/paths.a/1"]
    assert column(proofs, "times") == [60, 10]
    table = grid(sheet, "Gates of correctness")
    assert texts(table, "verdict") == ["holds", "unproven"]
    assert texts(table, "what was recorded") == ["128 and 128", "this gate was not asked"]


def test_what_ran_is_a_table_and_what_is_no_count_stays_a_sentence() -> None:
    evidence = (
        "rank 0: decode: 54 calls of FP32 kernel (CUDA) (a_kernel, b_kernel) in 9 of 10 steps, 6 per step, rows 1 to 8 (kernels)",
        "decode FULL 16 rows: 12,102 of FP32 kernel (CUDA) (facts of capture x counted replays)",
        "decode: 9 graph launches (FULL) x 189 kernels in 9 of 9 steps, 1 per step, rows 8 (kernels)",
        "names seen in real traces: Triton",
        "log: selected moe TRITON (said by EngineCore, server.log.gz:30)",
    )
    sheet = page("path/a", view(PathsSection((row("a", "executed", *EIGHT, evidence=evidence),))))
    table = grid(sheet, "What ran, by kind of step")
    assert texts(table, "kind of step") == ["rank 0: decode", "decode FULL 16 rows", "decode"]
    assert column(table, "calls") == [54, 12_102, 9]
    assert texts(table, "ran as") == ["FP32 kernel (CUDA)", "FP32 kernel (CUDA)", "graph launches (FULL) x 189 kernels"]
    assert texts(table, "kernels") == ["a_kernel, b_kernel", "—", "—"]
    assert texts(table, "in steps") == ["9/10", "—", "9/9"]
    assert texts(table, "rows") == ["1 to 8", "—", "8"]
    assert texts(table, "known by") == ["kernels", "facts of capture x counted replays", "kernels"]
    assert [text for text in said(sheet) if text in evidence] == list(evidence[3:])


def test_unknown_configuration_is_one_sentence_with_its_reason() -> None:
    why = "configured and eligible are unknown: a trace does not say"
    one = row("a", "executed", *EIGHT, configured="unknown", eligible="unknown", reasons=("no kernel", why))
    told = said(page("path/a", view(PathsSection((one,)))))
    assert told[1:3] == ["configured and eligible: unknown: a trace does not say", "reason: no kernel"]


def test_one_path_under_a_rank_filter_shows_that_rank_alone() -> None:
    sheet = page("path/a", view(PathsSection((row("a", "missed", *EIGHT),))), Lens(rank=3))
    assert column(grid(sheet, "By phase and rank"), "rank") == [3]


def test_path_that_is_gone_is_an_error_that_names_it() -> None:
    with pytest.raises(KeyError, match="no fast path nowhere"):
        page("path/nowhere", full())


def test_foreign_text_stands_as_it_is() -> None:
    one = replace(row("a", "missed", cell(0, "missed", 0)), title=HOSTILE, reasons=(HOSTILE,))
    sheet = page("path/a", view(PathsSection((one,))))
    assert (sheet.title, said(sheet)[3]) == (HOSTILE, f"reason: {HOSTILE}")


@pytest.mark.parametrize("path", [GRAPH, LIVE], ids=["trace", "live"])
def test_sample_has_the_verdicts_of_its_json_and_each_opens(path: object) -> None:
    shown, told = sample(path)  # type: ignore[arg-type]
    table = grid(page("paths", shown), "Fast paths")
    mine = dict(zip([one.key for one in table.lines], marks(table, "verdict"), strict=True))
    assert mine == {one["id"]: one["verdict"] for one in told["paths"]}
    calls = dict(zip(mine, column(table, "calls"), strict=True))
    assert calls == {one["id"]: one["counts"].get("calls") for one in told["paths"]}
    for one in told["paths"]:
        cells = grid(page(line(table, one["id"]).opens, shown), "By phase and rank")
        assert column(cells, "calls") == [c["calls"] for c in one["cells"]]


def test_columns_of_which_no_path_knows_anything_are_left_out() -> None:
    known, bare = sample(GRAPH)[0], full()
    section = bare.report.answer.section(PathsSection)
    assert section is not None
    none = [
        replace(row, verdict="unproven", variant="", configured="unknown", eligible="unknown") for row in section.paths
    ]
    names = [c.name for c in grid(page("paths", view(PathsSection(tuple(none)))), "Fast paths").columns]
    assert not {"ran as", "configured", "eligible", "correct"} & set(names)
    one = [replace(none[0], configured="yes"), *none[1:]]
    names = [c.name for c in grid(page("paths", view(PathsSection(tuple(one)))), "Fast paths").columns]
    assert {"ran as", "configured", "eligible", "correct"} & set(names) == {"configured"}
    assert "ran as" in [c.name for c in grid(page("paths", known), "Fast paths").columns]
