"""Local weights of one rank, the tile each step would take, and whether a tuned table holds the shape."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.recipe_report import ShapeLine, WorkPoint
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table


def local_shapes(page: Page, shapes: Sequence[ShapeLine], points: Sequence[WorkPoint]) -> None:
    """A row per weight; the tiles of the first and the last step of the workload."""
    if not shapes:
        return
    page.heading("local shapes", "what reaches one rank")
    shown = _ends(points)
    tiled = [p for p in shown if any(p.label in s.tiles for s in shapes)]
    columns = [Column("weight", least=8), number("layers"), number("N"), number("K"), number("experts, top-k", drop=1)]
    columns += [Column(f"tile, {p.phase} {p.rows:,}", least=12, drop=2) for p in tiled]
    rows = [
        [
            s.module,
            f"{s.layers:,}",
            f"{s.N:,}",
            f"{s.K:,}",
            f"{s.experts}, {s.top_k}" if s.experts else "",
            *(s.tiles.get(p.label, "").partition(",")[0] for p in tiled),
        ]
        for s in shapes
    ]
    table(page, columns, rows)
    for shape in shapes:
        for said in dict.fromkeys(shape.tuned.values()):
            page.say((f"{shape.module}: {said}", "warn" if said.startswith("default") else ""), indent=2, hang=2)


def _ends(points: Sequence[WorkPoint]) -> list[WorkPoint]:
    decode = [p for p in points if p.phase == "decode"]
    prefill = [p for p in points if p.phase == "prefill"]
    return [*decode[-1:], *prefill[:1]]
