"""The page of a comparison in a real browser: it draws, fits a phone, leads to the runs and runs nothing foreign."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser_kit import PHONE, WIDE, Opened, chromium
from test_html_compare import HOSTILE, sample, shown
from test_tui_comparison import pair, part, report, run_row, steps

from m3probe.present.html.compare_document import compare_html


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page_file(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("compare") / "compare.html"
    file.write_text(compare_html(shown(sample()[0])), encoding="utf-8")
    return file


def test_draws_every_plot_and_fits_a_phone(browser: Any, page_file: Path) -> None:
    for size in (WIDE, PHONE):
        page = Opened(browser, page_file, size)
        assert page.draw_all() == len(sample()[2]) > 12
        page.js("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert page.js("document.documentElement.scrollWidth") <= size[0]
        assert page.faults == []
        page.close()


def test_a_point_tells_its_noise_and_opens_the_run(browser: Any, page_file: Path) -> None:
    page = Opened(browser, page_file)
    page.draw_all()
    middle = page.hover(page.page.locator("[id='figure:ratios-3'] .scatterlayer .points path").first)
    told = page.page.locator("[id='figure:ratios-3'] .hoverlayer .hovertext").first
    told.wait_for()
    assert "x 0.140, noise ± 0.108: worse" in told.text_content()
    page.page.mouse.click(*middle)
    page.until("location.hash === '#run:eager'")
    assert page.js("document.getElementById('run:eager').open") is True
    assert page.faults == []
    page.close()


def test_foreign_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    evil = f"</script><img src=x onerror=alert(1)>{HOSTILE}"
    kernels = (replace(part(evil, 1e6, 2e6), name=evil, name_after=evil),)
    found = report(pair("x", after=evil, phases=(steps(kernels=kernels),)), runs=(run_row("a"), run_row(evil)))
    file = tmp_path / "hostile.html"
    file.write_text(compare_html(shown(found)), encoding="utf-8")
    page = Opened(browser, file)
    assert page.draw_all() > 4
    page.js("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.js("document.querySelectorAll('img, [onerror]').length") == 0
    assert "<img src=x onerror=alert(1)>" in page.js("document.body.innerText")
    assert page.faults == []
    page.close()
