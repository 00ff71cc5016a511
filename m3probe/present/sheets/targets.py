"""What can be opened, and which adapter makes it: ``finding/ID`` -> ``sheets.findings.finding(view, lens, ID)``.

A target is words between slashes; the first says what, the others which. Adding a page is adding a line here and a function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from urllib.parse import quote, unquote

from m3probe.model.view import View
from m3probe.present.sheets.sheet import Lens, Sheet

Adapter = Callable[..., Sheet]
OVERVIEW = "overview"
PAGES: dict[str, tuple[str, str]] = {
    "overview": ("overview", "overview"),
    "shapes": ("shapes", "shapes"),
    "repeats": ("repeats", "repeats"),
    "bytes": ("planes", "planes"),
    "paths": ("paths", "paths"),
    "path": ("paths", "path"),
    "queues": ("queues", "queues"),
    "findings": ("findings", "findings"),
    "finding": ("findings", "finding"),
    "evidence": ("evidence", "rows"),
    "step": ("steps", "step"),
    "steps": ("steps", "steps"),
    "compare": ("comparison", "comparison"),
    "run": ("comparison", "run"),
    "sources": ("sources", "sources"),
    "source": ("sources", "source"),
}
"""first word -> (file in this folder, function)."""


def target(*words: str | int) -> str:
    """A target of its words, whatever is in them: ``target("finding", "a/b")``."""
    # a file's name that is no UTF-8 holds lone surrogates
    return "/".join(quote(str(word), safe="", errors="surrogatepass") for word in words)


def sheet_of(opened: str, view: View, lens: Lens) -> Sheet:
    """The page.

    Raises:
        KeyError: nothing of this name is in the view any more; the message says what.
    """
    what, *which = (unquote(word, errors="surrogatepass") for word in opened.split("/"))
    module, name = PAGES[what]
    adapter: Adapter = getattr(import_module(f"m3probe.present.sheets.{module}"), name)
    return adapter(view, lens, *which)
