"""Runs held against the first one, for a terminal: doubts first, then the contract, then differences and credit."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.compare_report import (
    DIFFERS,
    EQUAL,
    CompareReport,
    Contract,
    Credit,
    Pair,
    Required,
    RunRow,
    TrailRow,
)
from m3probe.present._compare_bench import bench_block, crossing_block
from m3probe.present._compare_parts import few_steps, host_block, path_block, phase_block, shape_block
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table
from m3probe.schema.verdicts import Trust

_LABEL = 12
_STATES = {EQUAL: ("●", "good"), DIFFERS: ("✗", "bad"), "unknown": ("?", "warn")}
_CREDITS = {"credited": "good bold", "bundle": "warn", "refused": "warn", "suspect not executed": "warn bold"}
_REQUIRED = {"holds": ("ok", "good"), "failed": ("FAILED", "bad bold"), "inconclusive": ("inconclusive", "warn bold")}
_BESIDE = {"no_trace", "log_only"}
"""Reasons against trust that are no fault of the evidence: there is none of the kind."""
SETTINGS_SHOWN, CREDITS_SHOWN, BESIDE_SHOWN, MIX_SHOWN, NAMED = 8, 8, 2, 1, 3


def compare_text(report: CompareReport, width: int, color: bool, *, ascii_only: bool = False, explain: bool) -> str:
    """The report in lines of at most ``width`` cells, without a newline at its end.

    Args:
        explain: with the arithmetic, and everything that was matched.
    """
    page = Page(width, color, ascii_only)
    for run in report.runs:
        _run(page, run)
    for pair in report.pairs:
        _pair(page, pair, explain=explain)
    _trail(page, report.trail)
    _required(page, report.required)
    return page.text()


def _labelled(page: Page, label: str, *text: str, style: str = "") -> None:
    page.say((label.ljust(_LABEL), "dim"), *((one, style) for one in text), hang=_LABEL)


def _run(page: Page, run: RunRow) -> None:
    """Ranks before trust, trust before any figure: a run whose ranks differ is not one server."""
    files = "" if run.inputs == (run.name,) else f"  {', '.join(run.inputs)}"
    page.say((run.name, "bold"), (files, "dim"), hang=2)
    for text in run.ranks:
        page.say((f"! not one server: {text}", "bad bold"), indent=2, hang=2)
    words = {reason.word for reason in run.trust.reasons} if run.trust else set()
    if words & _BESIDE:
        page.say(("no trace and no live recording of it: nothing shows which kernels ran", "dim"), indent=2, hang=2)
    elif run.trust is not None and run.trust.verdict != Trust.COMPLETE:
        reasons = "; ".join(reason.text for reason in run.trust.reasons) or "no reason was given"
        page.say((f"! {run.trust.verdict}", "warn bold"), f": {reasons}", indent=2, hang=2)
    for note in run.notes[:3]:
        page.say((note, "dim"), indent=2, hang=2)


def _pair(page: Page, pair: Pair, *, explain: bool) -> None:
    page.heading(f"{pair.before} → {pair.after}", _differing(pair.contract))
    _labelled(page, "Answer", pair.answer.rstrip(".") + ".", style="bold")
    for place, text in enumerate(pair.beside if explain else pair.beside[:BESIDE_SHOWN]):
        _labelled(page, "" if place else "Traced", text, style="dim")
    _contract(page, pair.contract, explain=explain)
    for found in pair.credits[:CREDITS_SHOWN]:
        _credit(page, found)
    _labelled(page, "Bottleneck", pair.moved.text)
    if pair.metrics is not None:
        bench_block(page, pair.metrics, explain=explain)
    for text in pair.mix if explain else pair.mix[:MIX_SHOWN]:
        page.say((text, "dim"), indent=2, hang=2)
    if not explain and len(pair.mix) > MIX_SHOWN:
        page.say((f"{len(pair.mix) - MIX_SHOWN} more on rows in --explain", "dim"), indent=2, hang=2)
    few = [] if explain else [c for c in pair.phases if c.error_ns is None and c.delta_ns is not None]
    few = few if len(few) < len(pair.phases) else []
    for change in pair.phases:
        if change not in few:
            phase_block(page, change, explain=explain)
    few_steps(page, few)
    host_block(page, pair.hosts)
    shape_block(page, pair.shapes, explain=explain)
    path_block(page, pair.paths)
    if pair.crossing is not None:
        crossing_block(page, pair.crossing, explain=explain)


def _differing(contract: Contract) -> str:
    """Settings that differ by themselves: which run this is."""
    names = [s.name for s in contract.settings or () if not s.follows]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _contract(page: Page, contract: Contract, *, explain: bool) -> None:
    """One line of what is equal, and a row for each topic that is not."""
    told = [t for t in contract.topics if explain or t.state == DIFFERS]
    equal = [t.topic for t in contract.topics if t.state == EQUAL]
    unknown = [t for t in contract.topics if t.state not in (EQUAL, DIFFERS)]
    words = [f"equal: {', '.join(equal)}"] if equal else []
    words += [f"not known: {', '.join(t.topic for t in unknown)}"] if unknown else []
    _labelled(page, "Contract", f"{contract.verdict}; {'; '.join(words)}" if words else contract.verdict)
    if told:
        rows = [
            (
                *((" ".join(_STATES[t.state][:1]), _STATES[t.state][1]),),
                t.topic,
                t.before or UNKNOWN,
                t.after or UNKNOWN,
            )
            for t in told
        ]
        columns = (Column(""), Column("topic"), Column("before", least=12), Column("after", least=12))
        table(page, columns, rows, indent=_LABEL)
    if contract.verdict != "same" and unknown:
        lines = list(dict.fromkeys(t.tell for t in unknown)) if explain else [unknown[0].tell]
        for line in lines:
            page.say((f"→ {line}", "dim"), indent=_LABEL, hang=2)
    _settings(page, contract)


def _settings(page: Page, contract: Contract) -> None:
    if contract.settings is None:
        _labelled(page, "Settings", "not known of both runs: --recipe FILE once for each, or the servers' logs")
        return
    alone = [s for s in contract.settings if not s.follows]
    follow = len(contract.settings) - len(alone)
    if not alone:
        _labelled(page, "Settings", "none that is known differs")
    for place, setting in enumerate(alone[:SETTINGS_SHOWN]):
        more = f" ({follow} more follow from it)" if follow and len(alone) == 1 else ""
        _labelled(page, "" if place else "Settings", f"{setting.name}: {setting.before} → {setting.after}{more}")
    if len(alone) > SETTINGS_SHOWN:
        _labelled(page, "", f"and {len(alone) - SETTINGS_SHOWN} more (--json)")


def _credit(page: Page, found: Credit) -> None:
    page.say(
        ("Credit".ljust(_LABEL), "dim"),
        (found.verdict, _CREDITS.get(found.verdict, "")),
        f": {found.text}",
        hang=_LABEL,
    )
    if found.tell:
        page.say(f"→ {found.tell}", indent=_LABEL, hang=2)


def _trail(page: Page, rows: Sequence[TrailRow]) -> None:
    page.heading("Trail", "the next bottleneck of each run, and its level")
    figure = next((row.figure for row in rows if row.figure), "")
    columns = (
        Column("run", least=10), number(figure or "figure", drop=1), Column("level"), Column("next bottleneck", least=16),
        Column("claim", least=24, drop=2),
    )  # fmt: skip
    table(
        page,
        columns,
        [
            (r.run, "" if not figure else fixed(r.value, 1), r.level or UNKNOWN, r.finding or UNKNOWN, r.claim)
            for r in rows
        ],
    )


def _required(page: Page, rows: Sequence[Required]) -> None:
    if rows:
        page.heading("Required")
    for row in rows:
        word, style = _REQUIRED[row.outcome]
        page.say((word.ljust(14), style), (row.word, "bold"), f": {row.why}", indent=2, hang=14)
