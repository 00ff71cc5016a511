"""The device's side of one pair: step times and what they are made of, the host's clock, fast paths that differ."""

from __future__ import annotations

from m3probe.model.compare_report import OTHER, Contract, HostChange, Part, PathChange, PhaseChange
from m3probe.present._compare_parts import short
from m3probe.present._numbers import UNKNOWN, fixed, ms, plural, us
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.comparison import WORDS
from m3probe.present.sheets.paths import verdict
from m3probe.present.sheets.sheet import Bar, Bars, Block, Cell, Column, Grid, Line, Said

BARS = 8
PARTS = (
    Column("part", wide=True),
    Column("kind", keep=2),
    Column("match", keep=3),
    Column("µs before", right=True, keep=1),
    Column("µs after", right=True, keep=1),
    Column("change µs", right=True),
    Column("% of change", right=True),
    Column("calls before", right=True, keep=3),
    Column("calls after", right=True, keep=3),
)
HOSTS = (
    Column("phase"),
    Column("part", wide=True),
    Column("ms before", right=True),
    Column("ms after", right=True),
    Column("ratio", right=True),
)
PATHS = (Column("path", wide=True), Column("phase"), Column("before"), Column("after"), Column("ran as", keep=1))


def changes(found: list[PhaseChange], contract: Contract) -> list[Block]:
    """Groups of steps, the first with a chart; of unlike contracts none is marked better or worse."""
    blocks: list[Block] = []
    for change in found:
        blocks += _change(change, unlike=contract.verdict == OTHER, chart=change is found[0])
    return blocks or [
        Said("parts of a step unproven: no steps of one phase and about the same rows in both", q.UNPROVEN, dim=True)
    ]


def _change(change: PhaseChange, *, unlike: bool, chart: bool) -> list[Block]:
    """One group of steps: its times, the largest changes as bars, and every part of the change."""
    rows = "" if change.rows is None else f" of up to {plural(change.rows, 'row')}"
    of = f"{change.phase} step{rows}"
    noise = "" if change.error_ns is None else f" ± {ms(2 * change.error_ns)}"
    times = f"{ms(change.before_ns)} → {ms(change.after_ns)} ms, change {ms(change.delta_ns)}{noise} ms, x {fixed(change.ratio, 3)}"
    if change.ratio is None:
        times = "step time is not known of both (kernels may be missing, or have no time)"
    sure = q.WARN if unlike or change.doubt else WORDS.get(change.verdict, q.UNPROVEN)
    steps = f"{change.steps_before:,} and {change.steps_after:,} steps"
    blocks: list[Block] = [Said(f"{of} {change.verdict}: {times} ({steps})", sure)]
    blocks += [Said(f"unsure: {change.doubt}", q.WARN)] if change.doubt else []
    parts = sorted((*change.families, *change.parts), key=lambda part: -abs(part.delta_ns or 0.0))
    known = [part for part in parts if part.delta_ns][:BARS]
    if chart and known:
        bars = tuple(Bar(part.name or part.what, abs(part.delta_ns or 0.0) / 1e3, _signed(part)) for part in known)
        blocks.append(Bars(f"Parts of the change of a {of}, more or less", bars, bars[0].value, "µs"))
    kernels = sorted(change.kernels, key=lambda part: -abs(part.delta_ns or 0.0))
    title = f"Parts of a {of}, then its kernels; largest change first"
    blocks.append(
        Grid(title, PARTS, q.keyed(map(_part, (*parts, *kernels))), "Nothing of these steps was timed in both.")
    )
    return blocks


def _signed(part: Part) -> str:
    more = "+" if (part.delta_ns or 0.0) > 0 else ""
    return f"{more}{us(part.delta_ns)} µs"


def _part(part: Part) -> Line:
    before, after = short(part.name), short(part.name_after)
    name = before if before == after or not after else after if not before else f"{before} → {after}"
    kind = part.family if part.what == "kernel" else part.what
    cells = (
        Cell(name or part.what, name or part.what),
        q.word(kind),
        q.word(part.match),
        *(q.scaled(value, 1e3) for value in (part.before_ns, part.after_ns, part.delta_ns)),
        q.share(part.share),
        q.number(part.count_before, 1),
        q.number(part.count_after, 1),
    )
    return Line(f"{part.what} {part.name} {part.name_after}", cells)


def hosts(rows: list[HostChange]) -> list[Block]:
    """Steps by a worker's clock; idle time stands apart, for it may be a wait for requests."""
    lines = []
    for row in rows:
        work = (row.before_ns, row.after_ns)
        lines.append(_host(row, "work: prepare, launch, wait", *work, row.ratio))
        lines += [_host(row, part.name, part.before_ns, part.after_ns, None) for part in row.parts]
    title = "Steps by a worker's clock: means without a profiler and without a known noise"
    return [Grid(title, HOSTS, q.keyed(lines))] if lines else []


def _host(row: HostChange, part: str, before: float | None, after: float | None, ratio: float | None) -> Line:
    cells = (q.word(row.phase), q.word(part), q.scaled(before, 1e6, 2), q.scaled(after, 1e6, 2), q.number(ratio, 3))
    return Line(f"{row.phase} {part}", cells)


def paths(rows: list[PathChange]) -> list[Block]:
    """Paths of which verdict or variant differs; nothing where none does."""
    if not rows:
        return []
    lines = q.keyed(
        Line(
            f"{row.id} {row.phase}",
            (
                q.word(row.title),
                q.word(row.phase),
                verdict(row.before),
                verdict(row.after),
                q.word(f"{row.variant_before or UNKNOWN} → {row.variant_after or UNKNOWN}"),
            ),
        )
        for row in rows
    )
    return [Grid("Fast paths that differ", PATHS, lines)]
