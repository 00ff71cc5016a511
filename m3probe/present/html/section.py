"""What a page is made of: headings with their plots and blocks, and the anchor of each target."""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.present.html.figure import Figure
from m3probe.present.sheets.sheet import Block


@dataclass(frozen=True, slots=True)
class Section:
    """One heading and what stands below it.

    Args:
        title: the heading.
        opens: the target that leads here (``paths``, ``finding/ID``), unique on a page: its anchor is made of it.
        blocks: sentences and tables, below the plots.
        figures: plots, each with its own heading.
        asks: the question that is answered, in one sentence; "" for none.
        first: sentences that stand above the plots.
    """

    title: str
    opens: str
    blocks: tuple[Block, ...] = ()
    figures: tuple[Figure, ...] = ()
    asks: str = ""
    first: tuple[Block, ...] = ()


def anchor(opens: str) -> str:
    """The id of what a target opens: of characters that need no escape in an ``href``, different for each target.

    A target's words are percent-encoded (``targets.target``), so that ``=`` and ``:`` stand nowhere in them.
    """
    return opens.replace("%", "=").replace("/", ":")
