"""When steps ran and when nothing did, and how long each took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from m3probe.model.report import StepRow, SummarySection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, ms, percent, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._guests import host_timeline
from m3probe.present.html.figures._plot import (
    WIDE,
    axis,
    grouped,
    hover,
    label,
    layout,
    near,
    table,
    word,
)
from m3probe.present.html.figures._timeline import MOST_BARS, Span, rank_name, time_line
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import in_ms, number
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

MOST_LINES = 200


def figures(view: View) -> tuple[Figure, ...]:
    """The time line, the step times, and the host's time line; each alone where the others have no times."""
    found = q.section(view, SummarySection)
    rows = found.steps if found else ()
    return (*_timeline(rows), *_times(rows), *host_timeline(view.recording))


def _timeline(rows: Sequence[StepRow]) -> tuple[Figure, ...]:
    spans, each = _spans(rows)
    if not spans:
        return ()
    says, grid = _says(rows, {span.rank for span in spans}, each), _grid(rows)
    hovers = [_hover(rows, span) for span in spans]
    return (time_line("steps", "Steps on the device, and the gaps between them", says, spans, hovers, grid),)


def _spans(rows: Sequence[StepRow]) -> tuple[list[Span], int]:
    """Bars of each rank in order of time, and how many steps share one at most."""
    by_rank: dict[int | None, list[int]] = {}
    for at, row in enumerate(rows):
        if row.gpu_start_ns is not None and row.gpu_end_ns is not None:
            by_rank.setdefault(row.rank, []).append(at)
    every = sum(map(len, by_rank.values()))
    each = max(-(-every // MOST_BARS), 1)
    spans = []
    for rank, mine in by_rank.items():
        mine.sort(key=lambda at: rows[at].gpu_start_ns or 0)
        first = rows[mine[0]].gpu_start_ns or 0
        spans += [_span(rank, mine[at : at + each], rows, first) for at in range(0, len(mine), each)]
    return spans, each


def _span(rank: int | None, mine: list[int], rows: Sequence[StepRow], first_ns: int) -> Span:
    begin = (rows[mine[0]].gpu_start_ns or 0) - first_ns
    end = max(rows[at].gpu_end_ns or 0 for at in mine) - first_ns
    phase = Counter(rows[at].phase for at in mine).most_common(1)[0][0]
    opens = target("step", mine[0]) if len(mine) == 1 else target("steps")
    return Span(rank, begin / 1e6, end / 1e6, phase, tuple(mine), opens)


def _says(rows: Sequence[StepRow], ranks: Collection[int | None], each: int) -> str:
    timed = [row for row in rows if row.step_time_ns is not None and row.idle_ns is not None]
    phases = Counter(row.phase for row in rows)
    said = f"{plural(len(rows), 'step')} on {plural(len(ranks), 'rank')}: " + ", ".join(
        f"{count:,} {phase}" for phase, count in phases.most_common()
    )
    if timed:
        took, idle = sum(row.step_time_ns or 0 for row in timed), sum(row.idle_ns or 0 for row in timed)
        said += f"; in {ms(took)} ms of step time nothing ran for {ms(idle)} ms ({percent(idle / took if took else None)} %)"
    return f"{said}{f'; {each} steps share a bar, the gaps between them are not drawn' if each > 1 else ''}."


def _hover(rows: Sequence[StepRow], span: Span) -> str:
    if len(span.steps) > 1:
        took = f"{span.end_ms - span.begin_ms:,.2f} ms"
        return hover(f"{len(span.steps)} steps from row {span.steps[0]:,}, most {span.phase}: {took}")
    return _told(rows[span.steps[0]], span.steps[0])


def _told(row: StepRow, at: int) -> str:
    return hover(
        f"step {at:,}, {rank_name(row.rank)}, {row.phase}, graph mode {row.graph_mode}",
        f"{UNKNOWN if row.rows is None else format(row.rows, ',')} rows, "
        f"{UNKNOWN if row.requests is None else format(row.requests, ',')} requests",
        f"step {ms(row.step_time_ns, 3)} ms, idle {ms(row.idle_ns, 3)} ms, kernels {ms(row.kernel_time_ns, 3)} ms",
    )


def _times(rows: Sequence[StepRow]) -> tuple[Figure, ...]:
    """Step time by rows; of many steps the longest of each stretch, so that no outlier is lost."""
    timed = [at for at, row in enumerate(rows) if row.step_time_ns]
    if not timed:
        return ()
    drawn = _longest(timed, rows)
    took = [(rows[at].step_time_ns or 0) / 1e6 for at in drawn]
    wide = max(took) > WIDE * min(took)
    by_phase = grouped(drawn, (rows[at].phase for at in drawn))
    return (
        Figure(
            key="step-times",
            title="How long steps took",
            says=_spread(timed, rows, len(drawn)),
            data=tuple(_points(phase, some, rows) for phase, some in by_phase.items()),
            layout=layout(
                340,
                axis("step, in order of the recording"),
                axis("ms", type="log" if wide else "linear", **({} if wide else {"rangemode": "tozero"})),
                showlegend=True,
            ),
            rows=_means(timed, rows),
        ),
    )


def _longest(timed: list[int], rows: Sequence[StepRow]) -> list[int]:
    each = -(-len(timed) // MOST_BARS)
    stretches = (timed[at : at + each] for at in range(0, len(timed), each))
    return [max(some, key=lambda at: rows[at].step_time_ns or 0) for some in stretches]


def _points(phase: str, drawn: list[int], rows: Sequence[StepRow]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(phase),
        "x": drawn,
        "y": [near((rows[at].step_time_ns or 0) / 1e6) for at in drawn],
        "marker": {"color": palette.phase(phase), "symbol": palette.SYMBOL.get(phase, "x"), "size": 8, "opacity": 0.85},
        "hoverinfo": "text",
        "hovertext": [_told(rows[at], at) for at in drawn],
        "customdata": [target("step", at) for at in drawn],
    }


def _by_phase(timed: list[int], rows: Sequence[StepRow]) -> dict[str, list[int]]:
    """Sorted step times in ns of each phase, the longest phase first."""
    found = grouped([rows[at].step_time_ns or 0 for at in timed], (rows[at].phase for at in timed))
    return {phase: sorted(times) for phase, times in sorted(found.items(), key=lambda item: -sum(item[1]))}


def _spread(timed: list[int], rows: Sequence[StepRow], drawn: int) -> str:
    each = [
        f"{phase} {ms(times[len(times) // 2])} ms in the middle, {ms(times[0])} to {ms(times[-1])} ms ({len(times):,})"
        for phase, times in _by_phase(timed, rows).items()
    ]
    thinned = f"; the longest of each {-(-len(timed) // MOST_BARS)} steps is drawn" if drawn < len(timed) else ""
    return f"Step time: {'; '.join(each)}{thinned}."


def _means(timed: list[int], rows: Sequence[StepRow]) -> Grid:
    lines = [
        (
            word(phase),
            number(len(times)),
            in_ms(times[0], 3),
            in_ms(times[len(times) // 2], 3),
            in_ms(sum(times) / len(times), 3),
            in_ms(times[-1], 3),
        )
        for phase, times in _by_phase(timed, rows).items()
    ]
    return table("Step times", ("phase", "steps", "least ms", "middle ms", "mean ms", "most ms"), lines)


def _grid(rows: Sequence[StepRow]) -> Grid:
    lines = [
        (
            word(row.phase),
            number(at),
            number(row.rank),
            number(row.rows),
            in_ms(row.step_time_ns, 3),
            in_ms(row.idle_ns, 3),
            in_ms(row.kernel_time_ns, 3),
        )
        for at, row in enumerate(rows[:MOST_LINES])
    ]
    first = f", the first {MOST_LINES:,} of {len(rows):,}" if len(rows) > MOST_LINES else ""
    opens = [target("step", at) for at in range(len(lines))]
    return table(f"Steps{first}", ("phase", "step", "rank", "rows", "step ms", "idle ms", "kernel ms"), lines, opens)
