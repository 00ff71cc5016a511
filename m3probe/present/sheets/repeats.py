"""Question 2: what runs again per layer, step and token, what it costs, and what graphs cover of it."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.model.repeat_report import Costs, LayersRow, RepeatRow, RepeatsSection
from m3probe.model.report import PhaseRow, SummarySection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, listed, ms, percent, plural, us
from m3probe.present._repeats import mixed_text
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Bar, Bars, Block, Column, Grid, Lens, Line, Said, Sheet
from m3probe.schema.verdicts import Phase

TITLE = "2 repeats"
BARS = 6
COLUMNS = (
    Column("family", wide=True),
    Column("phase"),
    Column("per step", right=True),
    Column("per layer", right=True, keep=1),
    Column("µs/step", right=True),
    Column("µs/output token", right=True, keep=2),
    Column("evidence", keep=3),
)
WHOLE = (Column("family", wide=True), *(Column(name, right=True) for name in ("kernels", "ms", "share %")))
COVERAGE = (
    Column("graph mode"),
    *(Column(name, right=True) for name in ("steps", "steps %", "rows %", "output tokens %")),
)
PARTS = ("schedule", "prepare", "launch", "wait", "output", "idle")
HOST = (
    Column("phase"),
    Column("graph"),
    Column("steps", right=True, keep=1),
    Column("rows", right=True, keep=2),
    *(Column(f"{part} µs", right=True, keep=3 if part in {"schedule", "output"} else 0) for part in PARTS),
)
CHANGE = (
    "A recording of other batch sizes (a fixed cost per step shrinks per token), one without the profiler (which slows "
    "the host), or graphs where steps ran without"
)
GAPS = ("next_bottleneck.idle", "live.between_steps")


def answer(view: View) -> Said:
    """The question in one sentence: kernels of a step and what recurs in them."""
    found = q.section(view, RepeatsSection)
    if found is None or not found.repeats:
        return Said("unproven: nothing repeats that could be counted: no step's kernels are proven", q.UNPROVEN)
    told = q.of_question(view, "repeats")
    first = next((f for f in told if f.id.startswith("repeats.launches")), None) or next(iter(told), None)
    if first is not None:
        return Said(f"{first.verdict.replace('_', ' ')}: {first.claim}", q.mark_of(first.verdict) or q.GOOD)
    families = len({row.family for row in found.repeats})
    return Said(f"measured: {plural(families, 'family', 'families')} of kernels recur in every step", q.GOOD)


def repeats(view: View, lens: Lens) -> Sheet:
    """The page; each line opens the time line of steps."""
    found = q.section(view, RepeatsSection)
    if found is None:
        return q.unanswered(view, TITLE, "repeats")
    rows = [row for row in found.repeats if lens.phase in {None, row.phase}]
    blocks: list[Block] = [answer(view), *q.hidden(view), *_chart(view, rows)]
    blocks += [Said(f.claim, dim=True) for f in q.named(view, *GAPS)]
    blocks += _whole(view) or [_grid(rows, lens)]
    blocks += _layers(found.layers)
    blocks += _coverage(found)
    blocks += _host(view, lens)
    blocks += _costs(found.costs)
    blocks += q.findings_grid(q.of_question(view, "repeats"))
    blocks.append(
        q.origin(view, (row.evidence for row in rows), "means over steps; kernel time, beside which other work may run")
    )
    return Sheet(TITLE, tuple(blocks), change=CHANGE)


def charted(rows: Sequence[RepeatRow]) -> str:
    """The phase that is drawn: decode where it has times, else the first that has; "" where none has."""
    timed = dict.fromkeys(row.phase for row in rows if row.ns_per_step is not None)
    return Phase.DECODE if Phase.DECODE in timed else next(iter(timed), "")


def _chart(view: View, rows: Sequence[RepeatRow]) -> list[Bars]:
    """µs per step by family, and what the device was idle; on a scale that ends at the step's time where it is known."""
    phase = charted(rows)
    timed = sorted((r for r in rows if r.phase == phase and r.ns_per_step), key=lambda r: -(r.ns_per_step or 0.0))
    if not timed:
        return []
    bars = [Bar(row.family, (row.ns_per_step or 0.0) / 1e3, f"{us(row.ns_per_step)} µs") for row in timed[:BARS]]
    of, idle = _step(view, phase)
    bars += [idle] if idle else []
    length = "" if of is None else f" of {fixed(of, 1)} µs"
    high = max([of or 0.0, *(bar.value for bar in bars)])
    return [Bars(f"{phase.capitalize()} step{length}: largest kernel times", tuple(bars), high, "µs")]


def _step(view: View, phase: str) -> tuple[float | None, Bar | None]:
    """Mean time of a phase's step in µs, and the bar of its idle part; None where the summary does not know."""
    found = q.section(view, SummarySection)
    row: PhaseRow | None = next((r for r in found.summary.phases if r.phase == phase), None) if found else None
    if row is None or not row.step_time_ns or not row.steps:
        return None, None
    of = row.step_time_ns / row.steps / 1e3
    if row.gpu_idle_share is None:
        return of, None
    idle = row.gpu_idle_share * of
    return of, Bar("device idle", idle, f"{fixed(idle, 1)} µs, {percent(row.gpu_idle_share)} %", q.WARN)


