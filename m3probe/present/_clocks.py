"""Whether all inputs are on one clock: one line, and what they say against each other."""

from __future__ import annotations

from m3probe.model.clock import ClockSection, FileClock, Tie
from m3probe.model.findings import Finding
from m3probe.present._numbers import plural
from m3probe.present._page import Page, Piece

_LABEL = 7
QUESTION = "joining"
MOST = 3
TIMELESS = frozenset({"kernel-summary"})
"""Kinds that stand beside a trace of their own and hold totals alone."""
NAMED = 2


def joined(page: Page, section: ClockSection | None, findings: tuple[Finding, ...]) -> None:
    """Nothing for inputs of one kind that agree: their own notes say what must be known of them."""
    told = [finding for finding in findings if finding.question == QUESTION]
    clocks = tuple(clock for clock in section.clocks if clock.kind not in TIMELESS) if section is not None else ()
    if len({clock.kind for clock in clocks}) > 1:
        page.say(("Clock".ljust(_LABEL), "dim"), *_line(clocks), hang=_LABEL)
    for number, finding in enumerate(told[:MOST]):
        label = "Differ" if not number else ""
        page.say((label.ljust(_LABEL), "dim"), ("! ", "warn bold"), (finding.claim, "warn"), hang=_LABEL)
    if len(told) > MOST:
        page.say((f"{len(told) - MOST:,} more in --json", "dim"), indent=_LABEL)


def _line(clocks: tuple[FileClock, ...]) -> list[Piece]:
    by_state = {state: [clock for clock in clocks if clock.state is state] for state in Tie}
    files = {state: sum(clock.files for clock in found) for state, found in by_state.items()}
    if not by_state[Tie.UNALIGNED] and not by_state[Tie.ASSUMED]:
        return [("● one clock", "good bold"), (f": all {plural(files[Tie.ALIGNED], 'file')} say their wall time", "")]
    parts = [f"{plural(files[Tie.ALIGNED], 'file')} on the wall clock"] if files[Tie.ALIGNED] else []
    parts += [f"{_names(by_state[Tie.ASSUMED])} assumed ({by_state[Tie.ASSUMED][0].how})"] if files[Tie.ASSUMED] else []
    parts += (
        [f"{_names(by_state[Tie.UNALIGNED])} not ({by_state[Tie.UNALIGNED][0].how})"] if files[Tie.UNALIGNED] else []
    )
    glyph: Piece = ("! not one clock", "warn bold") if files[Tie.UNALIGNED] else ("● one clock", "good bold")
    return [glyph, (f": {'; '.join(parts)}", "")]


def _names(clocks: list[FileClock]) -> str:
    names = [clock.path.rsplit("/", 1)[-1] for clock in clocks]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
