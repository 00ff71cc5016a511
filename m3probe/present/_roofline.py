"""What ran beside the least time that its bytes and operations can take."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.roofline_report import ControlPlaneRow, DecodeFloorRow, Roofline, RooflineRow, RooflineSection
from m3probe.present._numbers import UNKNOWN, fixed, listed, ms, us
from m3probe.present._page import Page
from m3probe.present._ran import bar
from m3probe.present._table import Column, number, table

ROWS_SHOWN = 6
PARTS_SHOWN = 4
BAR = 12


def roofline(page: Page, section: RooflineSection | None) -> None:
    """Parts and shapes with the most time above their floor, the step's own floor, and the control plane."""
    if section is None:
        return
    found = section.roofline
    if found.device is None and found.control_plane is None:
        return  # nothing but that there is no device: --json says it
    page.heading("roofline", "the least time that bytes and operations need, and what it took")
    _device(page, found)
    rows = [row for row in found.rows if row.ratio is not None]
    shown = sorted(rows, key=lambda row: (not row.part, -_above(row)))[:ROWS_SHOWN]
    if shown:
        _rows(page, shown)
    if len(found.rows) > len(shown):
        left = len(found.rows) - len(shown)
        without = sum(row.ratio is None for row in found.rows)
        page.say(
            (f"{left:,} more in --json{f', {without:,} of them without a floor or a time' * (without > 0)}", "dim"),
            indent=2,
        )
    if found.decode:
        _decode(page, found.decode)
    if found.control_plane:
        _control(page, found.control_plane)
    for text in found.unknown:
        page.say(f"? {text}", indent=2, hang=2)


def _above(row: RooflineRow) -> float:
    return ((row.observed_ns or 0.0) - (row.floor_ns or 0.0)) * row.count


def _device(page: Page, found: Roofline) -> None:
    if found.device is None or found.bytes_per_s is None:
        return
    peaks = ", ".join(f"{word} {tflops:,.0f}" for word, tflops in found.peak_tflops.items())
    sure = "" if found.certain else ", not certain"
    page.say(f"{found.device}{sure}: {found.bytes_per_s / 1e12:,.2f} TB/s; TFLOP/s {peaks}", indent=2, hang=2)


def _rows(page: Page, shown: Sequence[RooflineRow]) -> None:
    columns = (
        Column("step of decode, or one call", title=True, least=18),
        Column("phase", drop=4),
        number("MB", drop=3),
        number("least µs"),
        number("took µs"),
        number("x"),
        Column("bound by", drop=2),
        Column("least of took", drop=1),
    )
    body = [
        (
            row.what if row.part else row.shape,
            row.phase,
            fixed(None if row.bytes is None else row.bytes / 1e6, 1),
            us(row.floor_ns),
            us(row.observed_ns),
            (fixed(row.ratio, 2), "bad bold" if (row.ratio or 1) < 1 else ""),
            row.bound_by,
            bar(1 / row.ratio if row.ratio else None, 1.0, BAR) if (row.ratio or 0) >= 1 else "below: wrong",
        )
        for row in shown
    ]
    table(page, columns, body)


def _decode(page: Page, row: DecodeFloorRow) -> None:
    largest = sorted(row.parts, key=lambda part: -part.floor_ns)[:PARTS_SHOWN]
    parts = ", ".join(f"{part.what} {ms(part.floor_ns, 3)}" for part in largest)
    context = f" of {row.context:,.0f} tokens" if row.context else ""
    times = f"{row.step_ns / row.floor_ns:,.1f} x the least" if row.step_ns and row.floor_ns else UNKNOWN
    busy = "" if row.busy_ns is None else f"; {ms(row.busy_ns, 3)} ms with GPU work"
    page.blank()
    page.say(
        ("decode step ", "bold"),
        f"{row.rows:,.1f} rows{context}: at the least {ms(row.floor_ns, 3)} ms for {row.bytes / 1e9:,.2f} GB ({parts}); took "
        f"{ms(row.step_ns, 3)} ms, {times}{busy}",
        indent=2,
        hang=2,
    )
    if row.left_out:
        page.say(
            (f"? not in it: {listed(list(row.left_out))} ({'; '.join(dict.fromkeys(row.left_out.values()))})", "dim"),
            indent=4,
            hang=2,
        )


def _control(page: Page, row: ControlPlaneRow) -> None:
    each = ", ".join(f"{name} {us(ns)}" for name, ns in row.parts_ns.items())
    said = f"choosing blocks {us(row.choose_ns)} µs a step ({each or UNKNOWN}), attending {us(row.attend_ns)} µs"
    if row.choose_bytes is not None and row.attend_bytes is not None:
        said += f"; least bytes {row.choose_bytes / 1e6:,.2f} and {row.attend_bytes / 1e6:,.2f} MB"
    if row.crossover_tokens is not None:
        edge = f"from {row.crossover_tokens:,.0f} tokens on" if row.crossover_tokens else "at any context"
        said += f"; the index reads at least what the attend reads {edge}"
    page.say(("control plane ", "bold"), said, indent=2, hang=2)
