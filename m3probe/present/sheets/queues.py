"""Question 5: which queue grows, how long a request is in each, what the client saw, and which input would tell the rest."""

from __future__ import annotations

from m3probe.model.bench_report import BenchSection
from m3probe.model.report import QueueRow, QueuesSection
from m3probe.model.view import Gauge, View
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._gauges import figure
from m3probe.present.sheets._queue_client import client
from m3probe.present.sheets._queue_curves import curves
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet

TITLE = "5 queues"
ABSENT = "not measured"
COLUMNS = (
    Column("queue", wide=True),
    Column("server", keep=3),
    Column("mean", right=True),
    Column("most", right=True, keep=1),
    Column("last", right=True, keep=1),
    Column("growth /s", right=True),
    Column("trend"),
    Column("came /s", right=True, keep=2),
    Column("left /s", right=True, keep=2),
    Column("ms in it", right=True),
    Column("samples", right=True, keep=4),
    Column("basis", keep=3),
)
LIVE = (
    Column("figure", wide=True),
    Column("value", right=True),
    Column("unit"),
    Column("over", keep=1),
    Column("age s", right=True, keep=1),
    Column("absent", keep=0),
)
CAPACITY = ("kv_capacity", "prefix_cache", "os_limits")
"""Entries of the section that are no queue: what limits one."""
ROW_OF = {"client": "outside_vllm"}
"""Rows that the section's words name otherwise."""
TRENDS = {"grows": q.WARN, "drains": "", "steady": "", "empty": "", "rose_and_fell": ""}
CHANGE = (
    "The server's /metrics read twice or more under the same load (tui URL, or attach), and the client's bench JSON with "
    "request times beside it"
)


def answer(view: View) -> Said:
    """The question in one sentence: the queue that grows, or that nothing was measured."""
    found = q.section(view, QueuesSection)
    rows = found.queue_rows if found else ()
    growing = [row for row in rows if row.trend == "grows"]
    acts = next((f for f in q.of_question(view, "queues") if f.bound is not None and f.trusted), None)
    if growing:
        said = ", ".join(f"{_name(row)} by {fixed(row.growth_per_s, 2)} requests/s" for row in growing)
        return Said(f"grows: {said}{f'. {acts.claim}' if acts else ''}", q.WARN)
    if rows:
        longest = max(rows, key=lambda row: row.length_mean if row.length_mean is not None else -1.0)
        head = f"no queue was seen to grow; longest is {_name(longest)}, {fixed(longest.length_mean, 1)} requests on average"
        told = any(row.trend for row in rows)
        word = "measured" if told else "unproven: too few samples tell a trend"
        return Said(f"{word}: {head}{f'. {acts.claim}' if acts else ''}", q.GOOD if told else q.UNPROVEN)
    if acts:
        return Said(f"{acts.verdict}: {acts.claim}", q.mark_of(acts.verdict))
    return Said("unproven: nothing in this input was measured of a queue", q.UNPROVEN)


def queues(view: View, lens: Lens) -> Sheet:
    """The page."""
    found = q.section(view, QueuesSection)
    if found is None and not view.gauges:
        return q.unanswered(view, TITLE, "queues")
    blocks: list[Block] = [answer(view), *curves(view), *_live(view)]
    if found is not None:
        blocks += _measured(found)
    blocks += client(q.section(view, BenchSection))
    blocks += _little(view, found)
    if found is not None:
        blocks += _words(found)
    blocks += q.findings_grid(q.of_question(view, "queues"))
    blocks.append(q.origin(view, (row.basis for row in (found.queue_rows if found else ())), _scope(lens)))
    return Sheet(TITLE, tuple(blocks), change=CHANGE)


def _scope(lens: Lens) -> str:
    said = "basis little: throughput x time in it (computed), else sampled"
    return said if lens.rank is None and lens.phase is None else f"{said}; rank and phase filters have no effect here"


def _name(row: QueueRow) -> str:
    return f"{row.queue.replace('_', ' ')}{f' of {row.server}' if row.server else ''}"


