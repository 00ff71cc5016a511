"""Question 2: what runs per layer, step and token, and what it adds up to."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.repeat_report import Costs, CoverageRow, LayersRow, RepeatRow, RepeatsSection
from m3probe.present._numbers import UNKNOWN, decimals_for, fixed, listed, ms, percent, plural, us
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table

ROWS_SHOWN = 8


def repeats(page: Page, section: RepeatsSection | None, *, timed: bool = True) -> None:
    """Families by what a step spends on them, graph coverage, and the cost of output.

    Args:
        timed: kernel times were recorded; without them every cost would be a dash.
    """
    page.heading("2 repeats", "what runs per layer, step and token")
    if section is None:
        page.say("Not answered: the repeats analyzer did not run.", indent=2)
        return
    if not section.repeats:
        page.say("Nothing repeats that could be counted: no step's kernels are proven.", indent=2)
    _layers(page, section.layers)
    for phase in dict.fromkeys(row.phase for row in section.repeats):
        _phase(page, phase, [row for row in section.repeats if row.phase == phase])
    page.blank()
    _coverage(page, section.graph_coverage)
    page.blank()
    if timed:
        _costs(page, section.costs)


def _layers(page: Page, row: LayersRow | None) -> None:
    """How many layers ran, which a cut model shows at once."""
    if row is None or (row.dense_attention is None and row.sparse_attention is None):
        return
    kinds = ((row.dense_attention, "dense attention"), (row.sparse_attention, "sparse attention"))
    said = [f"{n} with {what}" for n, what in kinds if n]
    moe = f"; {row.moe} of them with experts" if row.moe else ""
    total = (row.dense_attention or 0) + (row.sparse_attention or 0)
    page.say(f"{plural(total, 'layer')} seen: {listed(said)}{moe}", indent=2)


def _phase(page: Page, phase: str, rows: list[RepeatRow]) -> None:
    shown = sorted(rows, key=lambda row: (-(row.ns_per_step or 0.0), -row.per_step))[:ROWS_SHOWN]
    step, layer = decimals_for(r.per_step for r in shown), decimals_for(r.per_layer for r in shown)
    columns = (
        Column(phase, title=True),
        number("per step"),
        number("per layer"),
        number("µs/step"),
        number("µs/output token", drop=1),
        Column("evidence", drop=2),
    )
    body = [
        (
            row.family,
            fixed(row.per_step, step),
            fixed(row.per_layer, layer),
            us(row.ns_per_step),
            us(row.ns_per_output_token),
            row.evidence,
        )
        for row in shown
    ]
    page.blank()
    table(page, columns, without_dashes(body))
    if len(rows) > len(shown):
        page.say((f"{plural(len(rows) - len(shown), 'more family', 'more families')} in --json", "dim"), indent=2)


def without_dashes(body: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The same rows; a column in which nothing is known has no text, and ``table`` leaves it out."""
    known = [any(row[i] != UNKNOWN for row in body) for i in range(len(body[0]) if body else 0)]
    return [tuple(text if on else "" for text, on in zip(row, known, strict=True)) for row in body]


def _coverage(page: Page, rows: tuple[CoverageRow, ...]) -> None:
    if not rows:
        page.say("Graph coverage is unknown: there are no steps.", indent=2)
        return
    columns = (Column("graph mode"), number("steps"), number("steps %"), number("rows %"), number("output tokens %"))
    body = [
        (row.graph_mode, fixed(row.steps), percent(row.step_share), percent(row.row_share), percent(row.token_share))
        for row in rows
    ]
    table(page, columns, without_dashes(body))


def _costs(page: Page, costs: Costs) -> None:
    rows = (
        ("kernel time per output token, batch shared", costs.ns_per_output_token),
        ("kernel time per 1,000-token response, batch shared", costs.ns_per_1000_token_response),
        ("kernel time per active request and step", costs.ns_per_active_request),
        ("step time per output token of one request", costs.step_ns_per_token),
        ("step time per 1,000-token response of one request", costs.step_ns_per_1000_token_response),
    )
    known = [(what, ms(ns, 3)) for what, ns in rows if ns is not None]
    if not known:
        page.say("Cost per token unproven: decode steps have no proven kernel times.", indent=2)
        return
    table(page, (Column("decode costs", title=True), number("ms")), known)
    if len(known) < len(rows):
        page.say(("not known: " + "; ".join(what for what, ns in rows if ns is None), "dim"), indent=2, hang=2)
    bound = "unknown" if costs.launch_bound is None else "yes" if costs.launch_bound else "no"
    page.say((f"launch-bound: {bound}; {mixed_text(costs)}", ""), indent=2, hang=2)


def mixed_text(costs: Costs) -> str:
    """What decode tokens cost that were made beside prefill."""
    tokens = costs.decode_tokens_in_mixed_steps
    if tokens is None:
        return f"decode tokens made in mixed steps: {UNKNOWN}"
    if not tokens:
        return "no decode token was made in a mixed step"
    return f"{plural(tokens, 'decode token')} made in mixed steps, {_each(costs)}"


def _each(costs: Costs) -> str:
    if costs.mixed_ns_per_decode_token is None:
        return "at an unknown cost"
    return f"{ms(costs.mixed_ns_per_decode_token, 3)} ms of kernel time each"
