"""A recording made inside the server: its processes, where a step's time went, modules that were recomputed."""

from __future__ import annotations

from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.present._numbers import fixed, plural, us
from m3probe.present._page import Page, items
from m3probe.present._table import Column, number, table

PARTS = ("schedule", "prepare", "launch", "wait", "output", "idle")
BAR_CELLS = 40
MOST_ABSENT = 6
"""Seams named of those that this vLLM lacks; ``--json`` has all, with where they would be."""
_MARKS = {"prepare": "p", "launch": "L", "wait": "w", "idle": "·"}
LEGEND = (
    "means per step of one rank; p prepare, L launch, w wait for the tokens, · idle until the next step (the engine's "
    "schedule and output lie in it)"
)


def lived(page: Page, section: LiveSection | None) -> None:
    """The block; nothing for a trace."""
    if section is None:
        return
    page.heading("Recorded live", "by guests inside the server")
    said = [f"{row.role}{'' if row.rank is None else f' {row.rank}'} (pid {row.pid})" for row in section.processes]
    page.say(
        items([plural(len(section.processes), "process", "processes"), f"{section.seconds:,.1f} s of steps", *said]),
        indent=2,
    )
    if any(row.late for row in section.processes):
        page.say(
            (
                "! attached late: paths inside graphs are unproven until a restart, a kernel window or an eager twin",
                "warn",
            ),
            indent=2,
            hang=2,
        )
    if section.step_times:
        page.blank()
        _times(page, section.step_times)
    else:
        worked = any(row.role == "worker" for row in section.processes)
        page.say("No step ran while it recorded." if worked else "No worker was recorded, so no step.", indent=2)
    for row in section.verified:
        where = "" if row.rank is None else f" on rank {row.rank}"
        figure = "" if row.cosine is None else f": cosine {row.cosine:.6f}"
        figure += "" if row.max_error is None else f"{',' if figure else ':'} largest error {row.max_error:.3g}"
        page.say(
            (f"{row.module}{where} {row.state}{figure} ({row.text})", "bad" if row.state == "broken" else ""),
            indent=2,
            hang=2,
        )
    _unseen(page, section.unseen)


def _unseen(page: Page, seams: tuple[str, ...]) -> None:
    """A seam that changed is worth a line; those that a release never had are one, by their names."""
    absent = [text.partition(":")[0] for text in seams if text.partition(":")[2].startswith(" absent")]
    for text in seams:
        if text.partition(":")[0] not in absent:
            page.say((f"? not seen: {text}", "dim"), indent=2, hang=2)
    if absent:
        names = ", ".join(absent[:MOST_ABSENT]) + (
            f" and {len(absent) - MOST_ABSENT:,} more" if absent[MOST_ABSENT:] else ""
        )
        are = "seam is" if len(absent) == 1 else "seams are"
        page.say(
            (f"? {len(absent):,} {are} not in this vLLM, what is behind them not seen: {names}", "dim"),
            indent=2,
            hang=2,
        )


def _times(page: Page, rows: tuple[StepTimeRow, ...]) -> None:
    # a figure is never cut: on a narrow page whole columns go, those first that the bars below do not need
    columns = [
        Column("phase"),
        Column("graph"),
        number("steps", drop=1),
        number("rows", drop=2),
        number("requests", drop=4),
    ]
    columns += [number(f"{part} µs", drop=3 if part in ("schedule", "output") else 0) for part in PARTS]
    body = [
        [
            r.phase,
            r.graph_mode,
            fixed(r.steps),
            fixed(r.rows, 1),
            fixed(r.requests, 1),
            *(us(getattr(r, f"{p}_ns"), 0) for p in PARTS),
        ]
        for r in rows
    ]
    table(page, columns, body)
    bars = [(f"{row.phase} {row.graph_mode}", _bar(row)) for row in rows]
    width = max(len(of) for of, _ in bars)
    for of, line in bars:
        if line:
            page.say((f"{of:<{width}} {line}", "accent"), indent=2)
    page.say((LEGEND, "dim"), indent=2, hang=2)


def _bar(row: StepTimeRow) -> str:
    """Worker time from step to step, in shares of ``BAR_CELLS``; empty where a part is not known."""
    parts = {mark: getattr(row, f"{name}_ns") for name, mark in _MARKS.items()}
    if any(value is None for value in parts.values()):
        return ""
    total = sum(parts.values())
    return "".join(mark * round(BAR_CELLS * value / total) for mark, value in parts.items()) if total > 0 else ""
