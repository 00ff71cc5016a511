"""Question 3 as a page: three planes, collectives by size, and what is not provable."""

import pytest
from page_kit import (
    GRAPH,
    HOSTILE,
    LIVE,
    SAMPLES,
    bars,
    chart,
    column,
    full,
    grid,
    hollow,
    nothing,
    page,
    said,
    sample,
    texts,
    view,
)

from m3probe.model.report import BytePlanes, BytesSection, PlaneRow
from m3probe.present.sheets.planes import largest
from m3probe.present.sheets.sheet import Lens, Said


def row(what: str, count: int, size: int | None, **more: str) -> PlaneRow:
    words = {"dtype": "bf16", "layout": "", "evidence": "kernels"} | more
    return PlaneRow(what, count, size, None, **words)


def planes(**kinds: tuple[PlaneRow, ...]) -> BytesSection:
    return BytesSection(BytePlanes(**kinds))


def test_each_plane_stands_by_itself_in_a_unit_of_its_own() -> None:
    sheet = page("bytes", full())
    state = grid(sheet, "Persistent state")
    assert (column(state, "what"), column(state, "MiB")) == (["KV write", "index write"], [3 << 20, None])
    assert texts(state, "MiB") == ["3.00", "—"]
    assert grid(sheet, "Compute tensors").empty == "Nothing seen on this plane, which proves nothing about it."


def test_collectives_stand_by_the_bytes_of_a_call() -> None:
    found = planes(
        comm=(row("all_reduce by aiter", 2, 4_000_000), row("all_reduce by quick", 10, 163_840), row("send", 1, None))
    )
    table = grid(page("bytes", view(found)), "Communication, by bytes a call")
    assert column(table, "what") == ["all_reduce by quick", "all_reduce by aiter", "send"]
    assert column(table, "B a call, mean") == [16_384.0, 2_000_000.0, None]


def test_chart_has_traffic_of_all_planes_and_nothing_that_is_held() -> None:
    found = planes(
        compute=(row("weights, moe", 2, 1 << 30), row("copy kernel, decode", 4, 2 << 20)),
        state=(row("cache pool", 512, 1 << 30), row("KV write, decode", 9, None)),
        comm=(row("all_reduce", 24, 1 << 20),),
    )
    sheet = page("bytes", view(found))
    assert bars(sheet) == {"tensors: copy kernel, decode": 2.0, "communication: all_reduce": 1.0}
    assert (chart(sheet).unit, chart(sheet).title) == (
        "MiB",
        "Largest traffic (1 without bytes)",
    )


def test_phase_filter_keeps_rows_that_name_no_phase() -> None:
    found = planes(
        state=(row("KV write, decode", 1, 8), row("KV write, prefill", 1, 8), row("main cache written", 1, 8)),
        comm=(
            row("all_reduce", 1, 8, layout="group tp:0, decode"),
            row("all_reduce", 1, 8, layout="group tp:0, mixed"),
        ),
    )
    sheet = page("bytes", view(found), Lens(phase="decode"))
    assert column(grid(sheet, "Persistent state"), "what") == ["KV write, decode", "main cache written"]
    assert column(grid(sheet, "Communication"), "layout") == ["group tp:0, decode"]


def test_what_cannot_be_proven_is_said_as_unproven() -> None:
    sheet = page("bytes", full())
    told = [b for b in sheet.blocks if isinstance(b, Said) and b.text == "not provable here: which bytes were useful"]
    assert [b.mark for b in told] == ["unproven"]


def test_index_stands_beside_attend_with_the_rooflines_figures() -> None:
    text = next(text for text in said(page("bytes", full())) if text.startswith("index beside attend"))
    assert "choosing blocks 60.0 µs, attending 50.0 µs" in text
    assert "least bytes 30.00 and 40.00 MB" in text
    assert "from 4,096 tokens on" in text


def test_answer_is_measured_only_where_every_byte_is_proven() -> None:
    whole, part = planes(comm=(row("send", 1, 8),)), planes(comm=(row("send", 1, 8), row("send", 1, None)))
    firsts = [page("bytes", view(found)).blocks[0] for found in (whole, part)]
    assert [(b.text, b.mark) for b in firsts if isinstance(b, Said)] == [
        ("measured: bytes proven of 1 of 1 kind of traffic", "executed"),
        ("in part: bytes proven of 1 of 2 kinds of traffic", ""),
    ]


@pytest.mark.parametrize("shown", [hollow(), nothing(), view(planes(comm=(row("all_reduce", 1, None),)))])
def test_no_proven_byte_is_unproven(shown: object) -> None:
    first = page("bytes", shown).blocks[0]  # type: ignore[arg-type]
    assert isinstance(first, Said)
    assert first.mark == "unproven"


def test_foreign_names_stand_as_they_are() -> None:
    table = grid(page("bytes", view(planes(comm=(row(HOSTILE, 1, 8),)))), "Communication")
    assert column(table, "what") == [HOSTILE]


@pytest.mark.parametrize("path", [GRAPH, LIVE, SAMPLES / "live-cpu-moe-tp2"], ids=["trace", "live", "tp2"])
def test_sample_has_the_rows_of_its_json(path: object) -> None:
    shown, told = sample(path)  # type: ignore[arg-type]
    sheet = page("bytes", shown)
    for key, title in (("compute", "Compute"), ("state", "Persistent"), ("comm", "Communication")):
        table = grid(sheet, title)
        unit = next(c.name for c in table.columns if c.name in {"B", "KiB", "MiB", "GiB"})
        mine = sorted(zip(column(table, "what"), column(table, "count"), map(str, column(table, unit)), strict=True))
        assert mine == sorted((r["what"], r["count"], str(r["bytes"])) for r in told["bytes"][key])


def test_rows_that_differ_in_layout_are_one_kind_of_traffic_in_the_chart() -> None:
    # 6 and 3 layers' writes of one prefill: 12,582,912 + 6,291,456 B = 18 MiB; weights are held, not moved
    def written(size: int, layout: str) -> PlaneRow:
        return PlaneRow("KV write, prefill", 3, size, None, "bf16", layout, "kernels")

    rows = (written(12_582_912, "K, V"), written(6_291_456, "K and V apart"))
    held = PlaneRow("weights, all", 1, 1 << 40, None, "bf16", "", "ledger")
    planes = {"compute": (held,), "state": rows, "comm": ()}
    assert largest(planes) == [(("persistent state", "KV write, prefill", "kernels"), 18_874_368)]
