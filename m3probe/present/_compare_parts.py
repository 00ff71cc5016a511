"""The device's side of a comparison: step times and what they are made of, local shapes, fast paths."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.compare_report import BETTER, WORSE, HostChange, Part, PathChange, PhaseChange, ShapeChange
from m3probe.present._numbers import UNKNOWN, fixed, ms, percent, us
from m3probe.present._page import Page
from m3probe.present._table import Cell, Column, number, table

KERNELS_SHOWN, SHAPES_SHOWN, PATHS_SHOWN = 6, 6, 12
SHAPE_MOVED = 0.05
"""Change of a shape's time a call from which on it is told."""
_OVER = 1.005
"""Share from which on the parts visibly sum to more than the change."""
_LOOK = {BETTER: "good", WORSE: "bad"}
_MATCH = {"same": "", "variant": "variant", "replaced": "replaced", "only before": "gone", "only after": "new"}


def phase_block(page: Page, change: PhaseChange, *, explain: bool) -> None:
    """One group of steps: its times, the parts of the change, and the kernels behind it."""
    page.blank()
    page.say(
        (f"{change.phase} steps{_rows(change)}", "bold"),
        (f"  {change.steps_before:,} and {change.steps_after:,} steps", "dim"),
    )
    page.say(*_times(change), indent=2, hang=2)
    if change.doubt:
        page.say((f"unsure: {change.doubt}", "warn"), indent=2, hang=2)
    parts = sorted((*change.families, *change.parts), key=lambda p: -abs(p.delta_ns or 0.0))
    shown = [p for p in parts if p.delta_ns is None or abs(p.share or 0.0) >= (0.0 if explain else 0.005)]
    _parts(page, [p for p in shown if p.what != "overlap" or p.delta_ns], "part of a step")
    kernels = change.kernels if explain else [k for k in change.kernels if _tells(k)][:KERNELS_SHOWN]
    _parts(page, kernels, "kernel")
    if len(kernels) < len(change.kernels):
        page.say((f"{len(change.kernels) - len(kernels):,} more kernels in --json and --explain", "dim"), indent=2)
    for line in change.arithmetic if explain else ():
        page.say((f"explained = {line}", "dim"), indent=2, hang=2)


def few_steps(page: Page, changes: Sequence[PhaseChange]) -> None:
    """Groups with too few steps for a noise, a line each."""
    if changes:
        page.blank()
    for c in changes:
        said = f"{c.phase} steps{_rows(c)}: {ms(c.before_ns)} → {ms(c.after_ns)} ms, {c.steps_before:,} and {c.steps_after:,}"
        page.say((f"{said} steps: too few for a noise (--explain)", "dim"), indent=2, hang=2)


def _rows(change: PhaseChange) -> str:
    return "" if change.rows is None else " of 1 row" if change.rows == 1 else f" of up to {change.rows:,} rows"


def _tells(kernel: Part) -> bool:
    """Whether anything of it changed: its time by a thousandth of the step's change, its calls, or itself."""
    moved = kernel.delta_ns is None or abs(kernel.share or 0.0) >= 0.001
    return moved or kernel.match != "same" or kernel.count_before != kernel.count_after


def _times(change: PhaseChange) -> list[tuple[str, str]]:
    """Step time, its noise, launches and idle share; what is not known is not there."""
    if change.ratio is None or change.delta_ns is None:
        launches = f"{fixed(change.launches_before, 1)} → {fixed(change.launches_after, 1)} kernels a step"
        return [("step time is not known of both (kernels may be missing, or have no time); ", "warn"), (launches, "")]
    noise = "" if change.error_ns is None else f" ± {ms(2 * change.error_ns)}"
    said = f"{ms(change.before_ns)} → {ms(change.after_ns)} ms a step, x {change.ratio:.3f}{noise and ' (change ' + ms(change.delta_ns) + noise + ' ms)'}"
    idle = f"; idle {percent(change.idle_before)} → {percent(change.idle_after)} %"
    launches = f"; {fixed(change.launches_before, 1)} → {fixed(change.launches_after, 1)} kernels"
    token = (
        f"; {us(change.ns_per_token_before)} → {us(change.ns_per_token_after)} us a token"
        if change.ns_per_token_before
        else ""
    )
    explained = "" if change.explained is None else f"; explained {percent(change.explained)} % of the change"
    explained += " (parts ran beside each other)" if (change.explained or 0.0) > _OVER else ""
    return [(change.verdict, _LOOK.get(change.verdict, "")), (f": {said}{idle}{launches}{token}{explained}", "")]


