"""The report where it has little room: tables as cards and plots that fit on a telephone, and everything on paper."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_kit import PHONE, Opened, chromium
from builders import kernel, launch, step, write_trace
from tree import ROOT

from m3probe.present.html.document import report_html
from m3probe.viewing.offline import PathFeed

GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
RANKS = 14


def written(page: Path, *paths: Path) -> Path:
    page.write_text(report_html(PathFeed([*paths]).poll(lambda *_: None, lambda: False)), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page_file(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("paper") / "graph.html", GRAPH)


def test_rows_are_cards_on_a_telephone_and_sort_and_filter_as_before(browser: Any, page_file: Path) -> None:
    page = Opened(browser, page_file, PHONE)
    found = page.page.locator(".table", has=page.page.locator(".title", has_text="Bottlenecks")).first
    # nothing of a row is out of view, and what it is called stands before it
    hidden = "[...document.querySelectorAll('.cards td')].filter((e) => e.getBoundingClientRect().right > 390).length"
    assert page.js(hidden) == 0
    named = found.locator("tbody td:nth-child(2)").first.evaluate("(e) => getComputedStyle(e, '::before').content")
    assert named == '"at most %"'
    assert page.js("getComputedStyle(document.querySelector('#overview .cards tbody tr')).display") == "flex"
    claims = found.locator("tbody tr td:last-child").all_inner_texts()
    assert claims[0].startswith("The device is idle for 64.7 %")
    found.locator("th button", has_text="claim").click()
    assert found.locator("tbody tr td:last-child").all_inner_texts() == sorted(claims, key=str.lower)
    found.locator("input").fill("IDLE for")
    assert found.locator("tbody tr").count() == 1
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert page.js("getComputedStyle(document.querySelector('#overview .cards tbody tr')).display") == "table-row"
    assert page.faults == []
    page.close()


def test_plots_keep_their_numbers_and_legends_on_a_telephone(browser: Any, page_file: Path) -> None:
    page = Opened(browser, page_file, PHONE)
    page.draw_all()
    page.page.wait_for_timeout(300)
    past = (
        "[...document.querySelectorAll('.plot .bartext')].filter((e) => e.getBoundingClientRect().right > 391).length"
    )
    assert page.js(past) == 0
    scrolled = "[...document.querySelectorAll('.plot .legend .scrollbar')].filter((e) => e.getBoundingClientRect().height > 0).length"
    assert page.js(scrolled) == 0
    assert page.faults == []
    page.close()


def test_a_matrix_of_many_ranks_is_moved_sideways(browser: Any, tmp_path: Path) -> None:
    for rank in range(RANKS):
        events = [
            step(0.0, 900.0, "execute_context_0(0)_generation_8(8)"),
            launch(10.0, 1),
            kernel(50.0, 400.0, 1, "Cijk_A"),
        ]
        write_trace(tmp_path / f"rank{rank}.pt.trace.json", events, distributedInfo={"rank": rank, "world_size": RANKS})
    page = Opened(browser, written(tmp_path / "ranks.html", tmp_path), PHONE)
    page.draw_all()
    canvas = "document.querySelector('#paths .canvas')"
    assert page.js(f"[{canvas}.clientWidth, {canvas}.scrollWidth]") == [358, 150 + 18 * (1 + RANKS)]
    assert page.js("document.documentElement.scrollWidth") == 390
    assert page.faults == []
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_white_and_holds_every_plot(browser: Any, page_file: Path, theme: str) -> None:
    page = Opened(browser, page_file, color_scheme=theme)
    drawn = "document.querySelectorAll('.plot[data-drawn]').length"
    every = page.js("document.querySelectorAll('.plot').length")
    assert page.js(drawn) < every
    widths = (
        "[...new Set([...document.querySelectorAll('.plot .main-svg')].map((e) => e.getBoundingClientRect().width))]"
    )
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    page.page.emulate_media(media="print")
    page.js("dispatchEvent(new Event('beforeprint'))")
    page.until(f"{drawn} === {every}")
    assert page.js(widths) == [690]
    assert page.js(ink) == "rgb(27, 31, 36)"
    assert page.js("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    shown = "[...document.querySelectorAll('nav, .modebar, .more, details:not([open])')].filter((e) => e.checkVisibility()).length"
    assert page.js(shown) == 0
    page.page.emulate_media(media="screen")
    page.js("dispatchEvent(new Event('afterprint'))")
    page.until(f"{widths}[0] === 1168")
    assert page.js(ink) == ("rgb(27, 31, 36)" if theme == "light" else "rgb(228, 231, 234)")
    assert page.faults == []
    page.close()


def test_pdf_holds_plots_that_were_never_in_view(browser: Any, page_file: Path) -> None:
    page = Opened(browser, page_file)
    assert len(page.page.pdf()) > 100_000
    assert page.js("document.querySelectorAll('.plot:not([data-drawn])').length") == 0
    page.close()
