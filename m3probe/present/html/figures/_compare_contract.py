"""What runs share with the first one: topics as rows, runs as columns; and what may be claimed of each."""

from __future__ import annotations

from m3probe.model.compare_report import DIFFERS, EQUAL, CompareReport, Pair, Topic
from m3probe.model.compare_report import UNKNOWN as NOT_KNOWN
from m3probe.model.view import View
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import hover
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Column, Grid, Line

WORDS = {EQUAL: ("● equal", look.GOOD), DIFFERS: ("✗ differs", look.BAD), NOT_KNOWN: ("? unknown", look.UNKNOWN)}
SHORT = 4
"""Columns from which on a cell holds its glyph alone."""


def figures(view: View) -> tuple[Figure, ...]:
    """One matrix for all runs; nothing where no run was held against another."""
    found = view.compare
    pairs = look.pairs_of(found) if found else ()
    if not found or not pairs:
        return ()
    topics = list(dict.fromkeys(topic.topic for pair in pairs for topic in pair.contract.topics))
    cells = [[_mark(pair, topic, len(pairs)) for pair in pairs] for topic in topics]
    names = look.distinct(topics)
    columns = look.distinct([pair.after for pair in pairs])
    figure = Figure(
        key="contract",
        title=f"What do the runs share with {pairs[0].before}?",
        says=look.listed([_said(pair) for pair in pairs]) + look.left_out(found),
        data=tuple(look.matrix(columns, names, cells)),
        layout=look.matrix_layout(names, len(columns)),
        rows=_rows(found),
    )
    return (figure,)


def _topic(pair: Pair, name: str) -> Topic | None:
    return next((topic for topic in pair.contract.topics if topic.topic == name), None)


def _mark(pair: Pair, name: str, columns: int) -> look.Mark | None:
    topic = _topic(pair, name)
    if topic is None:
        return None
    text, fill = WORDS[topic.state]
    values = [f"{pair.before}: {topic.before or 'not known'}", f"{pair.after}: {topic.after or 'not known'}"]
    told = hover(f"{name}: {topic.state}", *values, topic.tell and f"would tell: {topic.tell}")
    return look.Mark(text if columns < SHORT else text[0], fill, told, look.run_target(pair.after))


def _said(pair: Pair) -> str:
    """How many topics are equal, and which are not: what they forbid stands above the plot."""
    topics = pair.contract.topics
    equal = sum(topic.state == EQUAL for topic in topics)
    told = [
        f"{', '.join(topic.topic for topic in topics if topic.state == state)} {word}"
        for state, word in ((DIFFERS, "not equal"), (NOT_KNOWN, "not known"))
        if any(topic.state == state for topic in topics)
    ]
    return ", ".join((f"{pair.after}: {equal} of {len(topics)} topics equal", *told))


def _rows(found: CompareReport) -> Grid:
    columns = (
        Column("run"),
        Column("topic"),
        Column("state"),
        Column("before"),
        Column("after"),
        Column("would tell", wide=True),
    )
    lines = q.keyed(
        Line(
            f"{pair.after} {topic.topic}",
            (
                q.word(pair.after),
                q.word(topic.topic),
                q.word(topic.state, {EQUAL: q.GOOD, DIFFERS: q.BAD}.get(topic.state, q.UNPROVEN)),
                q.word(topic.before or ""),
                q.word(topic.after or ""),
                q.word(topic.tell),
            ),
            look.run_target(pair.after),
        )
        for pair in found.pairs
        for topic in pair.contract.topics
    )
    return Grid("Contract, topic by topic", columns, lines)
