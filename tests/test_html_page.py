"""The report's HTML as text: well formed, links that lead somewhere, nothing foreign as markup, limits that are told."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_builder import full_report
from tree import ROOT

from m3probe.model.view import View, Word
from m3probe.present.html._assets import digest, own
from m3probe.present.html._plots import figures_of
from m3probe.present.html._tables import CARDS, FIRST, MOST, marked, table
from m3probe.present.html._text import MOST_CHARS, html, script_json
from m3probe.present.html.document import PLOTS, report_html
from m3probe.present.html.draw import block
from m3probe.present.html.linked import LIMITS, linked
from m3probe.present.html.page import page
from m3probe.present.html.pen import Pen
from m3probe.present.html.section import Section, anchor
from m3probe.present.sheets.sheet import Bar, Bars, Cell, Column, Curve, Grid, Lens, Line, Said, Strip
from m3probe.present.sheets.targets import sheet_of, target
from m3probe.viewing.offline import PathFeed

SAMPLES = ROOT / "samples"
GRAPH = SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Python's own reader of HTML: what is open, ids, links, headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.headings: list[int] = []
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += 1
        self.attributes |= set(given)
        self.ids += [str(given["id"])] if "id" in given else []
        self.hrefs += [str(given["href"])] if tag == "a" else []
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def view_of(path: Path) -> View:
    return PathFeed([path]).poll(lambda *_: None, lambda: False)


@pytest.fixture(scope="module")
def graph() -> str:
    return report_html(view_of(GRAPH))


@pytest.mark.parametrize("name", ["h200-m3-tp4rank-eager.pt.trace.json.gz", "live-cpu-moe-tp2", "live-h200-m3-graph"])
def test_each_link_leads_somewhere_and_headings_come_in_order(name: str) -> None:
    held = Reader(report_html(view_of(SAMPLES / name)))
    assert held.open == []
    assert [name for name, count in Counter(held.ids).items() if count > 1] == []
    assert {href[1:] for href in held.hrefs} <= set(held.ids)
    assert all(href.startswith("#") for href in held.hrefs)
    assert held.headings[0] == 1
    assert held.headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(held.headings, held.headings[1:], strict=False))


def test_rows_that_wait_in_data_lead_somewhere_too(graph: str) -> None:
    held = Reader(graph)
    waiting = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', graph)]
    links = {row[0] for data in waiting for row in data["rows"] if row[0]}
    assert len(links) > 10
    assert links <= set(held.ids)


def test_policy_names_each_script_and_nothing_else_may_run(graph: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', graph)[1]
    scripts = re.findall(r"<script>(.*?)</script>", graph, re.DOTALL)
    assert len(scripts) == 3  # colours, plotly, ours
    assert [digest(text) in policy for text in scripts] == [True] * 3
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe-eval" not in policy
    assert graph.count("plotly.js v") == 1
    held = Reader(graph)
    assert not held.attributes & {"src", "onload", "onerror", "onclick", "srcset"}


def test_page_without_a_plot_carries_no_plotly() -> None:
    bare = page(View("t", Word.READ, 0.0), "t", (), (Section("A", "a", (Said("b"),)),))
    assert "plotly.js v" not in bare
    assert len(bare) < 40_000


def test_a_plot_that_fails_takes_no_page_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_view: View) -> None:
        raise ValueError("<b>no such row")

    monkeypatch.setattr("m3probe.present.html.figures.steps.figures", broken)
    said = report_html(view_of(GRAPH))
    assert "The plot steps could not be drawn (ValueError: &lt;b&gt;no such row)" in said
    assert said.count('<figure class="plot"') > 3


@pytest.mark.parametrize("name", ["h200-m3-tp4rank-graph.pt.trace.json.gz", "live-cpu-moe-tp2", "live-h200-m3-attach"])
def test_no_plot_of_a_sample_fails(name: str) -> None:
    for plots in PLOTS.values():
        assert figures_of(view_of(SAMPLES / name), *plots)[1] == ()


# --- foreign text -----------------------------------------------------------------------------------------


NASTY = "</script><img src=x onerror=alert(1)>\u202e\u2028\x1b[2J\ud800--><!--&amp;'\""


def test_foreign_text_is_text_in_html_and_in_scripts() -> None:
    said = html(NASTY)
    assert not set("<>\"'") & set(said)
    assert "\\u202e\\u2028\\x1b[2J\\ud800" in said
    packed = script_json({"name": NASTY, "nan": float("nan"), "deep": [float("inf"), 1.5]})
    assert packed.isascii()
    assert not set("<>&") & set(packed)
    assert json.loads(packed) == {"name": NASTY, "nan": None, "deep": [None, 1.5]}


def test_every_block_escapes_what_it_shows() -> None:
    column = (Column(NASTY), Column("b"))
    lines = tuple(Line(str(n), (Cell(NASTY, None, NASTY), Cell(NASTY)), NASTY) for n in range(60))
    every = (
        Said(NASTY, NASTY),
        Grid(NASTY, column, lines),
        Grid(NASTY, column, (), NASTY),
        Bars(NASTY, (Bar(NASTY, 1.0, NASTY, NASTY),), 2.0, NASTY),
        Curve(NASTY, ((0.0, 1.0), (1.0, None)), 0.0, 1.0, NASTY, NASTY),
        Strip(NASTY, ((0.0, 1.0, NASTY),), 1.0, NASTY, ((NASTY, NASTY),)),
    )
    held = Reader("".join(block(one, Pen((), {NASTY: NASTY})) for one in every))
    assert held.tags["img"] == 0
    assert "onerror" not in held.attributes


def test_targets_with_any_text_have_anchors_of_their_own() -> None:
    names = ["a/b", "a%2Fb", "a:b", "a=b", "ä b", "a~b", "a.b", "#a", ""]
    found = {anchor(target("finding", name)) for name in names}
    assert len(found) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.~:=-]+", each) for each in found)


# --- tables -----------------------------------------------------------------------------------------------


def grid(count: int) -> Grid:
    lines = tuple(Line(str(n), (Cell(f"row {n}", n), Cell("x" if n else "—")), f"step/{n}") for n in range(count))
    return Grid("Rows", (Column("name"), Column("b", right=True)), lines, "none")


def test_short_tables_stand_whole_and_long_ones_keep_the_rest_as_data() -> None:
    short = table(grid(FIRST + 10), Pen(()))
    assert (short.count("<tr>"), "application/json" in short) == (FIRST + 11, False)
    long = table(grid(FIRST + 11), Pen({"step/30"}))
    assert long.count("<tr>") == FIRST + 1
    data = json.loads(re.search(r'json">(.*?)</script>', long)[1])
    assert len(data["rows"]) == 11
    link, why, linked, *cells = data["rows"][30 - FIRST]
    assert (link, data["texts"][why], linked) == ("step:30", "", 0)
    assert (data["texts"][cells[0][0]], cells[0][1]) == ("row 30", 30)
    assert data["rows"][0][0] == ""
    assert "m3probe tui" in data["texts"][data["rows"][0][1]]


def test_columns_names_stand_before_the_cells_of_a_card_whatever_is_in_them() -> None:
    columns = (Column("claim", wide=True), Column("at <b>;}'"))
    lines = (Line("a", (Cell("x"), Cell("1"))),)
    said = table(Grid("t", columns, lines), Pen(()))
    # 0x20 is the blank, 3c < 3e > 3b ; 7d } 27 ': each as CSS spells it, so that none of them ends the name or the element
    assert ' class="cards" style="--c1:&#x27;claim&#x27;;--c2:&#x27;at\\20 \\3c b\\3e \\3b \\7d \\27 &#x27;"' in said
    narrow = Grid("t", (Column("a"), Column("b")), lines)
    assert "cards" not in table(narrow, Pen(()))
    many = Grid(
        "t", (Column("c0", wide=True), *(Column(f"c{n}") for n in range(1, 25))), (Line("a", (Cell("x"),) * 25),)
    )
    assert "cards" not in table(many, Pen(()))
    assert f"nth-child({CARDS})" in own("style.css")
    assert f"nth-child({CARDS + 1})" not in own("style.css")


def test_a_long_text_far_down_wraps_its_column_and_no_text_fills_a_page() -> None:
    lines = [Line(str(n), (Cell("k" * (100_000 if n == FIRST + 50 else 3)),)) for n in range(FIRST + 60)]
    said = table(Grid("t", (Column("name"),), lines), Pen(()))
    assert '<th scope="col" class="w">' in said
    assert len(said) < 10_000
    assert "k" * 600 + "\\u2026" in said  # as JSON spells the mark of what was cut
    assert "k (100,000 characters)" in said
    assert len(marked("m" * 100_000, "")) == MOST_CHARS + len(" (100,000 characters)")
    assert marked("m" * MOST_CHARS, "") == "m" * MOST_CHARS


def test_rows_beyond_the_limit_are_told() -> None:
    assert "left out" not in table(grid(MOST), Pen(()))
    assert "7 of 1,007 rows are left out" in table(grid(MOST + 7), Pen(()))


def test_empty_table_says_why() -> None:
    assert "none" in table(grid(0), Pen(()))


# --- what others lead to ------------------------------------------------------------------------------------


def test_linked_pages_are_bounded_and_the_rest_is_told() -> None:
    view = View("t", Word.READ, 0.0, report=full_report())
    steps = full_report().answer.sections
    assert steps
    gone = [Line(str(n), (Cell("a"),), target("step", n)) for n in (0, 1, 99)]
    found = linked(view, [Section("S", "s", (Grid("g", (Column("c"),), gone),))])
    assert target("step", 0) in found.sections
    assert found.why == {"step/99": "step 99 is not in this recording (any more)"}
    assert [each.text for each in found.said()] == [
        "Left out of this page: 1 step: step 99 is not in this recording (any more)."
    ]


def test_steps_above_the_limit_are_left_out_and_those_of_findings_come_first() -> None:
    view = view_of(GRAPH)
    section = next(each for each in view.report.answer.sections if hasattr(each, "steps"))
    many = replace(section, steps=section.steps * 3)
    answer = replace(
        view.report.answer, sections=tuple(many if each is section else each for each in view.report.answer.sections)
    )
    view = replace(view, report=replace(view.report, answer=answer))
    lines = [Line(str(n), (Cell("a"),), target("step", n)) for n in range(30)]
    found = linked(view, [Section("S", "s", (Grid("g", (Column("c"),), lines),))])
    kept = [opens for opens in found.sections if opens.startswith("step/")]
    assert len(kept) == LIMITS["step"]
    assert "this page holds 16 steps" in found.why["step/29"]
    assert found.said()[0].text.startswith("Left out of this page: ")
    finding = Line("f", (Cell("a"),), target("finding", "next_bottleneck.idle"))
    later = linked(view, [Section("S", "s", (Grid("g", (Column("c"),), [*lines[15:], finding]),))])
    first = next(opens for opens in later.sections if opens.startswith("step/"))
    assert first not in {line.opens for line in lines[15:]}


def test_pieces_of_evidence_are_told_apart() -> None:
    view = view_of(GRAPH)
    lines = [Line("e", (Cell("a"),), target("evidence", "next_bottleneck.idle", 0))]
    found = linked(view, [Section("S", "s", (Grid("g", (Column("c"),), lines),))])
    assert found.sections[lines[0].opens].title == "Evidence 1 of next_bottleneck.idle: steps rows"
    titles = [
        each.title
        for each in linked(
            view, [Section("S", "findings", sheet_of("findings", view, Lens()).blocks)]
        ).sections.values()
    ]
    pieces = [title for title in titles if title.startswith("Evidence")]
    assert len(set(pieces)) == len(pieces) > 20


# --- what the page says -------------------------------------------------------------------------------------


def test_trust_comes_first_then_the_bottleneck_and_its_arithmetic(graph: str) -> None:
    body = graph[graph.index("<main") :]
    order = ["Trust complete", "The device is idle for 64.7 %", "65,127,840 ns - 22,994,799 ns", 'id="shapes"']
    order += [f'id="{name}"' for name in ("repeats", "bytes", "paths", "queues", "steps", "findings", "sources")]
    assert [body.index(text) for text in order] == sorted(body.index(text) for text in order)


def test_untrusted_input_is_told_above_everything() -> None:
    page_text = report_html(View("t", Word.PARTIAL, 0.0, "3 events lost", report=full_report()))
    banner = page_text[page_text.index('class="banner"') : page_text.index('id="overview"')]
    assert "Trust degraded" in banner
    assert "3 events lost" in banner
    assert "Trust complete" not in banner


def test_page_of_nothing_says_so() -> None:
    said = report_html(View("t", Word.CONNECTING, 0.0, "no answer yet"))
    assert "no answer yet" in said
    assert "plotly.js v" not in said
    assert Reader(said).open == []
