"""Every block of a sheet as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable

from m3probe.present.html._charts import bars, curve, strip
from m3probe.present.html._tables import MOST, marked, table
from m3probe.present.html._text import html, shown
from m3probe.present.html.pen import Pen
from m3probe.present.sheets.sheet import Bars, Block, Curve, Grid, Said, Strip


def blocks(every: Iterable[Block], pen: Pen, most: int = MOST) -> str:
    """Blocks from top to bottom; ``most``: rows of a table that the page holds."""
    return "".join(block(each, pen, most) for each in every)


def block(one: Block, pen: Pen, most: int = MOST) -> str:
    """One block as HTML."""
    match one:
        case Said():
            return said(one)
        case Grid():
            return table(one, pen, most)
        case Bars():
            return bars(one)
        case Curve():
            return curve(one)
        case Strip():
            return strip(one)


_LABEL = re.compile(r"(Bound|Formula|Wrong if|Do|Observed|Expected|Found|What would change this answer): ")
"""What sheets call the parts of an argument: an eye that looks for one of them finds it."""


_KEY = re.compile(r"; [a-z] shows one$")
"""A key of the terminal viewer, which is none here."""


def said(one: Said) -> str:
    """A sentence: its glyph before it, the name of its part in bold, worked arithmetic as such."""
    text = _KEY.sub("", one.text)
    kind = " dim" if one.dim else " calc" if text.startswith("= ") else ""
    label = None if one.mark else _LABEL.match(text)
    named = f"<b>{html(label[1])}</b> {html(shown(text[label.end() :]))}" if label else ""
    return f'<p class="said{kind}">{named or marked(text, one.mark)}</p>'
