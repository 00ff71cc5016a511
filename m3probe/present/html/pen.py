"""Where links of a page lead: to an anchor of the same page, or nowhere, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from m3probe.present.html._text import html
from m3probe.present.html.section import anchor


@dataclass(frozen=True, slots=True)
class Pen:
    """What drawing one page needs to know.

    Args:
        there: targets that have an anchor on this page.
        why: why a target has none.
        ids: numbers for ids that nobody links to.
    """

    there: Collection[str]
    why: Mapping[str, str] = field(default_factory=dict)
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def link(self, opens: str, inner: str) -> str:
        """``inner`` (HTML) as a link to what ``opens`` names; plain with the reason as title where that is not here."""
        if not opens:
            return inner
        if opens in self.there:
            return f'<a href="#{html(anchor(opens))}">{inner}</a>'
        return f'<span class="gone" title="{html(self.reason(opens))}">{inner}</span>'

    def reason(self, opens: str) -> str:
        """Why a target is not on this page."""
        return self.why.get(opens, "not on this page; m3probe tui opens it")
