"""What ran: totals, families as bars, phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.model.report import FamilyRow, Summary, SummarySection
from m3probe.present._numbers import decimals_for, fixed, listed, ms, per, percent, plural
from m3probe.present._page import Page, cells, items
from m3probe.present._table import Column, number, table
from m3probe.schema.verdicts import Family

BAR_CELLS = 44
FOLDED_SHARE = 0.005
"""Families below this share of the kernel time are told in one line; ``unknown`` never is."""
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def ran(page: Page, section: SummarySection | None, *, linked: bool = True) -> None:
    """The block; one sentence when nothing was summed up.

    Args:
        linked: some kernel has its launch; without one, no graph launch seen does not mean none.
    """
    page.heading("What ran")
    if section is None:
        page.say("Totals are missing: the summary did not run.", indent=2)
        return
    _totals(page, section.summary, section.meta, linked)
    if section.summary.families:
        page.blank()
        _families(page, section.summary.families)
    page.blank()
    _phases(page, section.summary)


def _totals(page: Page, summary: Summary, meta: Mapping[str, Any], linked: bool) -> None:
    times = (
        (summary.kernel_time_ns, "ms kernel time"),
        (summary.busy_union_ns, "ms busy (union)"),
        (summary.gpu_span_ns, "ms GPU span"),
    )
    figures = [plural(summary.kernel_count, "kernel")]
    figures += [f"{ms(ns)} {what}" for ns, what in times if summary.kernel_count or ns is not None]
    if summary.graph_launches or linked or not summary.kernel_count:
        figures.append(plural(summary.graph_launches, "graph launch", "graph launches"))
    else:
        figures.append("graph launches unknown, no launch of a kernel was recorded")
    page.say(items(figures), indent=2)
    page.say(items(_machine(summary, meta), "dim"), indent=2)


def _machine(summary: Summary, meta: Mapping[str, Any]) -> list[str]:
    files = [file for file in meta.get("files") or () if file.get("role") == "rank"]
    ranks = sorted({file["rank"] for file in files if file.get("rank") is not None})
    said = [f"rank {listed([str(rank) for rank in ranks], 8)}" if ranks else "rank unknown"]
    if meta.get("world_size"):
        said[0] += f" of {meta['world_size']}"
    if summary.devices:
        said.append(f"device {listed([str(device) for device in summary.devices], 8)}")
    said.append(_device(meta.get("device") or {}))
    said += [f"{key} {meta[key]}" for key in ("model", "tp", "ep") if meta.get(key)]
    return said + _versions(meta.get("versions") or {})


def _versions(versions: Mapping[str, str]) -> list[str]:
    """``vllm_version`` of a trace and ``vllm`` of a guest are one thing; where they differ both are said, and whose."""
    said = []
    for name, version in sorted(versions.items()):
        bare = name.removesuffix("_version")
        other = versions.get(f"{bare}_version" if bare == name else bare) if name in {bare, f"{bare}_version"} else None
        if bare != name and other == version:
            continue
        whose = "" if other in (None, version) else " (trace)" if bare != name else " (server)"
        said.append(f"{bare.replace('_', ' ')} {version}{whose}")
    return said


def _device(device: Mapping[str, Any]) -> str:
    name = device.get("name") or device.get("identified_as")
    if not name:
        return "device model unknown"
    guess = "" if device.get("name") or device.get("certain") else " (guessed from its size)"
    return f"{name}{guess}" + (f", {device['units']} units" if device.get("units") else "")


def _families(page: Page, rows: tuple[FamilyRow, ...]) -> None:
    timed = any(row.share is not None for row in rows)
    total = sum(row.count for row in rows)
    shares = {row.family: row.share if timed else per(row.count, total) for row in rows}
    shown = [row for row in rows if row.family == Family.UNKNOWN or (shares[row.family] or 0) >= FOLDED_SHARE]
    folded = [row for row in rows if row not in shown]
    columns = [Column("family"), number("kernels"), number("ms"), number("share %")]
    body = [(r.family, fixed(r.count), ms(r.time_ns), percent(shares[r.family])) for r in shown]
    room = page.width - 4 - sum(2 + max(cells(c.head), *(cells(row[i]) for row in body)) for i, c in enumerate(columns))
    most = max((share or 0.0 for share in shares.values()), default=0.0)
    bars = [(bar(shares[r.family], most, min(BAR_CELLS, room)), _bar_style(r.family)) for r in shown]
    columns.append(Column(_of(rows, timed), least=1, drop=1))
    table(page, columns, [[*row, mark] for row, mark in zip(body, bars, strict=True)])
    _census(page, rows)
    if folded:
        names = ", ".join(f"{row.family} {row.count:,}" for row in folded)
        page.say((f"below {100 * FOLDED_SHARE:.1f} % each: {names}", "dim"), indent=2, hang=2)


def _of(rows: tuple[FamilyRow, ...], timed: bool) -> str:
    if timed:
        return "of the kernel time"
    return (
        "of the kernels seen: times missing"
        if any(row.time_ns is not None for row in rows)
        else "of the kernels: no times"
    )


def _census(page: Page, rows: tuple[FamilyRow, ...]) -> None:
    unrecorded = sum(row.unrecorded for row in rows)
    if unrecorded:
        total = sum(row.count for row in rows)
        page.say(
            (f"{unrecorded:,} of {total:,} are known from the graph census alone: no times", "dim"), indent=2, hang=2
        )


def _bar_style(family: str) -> str:
    return "warn" if family == Family.UNKNOWN else "accent"


def bar(share: float | None, most: float, room: int) -> str:
    """A bar in eighths of a cell, ``most`` filling ``room`` cells; "" where the share is unknown."""
    if share is None or not most or room < 1:
        return ""
    eighths = max(round(8 * room * share / most), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _phases(page: Page, summary: Summary) -> None:
    if not summary.phases:
        page.say("No steps: nothing in the input says where one model execution ends and the next begins.", indent=2)
        return
    launches = [None if row.incomplete_steps else per(row.kernel_count, row.steps) for row in summary.phases]
    if not any(launches) and all(row.kernel_time_ns is None and row.step_time_ns is None for row in summary.phases):
        # every figure would be a dash
        page.say(items([f"{plural(row.steps, 'step')} of phase {row.phase}" for row in summary.phases]), indent=2)
        _short(page, summary)
        return
    decimals = decimals_for(launches)
    columns = [Column("phase"), number("steps"), number("kernels/step"), number("kernel ms/step")]
    columns += [number("step ms"), number("GPU idle %")]
    rows = [
        (
            row.phase,
            fixed(row.steps),
            fixed(each, decimals),
            ms(per(row.kernel_time_ns, row.steps)),
            ms(per(row.step_time_ns, row.steps)),
            percent(row.gpu_idle_share),
        )
        for row, each in zip(summary.phases, launches, strict=True)
    ]
    table(page, columns, rows)
    _short(page, summary)


def _short(page: Page, summary: Summary) -> None:
    """Phases whose kernels may be missing, so that their figures are not stated."""
    short = [f"{row.incomplete_steps:,} of {row.steps:,} {row.phase}" for row in summary.phases if row.incomplete_steps]
    if short:
        text = f"kernels of {listed(short)} steps are or may be missing (see Trust): their figures are not stated"
        page.say((text, "warn"), indent=2, hang=2)
