"""A comparison as a page: what may be claimed first, then what changed, what explains it, and where to look next."""

from __future__ import annotations

from m3probe.model.compare_report import CompareReport
from m3probe.model.view import View
from m3probe.present._numbers import plural
from m3probe.present.html._plots import figures_of
from m3probe.present.html.figures._compare_look import MOST_PAIRS
from m3probe.present.html.figures._compare_ratios import why_not
from m3probe.present.html.page import page
from m3probe.present.html.section import Section
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.comparison import CONTRACTS, comparison, credited
from m3probe.present.sheets.sheet import Lens, Said

SECTIONS = {
    "contract": ("Contract", "What do the runs share, and what may therefore be claimed of them?"),
    "ratios": ("Ratios", "Which figures moved by more than equal runs lie apart?"),
    "change": ("What explains the change", "Which part of a step became longer or shorter?"),
    "compared-paths": ("Fast paths", "Which fast paths ran in which run?"),
    "credit": ("Credit", "What may the change be put down to?"),
    "trail": ("Trail", "Where is the next bottleneck of each run, and on which level of the machine?"),
    "step-times": ("Step times", "How do the times of all steps lie?"),
    "benchmark": ("Benchmark", "What did the clients see, and where does the faster run change?"),
}
"""Anchor -> (heading, question), in the order of the page."""
PLOTS = {
    "contract": ("_compare_contract",),
    "ratios": ("_compare_ratios",),
    "change": ("_compare_change",),
    "compared-paths": ("_compare_paths",),
    "credit": ("_compare_credit",),
    "trail": ("trail",),
    "step-times": ("_compare_steps",),
    "benchmark": ("_compare_benchmark", "_compare_laws"),
}
"""Anchor -> modules of ``figures/``."""
LEFT_OUT = 6
"""Sentences of what was left out for each pair; the run's page has all."""
NOTHING = {
    "ratios": "No ratio with a contract was measured.",
    "change": "No steps of one phase and about the same rows were timed in two runs: a trace of each would tell.",
    "compared-paths": "No run tells of fast paths: a trace, a live recording or --recipe would.",
    "trail": "No next bottleneck is named of two runs: a trace or a live recording of each would tell.",
    "step-times": "No run's steps have times: a trace of each would tell.",
    "benchmark": "No point was measured by the clients of two runs: results of vLLM's benchmark client at one load would tell.",
}
"""What a section without a plot says, with what would tell."""


def compare_html(view: View) -> str:
    """One self-contained file of the comparison in ``view``; without one the page says how to make it."""
    found = view.compare
    sheet = comparison(view, Lens())
    if found is None:
        return page(view, view.title, [], [Section("Comparison", "compare", sheet.blocks)])
    banner = [block for block in sheet.blocks if isinstance(block, Said) and not block.dim]
    rest = [block for block in sheet.blocks if block not in banner]
    sections = [_section(view, found, name) for name in SECTIONS]
    sections.append(Section("Runs", "compare", tuple(rest)))
    return page(view, view.title, banner, sections)


def _section(view: View, found: CompareReport, name: str) -> Section:
    title, asks = SECTIONS[name]
    figures, failed = figures_of(view, *PLOTS[name])
    first = [*failed, *_first(found, name)]
    if not figures and name in NOTHING and not (name == "ratios" and first):
        first = [Said(NOTHING[name], q.UNPROVEN), *first]
    return Section(title, name, figures=figures, asks=asks, first=tuple(first))


def _first(found: CompareReport, name: str) -> list[Said]:
    """Sentences above the plots: claims, reasons for what is not drawn, verdicts."""
    said: list[Said] = []
    if name == "contract":
        said = [
            Said(f"{pair.after}: {pair.contract.claim}", CONTRACTS.get(pair.contract.verdict, q.UNPROVEN))
            for pair in found.pairs
        ]
    if name == "ratios":
        said = [Said(why, q.WARN) for pair in found.pairs if (why := why_not(pair))]
    if name == "credit":
        said = [
            Said(f"{pair.after}: {line.text}", line.mark, line.dim)
            for pair in found.pairs
            for one in pair.credits
            for line in credited(one)
        ]
    if name == "benchmark":
        said = [
            Said(f"{pair.after}: left out of {out.side.upper()}: {out.name}: {out.why}", q.WARN)
            for pair in found.pairs
            if pair.metrics
            for out in pair.metrics.left_out[:LEFT_OUT]
        ]
    more = len(found.pairs) - MOST_PAIRS
    if name in ("ratios", "change", "benchmark") and more > 0:
        said.append(Said(f"{plural(more, 'more run')} not drawn here: their pages below hold the figures", dim=True))
    return said
