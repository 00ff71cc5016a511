"""What the change of each run may be put down to, in which phase."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.model.compare_report import CompareReport, Credit
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, percent
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import hover
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.comparison import CREDITS
from m3probe.present.sheets.sheet import Column, Grid, Line

FILLS = {q.GOOD: look.GOOD, q.WARN: look.WARN, q.NO: look.SAME, q.UNPROVEN: look.UNKNOWN}
EVERY = "all that was measured"


def figures(view: View) -> tuple[Figure, ...]:
    """A matrix of credit: runs as rows, phases as columns; nothing where none was judged."""
    found = view.compare
    pairs = [pair for pair in look.pairs_of(found) if pair.credits] if found else []
    if not found or not pairs:
        return ()
    phases = list(dict.fromkeys(one.phase or EVERY for pair in pairs for one in pair.credits))
    names = look.distinct([pair.after for pair in pairs])
    grid = [
        [_credit(pair.after, [c for c in pair.credits if (c.phase or EVERY) == phase]) for phase in phases]
        for pair in pairs
    ]
    told = [
        f"{pair.after}{f' {one.phase}' if one.phase else ''}: {one.verdict}{_share(one)}"
        for pair in pairs
        for one in pair.credits
    ]
    return (
        Figure(
            key="credit",
            title="What may the change be put down to?",
            says=f"{look.listed(told[:10])}{look.left_out(found)}",
            data=tuple(look.matrix(phases, names, grid)),
            layout=look.matrix_layout(names, len(phases)),
            rows=_credits(found),
        ),
    )


def _credit(run: str, found: list[Credit]) -> look.Mark | None:
    if not found:
        return None
    first = found[0]
    told = (line for one in found for line in _lines(one))
    words = " + ".join(dict.fromkeys(one.verdict for one in found))
    return look.Mark(words, FILLS.get(CREDITS.get(first.verdict, ""), look.UNKNOWN), hover(*told), look.run_target(run))


def _lines(one: Credit) -> Iterator[str]:
    yield f"{one.verdict}: {', '.join(one.what)}{_share(one)}"
    yield one.text
    if one.tell:
        yield f"would tell: {one.tell}"


def _share(one: Credit) -> str:
    return "" if one.share is None else f" ({percent(one.share)} % of the traced change is its)"


def _credits(found: CompareReport) -> Grid:
    columns = (
        Column("run"), Column("phase"), Column("credit"), Column("what"), Column("% of the change", right=True),
        Column("why", wide=True), Column("would tell", wide=True),
    )  # fmt: skip
    lines = q.keyed(
        Line(
            f"{pair.after} {one.phase} {one.verdict}",
            (
                q.word(pair.after),
                q.word(one.phase or EVERY),
                q.word(one.verdict, CREDITS.get(one.verdict, "")),
                q.word(", ".join(one.what) or UNKNOWN),
                q.share(one.share),
                q.word(one.text),
                q.word(one.tell),
            ),
            look.run_target(pair.after),
        )
        for pair in found.pairs
        for one in pair.credits
    )
    return Grid("Credit", columns, lines)