def _grid(rows: Sequence[RepeatRow], lens: Lens) -> Grid:
    first = sorted(
        rows, key=lambda r: (r.phase != Phase.DECODE, r.phase, r.ns_per_step is None, -(r.ns_per_step or 0.0))
    )
    lines = [
        Line(
            f"{row.phase} {row.family} {row.evidence}",
            (
                q.word(row.family),
                q.word(row.phase),
                q.number(row.per_step, 1),
                q.number(row.per_layer, 2),
                q.scaled(row.ns_per_step, 1e3),
                q.scaled(row.ns_per_output_token, 1e3),
                q.word(row.evidence),
            ),
            "steps",
        )
        for row in first
    ]
    return Grid(
        "Kernels by family, mean of a step", COLUMNS, q.keyed(lines), q.nothing("family of kernels", lens.phase)
    )


def _whole(view: View) -> list[Block]:
    """Of a recording without steps: families over all of it, since nothing is a mean of a step."""
    found = q.section(view, SummarySection)
    if found is None or found.summary.phases or not found.summary.families:
        return []
    families = sorted(found.summary.families, key=lambda row: -(row.time_ns or 0))
    bars = tuple(Bar(row.family, row.time_ns / 1e6, f"{ms(row.time_ns)} ms") for row in families[:BARS] if row.time_ns)
    lines = (
        Line(row.family, (q.word(row.family), q.number(row.count), q.scaled(row.time_ns, 1e6, 3), q.share(row.share)))
        for row in families
    )
    grid = Grid("Kernels by family, over the whole recording (no step was recorded)", WHOLE, q.keyed(lines))
    most = max((bar.value for bar in bars), default=0.0)
    return [*([Bars("Largest kernel times, whole recording", bars, most, "ms")] if bars else []), grid]


def _layers(row: LayersRow | None) -> list[Said]:
    if row is None or (row.dense_attention is None and row.sparse_attention is None):
        return []
    kinds = ((row.dense_attention, "dense attention"), (row.sparse_attention, "sparse attention"), (row.moe, "experts"))
    said = [f"{n} with {what}" for n, what in kinds if n]
    return [Said(f"layers seen: {listed(said) or UNKNOWN}", dim=True)]


def _coverage(found: RepeatsSection) -> list[Block]:
    lines = [
        Line(
            row.graph_mode,
            (
                q.word(row.graph_mode),
                q.number(row.steps),
                *(q.share(value) for value in (row.step_share, row.row_share, row.token_share)),
            ),
            "steps",
        )
        for row in found.graph_coverage
    ]
    return [Grid("Graph coverage", COVERAGE, tuple(lines), "Graph coverage is unknown: there are no steps.")]


def _host(view: View, lens: Lens) -> list[Block]:
    """Gaps by cause as hooks in the server timed them; nothing for a trace."""
    found = q.section(view, LiveSection)
    rows = [row for row in (found.step_times if found else ()) if lens.phase in {None, row.phase}]
    if not rows:
        return []
    title = "A step by the host's clock: means of one rank, without a profiler"
    return [Grid(title, HOST, q.keyed(_lived(row) for row in rows))]


def _lived(row: StepTimeRow) -> Line:
    parts = (q.scaled(getattr(row, f"{part}_ns"), 1e3, 0) for part in PARTS)
    cells = (q.word(row.phase), q.word(row.graph_mode), q.number(row.steps), q.number(row.rows, 1), *parts)
    return Line(f"{row.phase} {row.graph_mode}", cells, "steps")


def _costs(costs: Costs) -> list[Block]:
    """What output costs in decode; a table of dashes is left out."""
    rows = (
        ("kernel time per output token, batch shared", costs.ns_per_output_token),
        ("kernel time per 1,000-token response, batch shared", costs.ns_per_1000_token_response),
        ("kernel time per active request and step", costs.ns_per_active_request),
        ("step time per output token of one request", costs.step_ns_per_token),
        ("step time per 1,000-token response of one request", costs.step_ns_per_1000_token_response),
    )
    if all(ns is None for _, ns in rows):
        return [Said("cost per token unproven: decode steps have no proven kernel times", q.UNPROVEN, dim=True)]
    lines = tuple(Line(what, (q.word(what), q.scaled(ns, 1e6, 3)), "steps") for what, ns in rows)
    bound = "not known" if costs.launch_bound is None else "yes" if costs.launch_bound else "no"
    grid = Grid("Cost of output in decode (computed)", (Column("what", wide=True), Column("ms", right=True)), lines)
    mark = {None: q.UNPROVEN, True: q.WARN, False: ""}[costs.launch_bound]
    return [grid, Said(f"launch-bound: {bound}; {mixed_text(costs)}", mark)]
