"""A headless Chromium for tests: the system's own, driven by playwright, without a network."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

REQUIRED = "M3PROBE_BROWSER_REQUIRED"
"""Set by .ci/run: a browser test that would be skipped fails instead."""
_WORDS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = (1280, 900), (390, 844)


@contextmanager
def chromium() -> Iterator[Any]:
    """A playwright ``Browser``; skips where it or the browser is missing, or fails where browser tests are required."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        not_here("no Chromium here: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        not_here("no playwright here: pip install '.[browser]'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_WORDS)
        yield browser
        browser.close()


def not_here(why: str) -> NoReturn:
    """Skip, or fail where browser tests are required."""
    if os.environ.get(REQUIRED):
        pytest.fail(why)
    pytest.skip(why)


class Opened:
    """A page of a file, and everything that it did which a report must not do.

    Args:
        browser: of ``chromium()``.
        file: what is opened.
        size: of the window in CSS pixels.
        words: of the browser's context (``color_scheme``, ``java_script_enabled``).
    """

    def __init__(self, browser: Any, file: Path, size: tuple[int, int] = WIDE, **words: Any) -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **words)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda said: self.faults.append(f"console {said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda shown: (self.faults.append(f"dialog: {shown.message}"), shown.dismiss()))
        self.page.on("request", self._asked)
        self.page.goto(file.as_uri())

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.faults.append(f"request: {request.url}")

    def draw_all(self) -> int:
        """Scroll to every plot and wait until it is drawn; how many there are."""
        plots = self.page.locator(".plot")
        for place in range(plots.count()):
            plots.nth(place).scroll_into_view_if_needed()
        self.until("document.querySelectorAll('.plot:not([data-drawn])').length === 0")
        return int(plots.count())

    def until(self, expression: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true; playwright's own way needs eval, which the page's policy refuses."""
        end = time.monotonic() + seconds
        while not self.js(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            self.page.wait_for_timeout(20)

    def hover(self, shape: Any) -> tuple[float, float]:
        """Move the mouse to the middle of a plot's shape; where that is, for a click."""
        shape.scroll_into_view_if_needed()
        box = shape.bounding_box()
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.mouse.move(*middle)
        return middle

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(expression)

    def close(self) -> None:
        """Close the window."""
        self.context.close()
