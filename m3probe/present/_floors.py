"""The least time of a recipe's decode steps."""

from __future__ import annotations

from m3probe.model.recipe_report import FloorsLine
from m3probe.present._numbers import fixed, listed, ms
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table


def floors(page: Page, found: FloorsLine | None) -> None:
    """One row per decode step of the workload, and where the index reads more than the attend."""
    if found is None or not found.lines:
        return
    page.heading("decode floor", f"the least time of a step at {found.context:,} tokens a request; no launch, no wait")
    columns = (
        Column("step", title=True, least=12),
        number("rows"),
        number("GB"),
        number("of it weights", drop=2),
        number("index MB", drop=3),
        number("attend MB", drop=3),
        number("ms"),
        number("side by side", drop=1),
        Column("longest part", drop=4),
    )
    body = [
        (
            line.label,
            fixed(line.rows),
            fixed(line.bytes / 1e9, 2),
            fixed(line.weight_bytes / 1e9, 2),
            fixed(line.choose_bytes / 1e6, 1),
            fixed(line.attend_bytes / 1e6, 1),
            ms(line.floor_ns, 3),
            ms(line.overlapped_ns, 3),
            f"{line.largest} {ms(line.largest_ns, 3)}",
        )
        for line in found.lines
    ]
    table(page, columns, body)
    if found.crossover_tokens is not None:
        said = f"index {found.index}, KV {found.kv}: the index reads at least what the sparse attend reads"
        edge = f"from {found.crossover_tokens:,.0f} tokens on" if found.crossover_tokens else "at any context"
        page.say(f"{said} {edge}", indent=2, hang=2)
    if found.unknown:
        page.say((f"? {listed(list(found.unknown), 8)}", "dim"), indent=2, hang=2)
