"""Steps by the host's clock, as guests inside the server took them: the whole recording, of which a trace is a window."""

from __future__ import annotations

from collections import Counter

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.present._numbers import fixed, ms, plural
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import grouped, hover, table, word
from m3probe.present.html.figures._timeline import MOST_BARS, Span, rank_name, time_line
from m3probe.present.sheets._told import in_ms, number
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

MOST_LINES = 200


def host_timeline(rec: Recording | None) -> tuple[Figure, ...]:
    """From the begin of a worker's step until its tokens are sampled; nothing where no guest took these times."""
    if rec is None:
        return ()
    table_of = rec.tables["step_rows"]
    begin, end, phase = table_of["t_start"], table_of["t_sample_end"], table_of["phase"]
    workers = table_of["role"] == rec.strings.find("worker")
    chosen = workers & (begin != NONE) & (end != NONE)
    rows: list[int] = chosen.nonzero()[0].tolist()
    if not rows:
        return ()
    each = max(-(-len(rows) // MOST_BARS), 1)
    by_file = grouped(rows, table_of["file"][rows].tolist())
    spans = [
        span
        for mine in by_file.values()
        for ordered in [sorted(mine, key=lambda row: int(begin[row]))]
        for at in range(0, len(ordered), each)
        for span in [_span(rec, ordered[at : at + each], int(begin[ordered[0]]))]
    ]
    took = int((end[rows] - begin[rows]).sum())
    counted = Counter(phase[rows].tolist()).most_common()
    counts = ", ".join(f"{count:,} {rec.strings[one] or 'unknown'}" for one, count in counted)
    said = f"{plural(len(rows), 'step')} of {plural(len(by_file), 'worker')} by the host's clock: {counts}; {ms(took)} ms in steps"
    lost = int(workers.sum()) - len(rows)
    said += f"; {lost:,} more without these times" if lost else ""
    said += f"; {each} steps share a bar, the gaps between them are not drawn" if each > 1 else ""
    hovers = [_hover(rec, span) for span in spans]
    title = "Steps by the host's clock, and the gaps between them"
    return (time_line("host-timeline", title, f"{said}.", spans, hovers, _grid(rec, rows)),)


def _span(rec: Recording, mine: list[int], first_ns: int) -> Span:
    steps = rec.tables["step_rows"]
    phase = Counter(_phase(rec, row) for row in mine).most_common(1)[0][0]
    end = max(int(steps["t_sample_end"][row]) for row in mine)
    low, high = (int(steps["t_start"][mine[0]]) - first_ns) / 1e6, (end - first_ns) / 1e6
    return Span(rec.files[int(steps["file"][mine[0]])].rank, low, high, phase, tuple(mine), target("steps"))


def _phase(rec: Recording, row: int) -> str:
    return rec.strings[int(rec.tables["step_rows"]["phase"][row])] or "unknown"


def _hover(rec: Recording, span: Span) -> str:
    took = f"{fixed(span.end_ms - span.begin_ms, 3)} ms"
    if len(span.steps) > 1:
        return hover(f"{len(span.steps)} steps, {rank_name(span.rank)}, most {span.phase}: {took}")
    steps, row = rec.tables["step_rows"], span.steps[0]
    counts = {name: int(steps[name][row]) for name in ("rows", "requests")}
    known = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count != NONE)
    return hover(f"step {int(steps['step'][row]):,}, {rank_name(span.rank)}, {span.phase}: {took}", known)


def _grid(rec: Recording, rows: list[int]) -> Grid:
    steps = rec.tables["step_rows"]
    lines = [
        (
            word(_phase(rec, row)),
            number(int(steps["step"][row])),
            number(rec.files[int(steps["file"][row])].rank),
            number(None if steps["rows"][row] == NONE else int(steps["rows"][row])),
            in_ms(int(steps["t_sample_end"][row] - steps["t_start"][row]), 3),
        )
        for row in rows[:MOST_LINES]
    ]
    first = f", the first {MOST_LINES:,} of {len(rows):,}" if len(rows) > MOST_LINES else ""
    return table(f"Steps by the host's clock{first}", ("phase", "step", "rank", "rows", "ms"), lines)
