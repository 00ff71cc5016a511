"""The viewer without a server, a file or a clock that moves: prepared views and pages of the tests' own."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import report_builder
import textual

from m3probe.model.view import Cancelled, SourceState, Told, View, Word
from m3probe.present.sheets import _order, targets
from m3probe.present.sheets.sheet import Bar, Bars, Block, Cell, Column, Curve, Grid, Lens, Line, Said, Sheet, Strip
from m3probe.tui.app import M3ProbeApp, Options
from m3probe.tui.desk import Desk

NOW = 1_700_000_000.0
"""The clock of every test stands there."""
SNAPSHOTS = Path(__file__).parent / "data" / "tui"
UPDATE = "M3PROBE_UPDATE_SNAPSHOTS"
LONG = (
    "void vllm::moe::topkGatingSoftmax<8, 256, 4, 16, int, float>(float const*, bool const*, float*, int, int*, int*)"
)

assert _order


@dataclass
class StillFeed:
    """Gives the views one after the other, the last one again and again; ``hang``: the next poll never ends by itself."""

    views: list[View]
    live: bool = False
    asked: list[object] = field(default_factory=list)
    polls: int = 0
    closed: int = 0
    error: Exception | None = None
    told: Sequence[tuple[str, int, int]] = ()
    hang: threading.Event | None = None

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        self.polls += 1
        for words in self.told:
            told(*words)
        if self.hang is not None:
            self.hang.wait(30)
        if self.error is not None:
            raise self.error
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    def look_back(self, window_s: float | None) -> None:
        self.asked.append(window_s)

    def scrub(self, by_s: float) -> None:
        self.asked.append(("scrub", by_s))

    def close(self) -> None:
        self.closed += 1


def view(word: Word = Word.READ, **given: object) -> View:
    """A view with the hand-made report."""
    known = View(title="h200-m3-tp4", word=word, at_s=NOW - 3, report=report_builder.full_report(), sources=(source(),))
    return replace(known, **given)


def source(word: Word = Word.READ) -> SourceState:
    return SourceState("rank0.json.gz", "trace", word, last_ok_s=NOW - 3, found="610 kernels")


# --- pages of the tests' own ---------------------------------------------------------------------------------

COLUMNS = (
    Column("place", right=True, keep=2),
    Column("what", wide=True),
    Column("verdict", keep=1),
    Column("share %", right=True),
    Column("calls", right=True, keep=3),
)


def line(at: int, name: str = "", verdict: str = "executed", share: float | None = None) -> Line:
    told = name or f"finding number {at}"
    value = at * 1.5 if share is None else share
    cells = (
        Cell(str(at), at),
        Cell(told, told),
        Cell(verdict, verdict, mark=verdict),
        Cell(f"{value:.1f}", value),
        Cell(f"{at * 1000:,}", at * 1000),
    )
    return Line(f"item-{at}", cells, f"detail/{at}")


def overview(_view: View, _lens: Lens) -> Sheet:
    verdicts = ("missed", "unexpected", "executed", "declined", "unproven", "off", "refused_at_start")
    lines = tuple(line(at, verdict=verdicts[(at - 1) % 7]) for at in range(1, 8))
    questions = tuple(
        Line(name, (Cell(name, name), Cell("executed", mark="executed"), Cell("12.5 µs", 12.5)), name)
        for name in ("shapes", "repeats", "bytes", "paths", "queues")
    )
    words = (Column("question"), Column("word"), Column("figure", right=True))
    return Sheet(
        "overview",
        (
            Said("Launches between graphs are 32 to 41 % of the decode step; confidence medium.", mark="missed"),
            Grid("Ranked", COLUMNS, lines),
            Grid("Questions", words, questions),
        ),
        change="a trace of a second rank",
    )


def detail(_view: View, _lens: Lens, which: str) -> Sheet:
    lines = tuple(line(at, LONG) for at in range(1, 41))
    return Sheet(
        f"finding {which}",
        (Said(f"This is {which}."), Grid("Evidence", COLUMNS, lines)),
        copy=f"# finding {which}\n",
    )


def charts(_view: View, _lens: Lens) -> Sheet:
    bars = tuple(Bar(f"family {at}", at * 10.0, f"{at * 10} µs") for at in range(1, 5))
    points = tuple((float(x), None if 20 <= x < 25 else float(x % 30) * 3) for x in range(-60, 1))
    spans = tuple((at * 10.0, at * 10.0 + 8, ("decode", "prefill", "mixed")[at % 3]) for at in range(10))
    legend = (("decode", "decode"), ("prefill", "prefill"), ("mixed", "mixed"))
    return Sheet(
        "charts",
        (
            Bars("Time by family", bars, 50.0, "µs"),
            Curve("Running requests", points, 0.0, 100.0, "requests", "87 now", marks=(-30.0,)),
            Strip("Steps", spans, 100.0, "ms", legend),
        ),
    )


class Many(Sequence):  # type: ignore[type-arg]
    """Lines that are made when they are asked for; counts how many were."""

    def __init__(self, count: int) -> None:
        self.count, self.made = count, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Line:  # type: ignore[override]
        if not 0 <= at < self.count:
            raise IndexError(at)
        self.made += 1
        return line(at)


MANY = Many(4_000_000)


def many(_view: View, _lens: Lens) -> Sheet:
    return Sheet("kernels", (Grid("Kernels", COLUMNS, MANY),))


def empty(_view: View, lens: Lens) -> Sheet:
    why = f"No finding has the verdict {lens.verdict or 'missed'}. Press v for another one."
    return Sheet("findings", (Grid("Findings", COLUMNS, (), why),))


def chosen(_view: View, lens: Lens) -> Sheet:
    return Sheet("chosen", (Said(f"rank {lens.rank}, phase {lens.phase}, verdict {lens.verdict}"),))


def broken(_view: View, _lens: Lens) -> Sheet:
    raise ValueError("a figure [red]that[/red] is none")


PAGES = {
    "overview": overview, "detail": detail, "shapes": chosen, "repeats": charts, "bytes": empty, "paths": many,
    "queues": broken, "findings": empty, "compare": chosen, "steps": charts, "sources": chosen,
}  # fmt: skip


@contextmanager
def own_pages(**more: object) -> Iterator[None]:
    """Targets lead to the pages above instead of to the sheets."""
    import sys
    import types

    module = types.ModuleType("m3probe.present.sheets.kit")
    for name, make in (PAGES | more).items():
        setattr(module, name, make)
    kept = dict(targets.PAGES)
    sys.modules[module.__name__] = module
    targets.PAGES.update({name: ("kit", name) for name in PAGES | more})
    try:
        yield
    finally:
        targets.PAGES.clear()
        targets.PAGES.update(kept)
        del sys.modules[module.__name__]


def app(feed: StillFeed, *, save: object = None, **options: object) -> M3ProbeApp:
    """The viewer over a feed, at a time that stands still."""
    desk = Desk(feed, clock=lambda: NOW, **({"save": save} if save else {}))
    return M3ProbeApp(desk, Options(**options))


async def shown(pilot: object) -> None:
    """Wait until the first view is on screen."""
    it = pilot.app
    for _ in range(200):
        await pilot.pause(0.01)
        if (it.screen is not it.loading and it.pages.is_mounted) or len(it.screen_stack) > 2:
            await pilot.pause()
            return


async def until(pilot: object, true: object) -> None:
    """Wait for what a thread does."""
    for _ in range(500):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError("it did not come")


def text_of(it: M3ProbeApp) -> str:
    """What stands on the screen, a line a row."""
    _width, height = it.size
    lines = it.screen._compositor.render_strips() if hasattr(it.screen._compositor, "render_strips") else []
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines[:height])


def svg_of(it: M3ProbeApp) -> str:
    """The screen as SVG without what differs from run to run."""
    return re.sub(r"terminal-\d+", "terminal", it.export_screenshot(title="m3probe")).strip()


def text_in(svg: str) -> str:
    """Characters of an SVG, for another release of Textual that draws the same cells in another way."""
    return "".join(re.sub(r"<style>.*?</style>|<[^>]*>", "", svg, flags=re.DOTALL).split())


def same_as_kept(svg: str, name: str) -> str:
    """What differs from the kept picture; nothing where it is the same.

    Pictures are of the release of Textual that made them: with another one only their text is held.
    """
    kept, made_by = SNAPSHOTS / f"{name}.svg", SNAPSHOTS / "TEXTUAL"
    if os.environ.get(UPDATE):
        SNAPSHOTS.mkdir(parents=True, exist_ok=True)
        kept.write_text(svg + "\n")
        made_by.write_text(textual.__version__ + "\n")
        return ""
    if not kept.exists():
        return f"{kept} is not there: look at the picture and keep it with {UPDATE}=1"
    before = kept.read_text().strip()
    whole = made_by.read_text().strip() == textual.__version__
    same = before == svg if whole else text_in(before) == text_in(svg)
    return "" if same else f"differs from {kept}; keep the new one with {UPDATE}=1 after a look at it"


_ = Block
