"""The pages that a page's lines open, gathered once and bounded: what is left out is told, never silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import unquote

from m3probe.model.view import View
from m3probe.present._numbers import plural
from m3probe.present.html._tables import MOST
from m3probe.present.html.section import Section
from m3probe.present.sheets.sheet import Block, Grid, Lens, Said
from m3probe.present.sheets.targets import sheet_of

ROWS = 150
"""Rows of a table in a linked page: one step may run thousands of kernels."""
LIMITS = {"finding": 150, "evidence": 300, "path": 100, "step": 16, "source": 64, "run": 12}
"""Linked pages of each kind at most; a kind that is not named here is a section of its own, or none."""
LAST = "step"
"""Steps that findings name come before those of the table of all steps, so that they are taken after all else."""
_TITLES = {"finding": "Finding", "path": "Fast path", "source": "Source", "run": "Run"}


@dataclass(slots=True)
class Linked:
    """``sections`` by target in the order in which they were named, and why others are not here."""

    sections: dict[str, Section] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def said(self) -> tuple[Said, ...]:
        """What was left out, by kind."""
        many = Counter(opens.partition("/")[0] for opens in self.why)
        return tuple(
            Said(f"Left out of this page: {plural(count, kind)}: {self._example(kind)}.", dim=True)
            for kind, count in many.items()
        )

    def _example(self, kind: str) -> str:
        return next(why for opens, why in self.why.items() if opens.partition("/")[0] == kind)


def linked(view: View, sections: Sequence[Section]) -> Linked:
    """Pages that ``sections`` lead to, and those that these lead to."""
    found = Linked()
    there = {section.opens for section in sections}
    named = list(_opened(sections))
    steps = [opens for opens in named if _kind(opens) == LAST]
    later = _follow(view, [opens for opens in named if _kind(opens) != LAST], there, found)
    _follow(view, [*later, *steps], there, found, last=True)
    return found


def _follow(view: View, waiting: list[str], there: set[str], found: Linked, *, last: bool = False) -> list[str]:
    """Take what waits and what it leads to; the steps that were met instead of taken, unless it is their turn."""
    taken: Counter[str] = Counter(map(_kind, found.sections))
    steps = []
    for opens in waiting:  # grows while it is read
        kind = _kind(opens)
        if opens in there or opens in found.sections or opens in found.why:
            continue
        if kind == LAST and not last:
            steps.append(opens)
        elif taken[kind] >= LIMITS.get(kind, 0):
            found.why[opens] = f"this page holds {plural(LIMITS.get(kind, 0), kind)}; m3probe tui opens all of them"
        elif (section := _section(view, opens, found)) is not None:
            taken[kind] += 1
            found.sections[opens] = section
            waiting.extend(_opens_of(section.blocks, ROWS))
    return steps


def _section(view: View, opens: str, found: Linked) -> Section | None:
    try:
        sheet = sheet_of(opens, view, Lens())
    except KeyError as error:
        found.why[opens] = str(error.args[0])
        return None
    return Section(_title(opens, sheet.title), opens, sheet.blocks)


def _title(opens: str, title: str) -> str:
    """A sheet's title is short because a path of titles leads to it; here fifty tables of kernels stand in one list."""
    kind, *which = (unquote(word) for word in opens.split("/"))
    if kind == "evidence":
        return f"Evidence {int(which[1]) + 1} of {which[0]}: {title}"
    return f"{_TITLES[kind]}: {title}" if kind in _TITLES else title


def _kind(opens: str) -> str:
    return opens.partition("/")[0]


def _opened(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        yield from _opens_of((*section.first, *section.blocks), MOST)
        for figure in section.figures:
            if figure.rows is not None:
                yield from _opens_of((figure.rows,), MOST)


def _opens_of(blocks: Iterable[Block], most: int) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Grid):
            yield from (line.opens for line in islice(iter(block.lines), most) if line.opens)
