"""Every source: how it is, when it was last read, what it lacks and what that costs; the files of a recording."""

from __future__ import annotations

from m3probe.model.recording import KERNEL_FREE, Recording, SourceFile
from m3probe.model.report import TrustSection
from m3probe.model.view import SourceState, View
from m3probe.present._numbers import UNKNOWN, plural
from m3probe.present.sheets._told import age, number, whole, words
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target

MEBIBYTE = 1 << 20
_NONE = "No source is watched: all that is shown was read from the files below."
_COSTS = {
    "ops_with_shapes": "no operator with its shapes: question 1 needs record_shapes, a census or a live recording",
    "graph_launches_with_census": "graph launches without a census: what ran inside them is known from kernel records alone",
    "modules": "no model map: layers are counted by anchor kernels",
    "configuration": "no configuration: missed and declined paths are unproven (give --recipe)",
    "queues": "no queue was measured: question 5 needs /metrics, a log, a benchmark or a live recording",
}
"""What the coverage lacks, and what that costs."""


def sources(view: View, _lens: Lens) -> Sheet:
    """All sources, then the files of the recording with their notes, then what could not be seen at all."""
    columns = (
        Column("source", wide=True),
        Column("kind", keep=1),
        Column("state"),
        Column("last ok", right=True),
        Column("took ms", right=True, keep=2),
        Column("retry s", right=True, keep=2),
        Column("found", keep=1),
        Column("lacks", right=True),
    )
    names = [each.name for each in view.sources]
    lines = tuple(_line(view, each, names[:at].count(each.name)) for at, each in enumerate(view.sources))
    blocks: list[Block] = [Grid("Sources", columns, lines, _NONE)]
    unwell = [Said(f"{each.name}: {each.detail}", each.word.value) for each in view.sources if each.detail]
    missing = [Said(f"{each.name} lacks {text}", "unproven") for each in view.sources for text in each.missing]
    blocks += [*unwell, *missing, *_recorded(view.recording), *_uncovered(view)]
    return Sheet("sources", tuple(blocks))


def _line(view: View, each: SourceState, before: int) -> Line:
    """``before``: sources of the same name above it; files of two folders may be called alike."""
    cells = (
        Cell(each.name, each.name),
        Cell(each.kind, each.kind),
        Cell(each.word.value, each.word.value, each.word.value),
        Cell(age(view.at_s, each.last_ok_s) if each.last_ok_s is not None else "never", each.last_ok_s),
        number(each.took_ms),
        number(each.retry_in_s, 1),
        Cell(each.found or UNKNOWN, each.found or None),
        whole(len(each.missing)),
    )
    if before:
        return Line(f"{each.name} #{before + 1}", cells, target("source", each.name, before))
    return Line(each.name, cells, target("source", each.name))


def source(view: View, _lens: Lens, name: str, before: str = "0") -> Sheet:
    """One source in full; ``before``: how many of the same name stand above it.

    Raises:
        KeyError: there is none of this name.
    """
    alike = [found for found in view.sources if found.name == name]
    each = alike[int(before)] if before.isdecimal() and int(before) < len(alike) else None
    if each is None:
        raise KeyError(f"source {name} is not watched (any more)")
    took = f", the last read took {each.took_ms:,.0f} ms" if each.took_ms is not None else ""
    retry = f"; asked again in {each.retry_in_s:.1f} s" if each.retry_in_s is not None else ""
    last = age(view.at_s, each.last_ok_s) if each.last_ok_s is not None else "never"
    said = [Said(f"{each.word.value}{': ' if each.detail else ''}{each.detail}", each.word.value)]
    said += [Said(f"{each.kind}, last read well {last}{took}{retry}.")]
    said += [Said(f"Found: {each.found}")] if each.found else []
    lines = tuple(Line(text, (Cell(what, what), Cell(cost.strip() or UNKNOWN))) for text, what, cost in _split(each))
    columns = (Column("missing"), Column("what that costs", wide=True))
    lacking = Grid("Missing", columns, lines, "Nothing that is looked for is missing.")
    return Sheet(each.name, (*said, lacking))


def _split(each: SourceState) -> list[tuple[str, str, str]]:
    """(text, name, cost); names of series hold colons, so that the cost follows a colon and a space."""
    return [(text, *text.partition(": ")[::2]) for text in each.missing]


def _recorded(rec: Recording | None) -> list[Block]:
    """Files of the recording, and what was noted of each."""
    if rec is None:
        return []
    columns = (
        Column("file", wide=True),
        Column("kind"),
        Column("role"),
        Column("rank", right=True),
        Column("MiB", right=True, keep=1),
        Column("events", right=True, keep=1),
        Column("lost", right=True),
        Column("notes", right=True),
    )
    lines = tuple(_file(rec, place, file) for place, file in enumerate(rec.files))
    notes = [
        Said(f"{note.path.rsplit('/', 1)[-1] or 'all files'}: {note.text}", "PARTIAL" if note.lossy else "")
        for note in rec.notes
    ]
    return [Grid("Files, recorded", columns, lines, "The recording has no file."), *notes]


def _file(rec: Recording, place: int, file: SourceFile) -> Line:
    # a log or a benchmark has no events: not counted is not none
    counted = file.role not in KERNEL_FREE and file.kind == "kineto"
    notes = sum(note.path == file.path for note in rec.notes)
    cells = (
        Cell(file.path, file.path),
        Cell(file.kind, file.kind),
        Cell(file.role, file.role),
        whole(file.rank),
        number(file.size_bytes / MEBIBYTE, 2),
        whole(file.counts.events_x if counted else None),
        whole(file.counts.lost_events if counted else None),
        whole(notes),
    )
    return Line(f"file/{place}", cells)


def _uncovered(view: View) -> list[Block]:
    """What could not be seen at all, and what that costs."""
    section = view.report.answer.section(TrustSection) if view.report else None
    if section is None:
        return []
    launched = section.coverage.get("graph_launches")
    said = [
        cost
        for name, cost in _COSTS.items()
        if not section.coverage.get(name) and (name != "graph_launches_with_census" or launched)
    ]
    seen = [f"{words(name)} {value:,}" for name, value in section.coverage.items() if type(value) is int]
    head = Said(f"Coverage: {', '.join(seen)}.", dim=True)
    return [head, *(Said(text, "unproven") for text in said), *_trust(section)]


def _trust(section: TrustSection) -> list[Said]:
    reasons = section.trust.reasons
    said = f"Trust {section.trust.verdict}" + (f": {plural(len(reasons), 'reason')}." if reasons else ".")
    return [Said(said), *(Said(f"{words(each.word)}: {each.text}", "PARTIAL") for each in reasons)]
