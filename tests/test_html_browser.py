"""The report in a real browser: it draws, asks for nothing, sorts, filters, leads to its evidence and obeys the keyboard."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_kit import PHONE, WIDE, Opened, chromium
from builders import kernel, launch, op, step, write_trace
from tree import ROOT

from m3probe.present.html.document import report_html
from m3probe.viewing.offline import PathFeed

SAMPLES = ROOT / "samples"
GRAPH = SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"
KINDS = {"trace": GRAPH, "live": SAMPLES / "live-cpu-moe-tp2", "attached": SAMPLES / "live-h200-m3-attach"}
HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>\u202e--><!--\u2028<b onclick=alert(3)>'\""


def written(folder: Path, name: str, path: Path) -> Path:
    page = folder / f"{name}.html"
    page.write_text(report_html(PathFeed([path]).poll(lambda *_: None, lambda: False)), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: written(folder, name, path) for name, path in KINDS.items()}


@contextmanager
def opened(browser: Any, file: Path, size: tuple[int, int] = WIDE, **words: Any) -> Iterator[Opened]:
    """The page; it must do nothing that a report must not do."""
    found = Opened(browser, file, size, **words)
    yield found
    assert found.faults == []
    found.close()


@pytest.mark.parametrize("kind", KINDS)
def test_draws_every_plot_asks_for_nothing_and_fits_a_phone(browser: Any, pages: dict[str, Path], kind: str) -> None:
    with opened(browser, pages[kind], PHONE) as page:
        drawn = page.draw_all()
        assert drawn == pages[kind].read_text().count('<figure class="plot"') > 0
        assert page.js("[...document.querySelectorAll('.plot')].every((p) => p.querySelector('svg.main-svg'))")
        assert page.js("document.querySelector('.banner').innerText.length") > 20
        page.js("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for size in (PHONE, WIDE):
            page.page.set_viewport_size({"width": size[0], "height": size[1]})
            assert page.js("document.documentElement.scrollWidth") <= size[0]


def test_hover_tells_of_a_point(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["trace"]) as page:
        page.draw_all()
        page.hover(page.page.locator(".plot").first.locator(".bars .point path").first)
        shown = page.page.locator(".plot .hoverlayer .hovertext").first
        shown.wait_for()
        assert "64.7" in shown.text_content()


def table(page: Opened, title: str) -> Any:
    return page.page.locator(".table", has=page.page.locator(".title", has_text=title)).first


def column(page: Opened, title: str, place: int) -> list[str]:
    return [text.strip() for text in table(page, title).locator(f"tbody tr td:nth-child({place})").all_inner_texts()]


def test_sorts_by_click_and_by_key(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["trace"]) as page:
        head = table(page, "Steps, recorded").locator("th", has_text="step ms")
        times = column(page, "Steps, recorded", 8)
        known = sorted((float(text) for text in times if text != "—"), reverse=True)
        assert len(known) == 10  # the trace's eleventh step is empty
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, "Steps, recorded", 8) == [f"{value:.3f}" for value in known] + ["—"]
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, "Steps, recorded", 8) == [f"{value:.3f}" for value in reversed(known)] + ["—"]


def test_filters_rows_and_says_how_many(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["trace"]) as page:
        table(page, "Steps, recorded").locator("input").fill("PREFILL")
        assert column(page, "Steps, recorded", 3) == ["prefill"]
        assert "1 of 11 rows" in table(page, "Steps, recorded").locator(".title").inner_text()
        table(page, "Steps, recorded").locator("input").fill("no such row")
        assert column(page, "Steps, recorded", 3) == []


def test_long_tables_show_all_when_asked(browser: Any, pages: dict[str, Path]) -> None:
    view = PathFeed([GRAPH]).poll(lambda *_: None, lambda: False)
    claims = sorted(each.claim for each in view.report.answer.findings)
    assert len(claims) > 35
    with opened(browser, pages["trace"]) as page:
        assert len(column(page, "Findings, computed", 5)) == 25
        table(page, "Findings, computed").locator("button.more").click()
        assert sorted(column(page, "Findings, computed", 5)) == claims
        last = table(page, "Findings, computed").locator("tbody tr").last
        last.locator("a").click()
        shown = page.js("document.getElementById(location.hash.slice(1)).open")
        assert shown is True


def test_a_link_opens_the_folded_page_and_a_point_does_too(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["trace"]) as page:
        folded = page.page.locator("details.page[open]")
        assert folded.count() == 0
        table(page, "Bottlenecks").locator("tbody a").first.click()
        assert folded.count() == 1
        assert page.js("location.hash") == "#finding:next_bottleneck.idle"
        page.draw_all()
        bar = page.page.locator(".plot").first.locator(".bars .point path").nth(1)
        bar.scroll_into_view_if_needed()
        box = bar.bounding_box()
        page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.until("document.querySelectorAll('details.page[open]').length === 2")


def test_light_and_dark_follow_the_reader_and_the_button(browser: Any, pages: dict[str, Path]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    with opened(browser, pages["trace"], color_scheme="dark") as page:
        page.draw_all()
        dark = page.js(f"[{ground}, {ink}]")
        assert dark == ["rgb(16, 19, 22)", "rgb(228, 231, 234)"]
        page.page.get_by_role("button", name="Light colours").click()
        page.until(f"{ink} === 'rgb(27, 31, 36)'")
        assert page.js(ground) == "rgb(255, 255, 255)"
        page.page.reload()
        assert page.js(ground) == "rgb(255, 255, 255)"


def test_every_control_is_reached_by_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    wanted = """[...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")].filter(
        (each) => each.checkVisibility({visibilityProperty: true}) && !each.closest('.modebar'))"""
    with opened(browser, pages["trace"]) as page:
        page.draw_all()
        page.js(f"scrollTo(0, 0); {wanted}.forEach((each, place) => (each.dataset.place = place))")
        every = page.js(f"{wanted}.length")
        assert every > 60
        met: list[str] = []
        last = str(every - 1)
        for _ in range(2 * every):  # plots have buttons of their own
            page.page.keyboard.press("Tab")
            met += filter(None, [page.js("document.activeElement.dataset.place")])
            if met[-1:] == [last]:
                break
        assert met == [str(place) for place in range(every)]


def hostile_trace(folder: Path) -> Path:
    events = []
    for place in range(6):
        at = 1_000.0 * place
        events += [step(at, 900.0, "execute_context_0(0)_generation_8(8)"), launch(at + 10, place + 1)]
        events += [op(at + 5, 20.0, "aten::mm", [[8, 64], [64, 32]], ["c10::BFloat16", "c10::BFloat16"])]
        events += [kernel(at + 50, 400.0, place + 1, f"Cijk_{HOSTILE}_{place % 2}")]
    return write_trace(folder / "rank0<img src=x onerror=alert(4)>.pt.trace.json", events)


def test_foreign_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    page_file = written(tmp_path, "hostile", hostile_trace(tmp_path))
    with opened(browser, page_file) as page:
        page.draw_all()
        page.js("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for more in page.page.locator("button.more").all():
            more.click()
        assert page.js("document.querySelectorAll('img, [onerror], [onclick]').length") == 0
        said = page.js("document.body.innerText")
        assert "<img src=x onerror=alert(1)>" in said
        assert "\\u202e" in said
        assert "\u202e" not in said


def test_without_javascript_the_tables_are_there(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["trace"], java_script_enabled=False) as page:
        assert page.page.locator(".noscript").is_visible()
        shown = page.page.locator("#steps > .table tbody tr").count()
        assert shown == 11
        assert json.dumps(page.page.locator("#overview").inner_text()).count("64.7 %") >= 1