def _measured(found: QueuesSection) -> list[Block]:
    """Every queue in one table, those that nothing was measured of too; where none was, words alone say so."""
    if not found.queue_rows:
        return []
    seen = {ROW_OF.get(row.queue, row.queue.partition(".")[0]) for row in found.queue_rows}
    bare = [name for name in found.queues if name not in seen and name not in CAPACITY]
    lines = [*map(_line, found.queue_rows), *(_bare(name, found.queues[name]) for name in bare)]
    return [Grid("Queues, in requests", COLUMNS, q.keyed(lines), "Nothing in this input speaks of a queue.")]


def _bare(name: str, text: str) -> Line:
    """A queue without figures: what is known of it stands in words below the table."""
    lacks = text.startswith(ABSENT)
    state = q.word("NOT MEASURED" if lacks else "told below", q.UNPROVEN if lacks else "")
    cells = [q.word("") if column.name != "trend" else state for column in COLUMNS]
    return Line(name, (q.word(name.replace("_", " ")), *cells[1:]))


def _line(row: QueueRow) -> Line:
    trend = row.trend.replace("_", " ") or ("TOO FEW" if row.basis == "sampled" else "")
    cells = (
        q.word(row.queue.replace("_", " ")),
        q.word(row.server),
        *(q.number(value, 2) for value in (row.length_mean, row.length_most, row.length_last, row.growth_per_s)),
        q.word(trend, TRENDS.get(row.trend, "") if row.trend else q.UNPROVEN * (row.basis == "sampled")),
        *(q.number(value, 2) for value in (row.arrivals_per_s, row.served_per_s)),
        q.scaled(row.wait_ns, 1e6),
        q.number(row.samples),
        q.word(row.basis),
    )
    return Line(f"{row.queue} {row.server} {row.basis}", cells)


def _live(view: View) -> list[Block]:
    """Every live figure with its scope and age; one that is absent says why."""
    if not view.gauges:
        return []
    lines = tuple(Line(gauge.name, _gauge(gauge), "sources") for gauge in view.gauges.values())
    return [Grid("Figures now, both latencies among them", LIVE, lines)]


def _gauge(gauge: Gauge) -> tuple[Cell, ...]:
    absent = "" if gauge.value is not None else str(gauge.absent or "NOT MEASURED")
    shown, unit = figure(gauge)
    return (
        q.word(gauge.title),
        Cell(UNKNOWN if absent else shown, gauge.value),
        q.word(unit),
        q.word(str(gauge.scope)),
        q.number(gauge.age_s, 1),
        Cell(absent, absent, q.UNPROVEN if absent else ""),
    )


def _little(view: View, found: QueuesSection | None) -> list[Said]:
    """Samples held against throughput x time: where both are known and differ, the finding says by how much."""
    told = q.named(view, "queues.little", "bench.little")
    if told:
        return [Said(f"Little's law {f.verdict}: {f.claim}", q.WARN) for f in told]
    sampled = [row for row in (found.queue_rows if found else ()) if row.basis == "sampled"]
    if not sampled:
        return [Said("Little's law unproven: no queue was sampled", q.UNPROVEN, dim=True)]
    asked = "it is held against steady loads with many samples alone"
    return [Said(f"Little's law: no sampled queue contradicts throughput x time in it; {asked}", dim=True)]


def _words(found: QueuesSection) -> list[Block]:
    """Each queue in words: what is known, else NOT MEASURED and what would answer; caches and limits apart."""
    said: list[Block] = []
    for name, text in found.queues.items():
        kind = "limit" if name in CAPACITY else "queue"
        lacks = text.startswith(ABSENT)
        shown = f"NOT MEASURED{text.removeprefix(ABSENT)}" if lacks else text or UNKNOWN
        said.append(Said(f"{kind} {name.replace('_', ' ')}: {shown}", q.UNPROVEN if lacks else "", dim=lacks))
    return said
