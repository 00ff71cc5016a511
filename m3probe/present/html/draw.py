"""Every block of a sheet as HTML."""

from __future__ import annotations

from collections.abc import Iterable

from m3probe.present.html._charts import bars, curve, strip
from m3probe.present.html._tables import MOST, marked, table
from m3probe.present.html.pen import Pen
from m3probe.present.sheets.sheet import Bars, Block, Curve, Grid, Said, Strip


def blocks(every: Iterable[Block], pen: Pen, most: int = MOST) -> str:
    """Blocks from top to bottom; ``most``: rows of a table that the page holds."""
    return "".join(block(each, pen, most) for each in every)


def block(one: Block, pen: Pen, most: int = MOST) -> str:
    """One block as HTML."""
    match one:
        case Said():
            return f'<p class="said{" dim" if one.dim else ""}">{marked(one.text, one.mark)}</p>'
        case Grid():
            return table(one, pen, most)
        case Bars():
            return bars(one)
        case Curve():
            return curve(one)
        case Strip():
            return strip(one)
