"""The report as a page: trust, the next bottleneck with its arithmetic, each question's plots and tables, the evidence."""

from __future__ import annotations

from dataclasses import replace

from m3probe.model.report import BottleneckSection, TrustSection
from m3probe.model.view import View, Word
from m3probe.present._numbers import UNKNOWN, listed, plural
from m3probe.present._top import unseen_launches
from m3probe.present.html._plots import figures_of
from m3probe.present.html.page import page
from m3probe.present.html.section import Section
from m3probe.present.sheets._questions import questions
from m3probe.present.sheets._told import lacks
from m3probe.present.sheets.findings import finding
from m3probe.present.sheets.overview import misled, next_said, ordered, partial, queues_alone, ranked
from m3probe.present.sheets.sheet import Block, Lens, Said, Strip
from m3probe.present.sheets.targets import sheet_of
from m3probe.schema.verdicts import Trust

QUESTIONS = {
    "shapes": (
        "Shapes",
        "Which local M, N, K reach this rank, in which phase, and how far above its least time is each?",
    ),
    "repeats": ("Repeats", "What runs per layer, step and token, and when does the device wait?"),
    "bytes": ("Bytes", "What moves on each plane: compute tensors, persistent state, communication?"),
    "paths": ("Paths", "Which fast paths ran, which were only configured, and why was one refused?"),
    "queues": ("Queues", "Which queue grows?"),
}
PLOTS = {
    "overview": ("verdict",),
    "shapes": ("shapes", "roofline"),
    "repeats": ("repeats",),
    "bytes": ("planes",),
    "paths": ("paths",),
    "queues": ("queues",),
    "steps": ("steps",),
}
"""Section -> modules of ``figures/``, in the order in which they are drawn."""
SOURCES_NAMED = 4


def report_html(view: View) -> str:
    """One self-contained file: it opens offline and asks nothing of a network.

    Args:
        view: what was read and judged; without a report the page says why there is none.
    """
    sections = [_next(view), *(_question(view, name) for name in QUESTIONS)]
    sections += [_plain(view, name) for name in ("steps", "findings", "sources")]
    return page(view, view.title, banner(view), sections)


def banner(view: View) -> list[Said]:
    """Whether the figures can be trusted, what was lost, and of what they are."""
    section = view.report.answer.section(TrustSection) if view.report else None
    said: list[Said] = []
    if section is not None and section.trust.verdict == Trust.COMPLETE:
        text = f"Trust complete: nothing that was read hides a kernel{unseen_launches(section)}."
        said.append(Said(text, "complete"))
    if view.detail or view.word is not Word.READ:
        said.append(Said(f"{view.word.value}: {view.detail or 'no reason was given'}", view.word.value))
    said += [Said(each.text, each.mark, each.dim) for each in partial(view)]
    named = [f"{each.name} ({each.kind}{', ' if each.found else ''}{each.found})" for each in view.sources]
    read = f"{plural(len(named), 'source')}: {listed(named, SOURCES_NAMED)}." if named else "No source was read."
    return [*said, Said(read, dim=True)]


def _next(view: View) -> Section:
    """What to act on, its arithmetic in full, what stands behind it, and the five questions in a line each."""
    report = view.report
    if report is None:
        return Section("Next bottleneck", "overview", (Said(f"{UNKNOWN} {lacks(view)}", "unproven"),))
    rows = ordered(report, Lens())
    claim, *worth = next_said(report, rows, queues_only=queues_alone(view))
    first: list[Block] = [replace(claim, text=claim.text.removeprefix("Next: ").removeprefix(f"{UNKNOWN}  ")), *worth]
    below: list[Block] = [*misled(report)]
    section = report.answer.section(BottleneckSection)
    found = section.next_bottleneck if section else None
    if found is not None:
        _, *told = finding(view, Lens(), found.finding).blocks
        # its standing and its place say what stands above it already
        first += [
            each for each in told if isinstance(each, Said) and not each.dim and not each.text.startswith("Place")
        ]
        below += [each for each in told if not isinstance(each, Said)]
    below += [*ranked(report, rows, len(rows)), questions(report.answer, "recorded")]
    return _with_plots(view, Section("Next bottleneck", "overview", tuple(below), first=tuple(first)))


def _question(view: View, name: str) -> Section:
    title, asks = QUESTIONS[name]
    sheet = sheet_of(name, view, Lens())
    first = tuple(each for each in sheet.blocks[:1] if isinstance(each, Said))
    change = (Said(f"What would change this answer: {sheet.change}.", dim=True),) if sheet.change else ()
    blocks = (*sheet.blocks[len(first) :], *change)
    return _with_plots(view, Section(title, name, blocks, asks=asks, first=first))


def _plain(view: View, name: str) -> Section:
    made = _with_plots(view, Section(name.capitalize(), name, sheet_of(name, view, Lens()).blocks))
    # the time line is a plot already
    kept = tuple(each for each in made.blocks if not (made.figures and isinstance(each, Strip)))
    return replace(made, blocks=kept)


def _with_plots(view: View, section: Section) -> Section:
    figures, failed = figures_of(view, *PLOTS.get(section.opens, ()))
    return replace(section, figures=figures, blocks=(*failed, *section.blocks))
