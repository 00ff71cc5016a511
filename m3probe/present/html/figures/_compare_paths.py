"""Each fast path in each run and phase, side by side."""

from __future__ import annotations

from m3probe.model.compare_report import CompareReport
from m3probe.model.compare_run import PathSeen
from m3probe.model.view import View
from m3probe.present._numbers import fixed, per, plural
from m3probe.present._paths import LOOKS, ORDER
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import hover
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.paths import verdict
from m3probe.present.sheets.sheet import Column, Grid, Line
from m3probe.schema.verdicts import PathVerdict

FILLS = {"good": look.GOOD, "bad": look.BAD, "warn": look.WARN, "": look.SAME, "dim": look.OFF}
"""Style of a verdict -> fill of its cell."""
MOST_PATHS, MOST_COLUMNS = 26, 24
SHORT = 4
"""Columns from which on a cell holds its glyph alone."""
Column_ = tuple[str, str]
"""(run, phase)."""


def figures(view: View) -> tuple[Figure, ...]:
    """Paths of which one run at least says more than ``off``; nothing where no run tells of paths."""
    return _figure(view.compare) if view.compare else ()


def _figure(found: CompareReport) -> tuple[Figure, ...]:
    cells = {(seen.id, run.name, seen.phase): seen for run in found.runs[: look.MOST_RUNS] for seen in run.paths}
    phases = list(dict.fromkeys(phase for _, _, phase in cells))
    columns = [
        (run.name, p) for p in phases for run in found.runs[: look.MOST_RUNS] if any(s.phase == p for s in run.paths)
    ]
    columns = columns[:MOST_COLUMNS]
    told = [path for path in dict.fromkeys(path for path, _, _ in cells) if _tells(path, columns, cells)]
    if not told or not columns:
        return ()
    told.sort(key=lambda path: min(_place(cells[path, *at].verdict) for at in columns if (path, *at) in cells))
    shown = told[:MOST_PATHS]
    titles = {seen.id: seen.title for seen in cells.values()}
    names = look.distinct([titles[path] for path in shown])
    grid = [[_mark(cells.get((path, *at)), at[0], len(columns)) for at in columns] for path in shown]
    heads = look.distinct([f"{run} {phase}" for run, phase in columns])
    return (
        Figure(
            key="compared-paths",
            title="Which fast paths ran in which run?",
            says=_said(found, len(told), len(titles)),
            data=tuple(look.matrix(heads, names, grid)),
            layout=look.matrix_layout(names, len(heads)),
            rows=_rows(found),
        ),
    )


def _tells(path: str, columns: list[Column_], cells: dict[tuple[str, str, str], PathSeen]) -> bool:
    words = {cells[path, *at].verdict for at in columns if (path, *at) in cells}
    return bool(words - {PathVerdict.OFF, ""})


def _place(word: str) -> int:
    return next((at for at, known in enumerate(ORDER) if known == word), len(ORDER))


def _mark(seen: PathSeen | None, run: str, columns: int) -> look.Mark | None:
    if seen is None:
        return None
    glyph, style = LOOKS.get(seen.verdict, ("?", "dim"))
    word = f"{glyph} {seen.verdict.replace('_', ' ')}"
    calls = f"{fixed(per(seen.calls, seen.steps), 1)} calls a step in {plural(seen.steps, 'step')}"
    told = hover(f"{seen.title}, {seen.phase}, {run}: {word}", seen.variant, calls, *seen.reasons[:3])
    return look.Mark(word if columns < SHORT else glyph, FILLS[style.partition(" ")[0]], told, look.run_target(run))


def _said(found: CompareReport, shown: int, known: int) -> str:
    """What each run executed, and which paths differ from the first run's."""
    ran = [
        f"{run.name} ran {', '.join(dict.fromkeys(seen.id for seen in run.paths if seen.ran)) or 'none that is known'}"
        for run in found.runs[: look.MOST_RUNS]
    ]
    off = f" {plural(known - shown, 'path is', 'paths are')} off in every run and not drawn." if known > shown else ""
    key = ", ".join(f"{glyph} {word.replace('_', ' ')}" for word, (glyph, _) in LOOKS.items())
    return f"{look.listed(ran)}.{off} Glyphs: {key}."


def _rows(found: CompareReport) -> Grid:
    columns = (
        Column("fast path"), Column("run"), Column("phase"), Column("verdict"), Column("ran as"),
        Column("calls a step", right=True), Column("why", wide=True),
    )  # fmt: skip
    lines = q.keyed(
        Line(
            f"{seen.id} {run.name} {seen.phase}",
            (
                q.word(seen.title),
                q.word(run.name),
                q.word(seen.phase),
                verdict(seen.verdict),
                q.word(seen.variant),
                q.number(per(seen.calls, seen.steps), 1),
                q.word("; ".join(seen.reasons)),
            ),
            look.run_target(run.name),
        )
        for run in found.runs
        for seen in run.paths
    )
    return Grid("Fast paths of each run", columns, lines)
