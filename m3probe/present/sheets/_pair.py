"""The page of one run held against the first: contract, credit, the clients' metrics, and the parts of a step."""

from __future__ import annotations

from m3probe.model.compare_bench import BenchComparison, MetricPair, MetricVerdict
from m3probe.model.compare_report import DIFFERS, EQUAL, UNKNOWN, Contract, Pair, RunRow
from m3probe.present._compare_points import RATES, label, same_lengths
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._pair_parts import changes, hosts, paths
from m3probe.present.sheets.comparison import CHANGE, CONTRACTS, MOVED, WORDS, credited, doubts, mark
from m3probe.present.sheets.sheet import Block, Column, Grid, Lens, Line, Said, Sheet

STATES = {EQUAL: q.GOOD, DIFFERS: q.BAD, UNKNOWN: q.UNPROVEN}
TOPICS = (
    Column("topic"),
    Column("state"),
    Column("before", wide=True),
    Column("after", wide=True),
    Column("would tell", keep=2),
)
SETTINGS = (Column("setting", wide=True), Column("before"), Column("after"), Column("follows from", keep=1))
METRICS = (
    Column("metric", wide=True),
    Column("at"),
    Column("before", right=True, keep=1),
    Column("± before", right=True, keep=3),
    Column("after", right=True, keep=1),
    Column("± after", right=True, keep=3),
    Column("unit", keep=2),
    Column("ratio", right=True),
    Column("noise ±", right=True),
    Column("verdict"),
)


def pair_page(pair: Pair, run: RunRow, lens: Lens) -> Sheet:
    """The page; the phase filter leaves one phase's steps."""
    blocks: list[Block] = [Said(pair.answer, mark(pair)), *doubts(run)]
    blocks += [Said(f"traced steps say: {text}", dim=True) for text in pair.beside]
    contract = pair.contract
    blocks.append(Said(f"contract: {contract.claim}", CONTRACTS.get(contract.verdict, q.UNPROVEN)))
    for found in pair.credits:
        blocks += credited(found)
    blocks.append(Said(pair.moved.text, MOVED.get(pair.moved.verdict, "")))
    phases = [change for change in pair.phases if lens.phase in {None, change.phase}]
    blocks += changes(phases, contract)
    blocks += _metrics(pair.metrics)
    blocks += _contract(contract)
    blocks += hosts([row for row in pair.hosts if lens.phase in {None, row.phase}])
    blocks += paths([row for row in pair.paths if lens.phase in {None, row.phase}])
    blocks += [Said(text, dim=True) for text in pair.mix]
    blocks += [
        Said(op.claim, dim=True) for op in (pair.crossing.ops if pair.crossing else ()) if op.crossovers or op.gates
    ]
    title = f"{pair.before} → {pair.after}"
    return Sheet(title, tuple(blocks), change=CHANGE, whole=True)


def _contract(found: Contract) -> list[Block]:
    lines = q.keyed(
        Line(
            topic.topic,
            (
                q.word(topic.topic),
                q.word(topic.state, STATES.get(topic.state, q.UNPROVEN)),
                *(q.word(text or "") for text in (topic.before, topic.after, topic.tell)),
            ),
        )
        for topic in found.topics
    )
    blocks: list[Block] = [
        Grid(f"Contract: {found.verdict}, {found.kind}", TOPICS, lines, "No topic was held against another.")
    ]
    if found.settings is None:
        return [*blocks, Said("settings unproven: not known of both runs", q.UNPROVEN)]
    rows = q.keyed(
        Line(one.name, tuple(q.word(text) for text in (one.name, one.before, one.after, one.follows)))
        for one in found.settings
    )
    return [*blocks, Grid("Settings that differ", SETTINGS, rows, "None that is known differs.")]


def _metrics(found: BenchComparison | None) -> list[Block]:
    if found is None:
        return [Said("clients' figures unproven: a run has none (--bench FILE)", q.UNPROVEN, dim=True)]
    alike = same_lengths(found.pairs)
    lines = q.keyed(_metric(row, alike=alike) for row in found.pairs)
    said = [found.place.claim] if found.place else []
    said += [one.claim for one in found.crossings] + [law.claim for law in found.scaling]
    said += [found.evaluation.claim] if found.evaluation else []
    blocks: list[Block] = [
        Grid("What the client saw, after over before", METRICS, lines, "No point was measured by both.")
    ]
    blocks += [Said(text, dim=True) for text in said]
    blocks += [Said(f"left out of {out.side.upper()}: {out.name}: {out.why}", q.WARN) for out in found.left_out]
    return blocks + [Said(note, dim=True) for note in found.notes]


def _metric(row: MetricPair, *, alike: bool) -> Line:
    name = RATES.get(row.metric, row.metric) if not row.of else f"{row.of} {row.metric.upper()}"
    decimals = 4 if row.unit == "share" else 1
    at = label(row, alike=alike)
    unsure = f" ({row.direction})" if row.verdict is MetricVerdict.UNPROVEN else ""
    cells = (
        q.word(name),
        q.word(at),
        q.number(row.a.value, decimals),
        q.number(row.a.error, decimals),
        q.number(row.b.value, decimals),
        q.number(row.b.error, decimals),
        q.word(row.unit),
        q.number(row.ratio, 3),
        q.number(row.band, 3),
        q.word(f"{row.verdict}{unsure}", WORDS[str(row.verdict)], str(row.verdict)),
    )
    return Line(f"{name} {at}", cells)
