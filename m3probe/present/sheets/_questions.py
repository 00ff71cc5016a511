"""The five questions in a line each: a verdict word and the figure that stands for the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from m3probe.model.path_report import PathsSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    BytesSection,
    PhaseRow,
    QueuesSection,
    ShapesSection,
    SummarySection,
)
from m3probe.present._numbers import bytes_unit, fixed, in_unit, ms, percent, plural
from m3probe.present._paths import ORDER
from m3probe.present._top import bound_text
from m3probe.present.sheets._question import local_shapes
from m3probe.present.sheets._told import mark, words
from m3probe.present.sheets.planes import PLANES, largest
from m3probe.present.sheets.sheet import Cell, Column, Grid, Line
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import GraphMode, PathVerdict, Phase

UNPROVEN = str(PathVerdict.UNPROVEN)
NOT_MEASURED = "not measured"
"""Begin of what the queues' analyzer says of a queue that no input shows."""


@dataclass(frozen=True, slots=True)
class Headline:
    """``word``: what the answer comes to; ``figure``: what stands for it."""

    word: str
    figure: str


def questions(answer: Answer, scope: str) -> Grid:
    """One line a question; each opens its page."""
    found = (
        ("shapes", _shapes(answer.section(ShapesSection))),
        ("repeats", _repeats(answer)),
        ("bytes", _bytes(answer.section(BytesSection))),
        ("paths", _paths(answer.section(PathsSection))),
        ("queues", _queues(answer)),
    )
    columns = (Column("question"), Column("verdict"), Column("headline", wide=True))
    lines = tuple(_line(place, name, said) for place, (name, said) in enumerate(found, 1))
    return Grid(f"Questions, {scope}", columns, lines)


def _line(place: int, name: str, said: Headline) -> Line:
    cells = (Cell(f"{place} {name}", place), Cell(words(said.word), said.word, mark(said.word)), Cell(said.figure))
    return Line(f"question/{name}", cells, target(name))


_NOT_RUN = Headline(UNPROVEN, "not answered: its analyzer did not run")


def _shapes(section: ShapesSection | None) -> Headline:
    if section is None:
        return _NOT_RUN
    if not section.shapes:
        return Headline(UNPROVEN, "no GEMM with its shape was recorded")
    match = section.model_match
    known = local_shapes(section.shapes)
    model = f"{match.model} at TP{match.tp}; " if match else ""
    return Headline("model matched" if match else "no model match", model + known)


def _repeats(answer: Answer) -> Headline:
    section, summary = answer.section(RepeatsSection), answer.section(SummarySection)
    if section is None:
        return _NOT_RUN
    phases = summary.summary.phases if summary else ()
    decode = next((row for row in phases if row.phase == Phase.DECODE and row.steps), None)
    full = next((row.token_share for row in section.graph_coverage if row.graph_mode == GraphMode.FULL), None)
    counted = sum(row.per_step for row in section.repeats if row.phase == Phase.DECODE)
    said = _decode(decode) or ([f"{fixed(counted)} executions"] if counted else [])
    if not said:
        return Headline(UNPROVEN, "no decode step was recorded")
    said += [f"{percent(full, 0)} % in graphs"] if full is not None else []
    bound = {True: "launch bound", False: "not launch bound", None: "counted"}[section.costs.launch_bound]
    return Headline(bound, f"decode: {', '.join(said)}")


def _decode(row: PhaseRow | None) -> list[str]:
    if row is None:
        return []
    said = [f"{fixed(row.kernel_count / row.steps)} kernels"] if row.kernel_count else []
    said += [] if row.step_time_ns is None else [f"{ms(row.step_time_ns / row.steps)} ms"]
    return said


def _bytes(section: BytesSection | None) -> Headline:
    if section is None:
        return _NOT_RUN
    rows = [row for name, _ in PLANES for row in getattr(section.bytes, name)]
    sized = sum(row.bytes is not None for row in rows)
    if not sized:
        return Headline(UNPROVEN, f"no bytes known of {plural(len(rows), 'kind')} of traffic")
    most = ""
    for (_, what, _evidence), number in largest({name: getattr(section.bytes, name) for name, _ in PLANES})[:1]:
        unit, size = bytes_unit((number,))
        most = f"; most {in_unit(number, size)} {unit}, {what}"
    whole = sized == len(rows) and not section.bytes.not_provable
    return Headline("measured" if whole else "in part", f"{sized} of {plural(len(rows), 'kind')} proven{most}")


def _paths(section: PathsSection | None) -> Headline:
    if section is None:
        return _NOT_RUN
    if not section.paths:
        return Headline(UNPROVEN, "no fast path is known to this installation")
    counts = Counter(row.verdict for row in section.paths)
    known = [word for word in ORDER if counts[word]]
    said = ", ".join(f"{counts[word]} {words(word)}" for word in known)
    # some that ran beside others that nothing proves are no pass
    mixed = known[0] == PathVerdict.EXECUTED and counts[PathVerdict.UNPROVEN]
    return Headline("in part" if mixed else str(known[0]), said)


def _told_of_queues(answer: Answer) -> Headline | None:
    """The first ranked finding of this question, where no queue was measured for itself."""
    section = answer.section(BottleneckSection)
    found = {each.id: each for each in answer.findings if each.question == "queues" and each.trusted and each.bound}
    first = next((found[row.finding] for row in section.ranking if row.finding in found), None) if section else None
    if first is None or first.bound is None:
        return None
    return Headline(first.verdict, f"{bound_text(first.bound)} of {first.bound.basis or 'a time that is not named'}")


def _queues(answer: Answer) -> Headline:
    section = answer.section(QueuesSection)
    if section is None:
        return _NOT_RUN
    rows = [row for row in section.queue_rows if row.length_mean is not None]
    growing = [row for row in rows if row.trend == "grows"]
    measured = [name for name, text in section.queues.items() if not text.startswith(NOT_MEASURED)]
    if not rows:
        told = _told_of_queues(answer)
        if told:
            return told
        seen = f"{len(measured)} of {plural(len(section.queues), 'queue')} with a figure"
        return Headline("in part" if measured else UNPROVEN, seen if section.queues else "no queue was looked at")
    most = max(growing or rows, key=lambda row: (row.growth_per_s or 0.0) if growing else row.length_mean or 0.0)
    rate = f", {fixed(most.growth_per_s, 2)}/s" if growing else ""
    basis = "Little's law" if most.basis == "little" else most.basis
    figure = f"longest: {words(most.queue)} {fixed(most.length_mean, 1)} requests{rate} ({basis})"
    return Headline("grows" if growing else "none grows", figure)