def _parts(page: Page, parts: Sequence[Part], head: str) -> None:
    if not parts:
        return
    columns = (
        Column(head, least=18), Column("family", drop=3), Column("", drop=4), number("us before", drop=2),
        number("us after", drop=2), number("change us"), number("% of change"), number("calls before", drop=1),
        number("calls after", drop=1),
    )  # fmt: skip
    table(page, columns, [_row(part) for part in parts])


def _row(part: Part) -> tuple[Cell, ...]:
    before, after = short(part.name), short(part.name_after)
    name = before if before == after else f"{before} → {after}"
    family = part.family if part.what == "kernel" else ""
    times = (us(part.before_ns), us(part.after_ns), us(part.delta_ns), percent(part.share))
    counts = (fixed(part.count_before, 1), fixed(part.count_after, 1))
    return (name, family, _MATCH.get(part.match, ""), *times, *(("" if c == UNKNOWN else c) for c in counts))


def host_block(page: Page, rows: Sequence[HostChange]) -> None:
    """Step times by a worker's clock, as hooks in both servers took them; idle time apart: it may be a wait for requests."""
    if not rows:
        return
    page.blank()
    page.say(("Steps by a worker's clock", "bold"), ("  means without a profiler and without a known noise", "dim"))
    columns = (
        Column("phase"), Column("graphs", drop=2), number("rows", drop=1), number("ms of work"), number("ratio"),
        *(number(part, drop=3) for part in ("prepare", "launch", "wait")), number("idle after it", drop=2),
    )  # fmt: skip
    table(page, columns, [_host(row, after=after) for row in rows for after in (False, True)])


def _host(row: HostChange, *, after: bool) -> tuple[Cell, ...]:
    modes, rows = (row.modes_after, row.rows_after) if after else (row.modes_before, row.rows_before)
    parts = [ms(part.after_ns if after else part.before_ns) for part in row.parts]
    whole = ms(row.after_ns if after else row.before_ns)
    ratio = fixed(row.ratio, 3) if after else ""
    return ("" if after else row.phase, " ".join(modes), fixed(rows, 1), whole, ratio, *parts)


def short(name: str) -> str:
    """A C++ kernel without its return type, arguments and parameters: what a narrow column can tell it apart by."""
    own = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    cut = min((at for at in (own.find("<"), own.find("(")) if at > 0), default=len(own))
    wrapped = own[:cut].endswith(("device_kernel", "Kernel2", "kentry"))
    return own if wrapped or cut == len(own) else f"{own[:cut]}<>"


def shape_block(page: Page, rows: Sequence[ShapeChange], *, explain: bool) -> None:
    """GEMM shapes of both runs, the largest change first."""
    both = [r for r in rows if r.ratio is not None and (explain or abs(r.ratio - 1) >= SHAPE_MOVED)]
    if not both:
        return
    page.blank()
    columns = (
        Column("local GEMM M x N x K"), Column("phase"), number("us a call before"), number("us a call after"),
        number("ratio"), number("calls before", drop=1), number("calls after", drop=1),
    )  # fmt: skip
    shown = both if explain else both[:SHAPES_SHOWN]
    table(
        page,
        columns,
        [
            (r.shape, r.phase, us(r.call_before_ns), us(r.call_after_ns), fixed(r.ratio, 3),
             fixed(r.per_step_before, 1), fixed(r.per_step_after, 1))
            for r in shown
        ],
    )  # fmt: skip
    alone = sum(r.ratio is None for r in rows)
    rest = len(both) - len(shown)
    said = [f"{rest:,} more in --json"] if rest else []
    said += [f"{alone:,} that one run alone shows, or without a time, in --json"] if alone else []
    if said:
        page.say(("; ".join(said), "dim"), indent=2, hang=2)


def path_block(page: Page, rows: Sequence[PathChange]) -> None:
    """Fast paths of which verdict, variant or execution differs."""
    if not rows:
        return
    page.blank()
    columns = (Column("fast path"), Column("phase"), Column("before", least=12), Column("after", least=12),
               number("calls before", drop=1), number("calls after", drop=1))  # fmt: skip
    shown = rows[:PATHS_SHOWN]
    table(page, columns, [_path(row) for row in shown])
    if len(shown) < len(rows):
        page.say((f"{len(rows) - len(shown):,} more in --json", "dim"), indent=2)


def _path(row: PathChange) -> tuple[Cell, ...]:
    before = " ".join(filter(None, [row.before, row.variant_before and f"({row.variant_before})"]))
    after = " ".join(filter(None, [row.after, row.variant_after and f"({row.variant_after})"]))
    return row.id, row.phase, before, after, fixed(row.calls_before, 1), fixed(row.calls_after, 1)
