"""``m3probe attach`` and ``verify`` for a terminal: what must be known first, then processes, addresses, the recording."""

from __future__ import annotations

from m3probe.model.attach_report import AttachReport, Now, NowRow, ProcessReport, VerifiedRank, VerifyReport
from m3probe.present._page import Page, Piece
from m3probe.present._table import Column, number, table

_LOOKS = {
    "recorded": "good", "dormant": "", "lost": "bad", "refused": "warn", "no guest": "warn", "zombie": "warn", "gone": "warn",
    "gave": "good", "absent": "dim", "failed": "warn", "holds": "good", "broken": "bad", "cannot verify": "warn",
    "done": "good",
}  # fmt: skip
_HEADS = {
    "looked": "looked, nothing recorded",
    "recorded": "recorded",
    "partial": "recorded, with losses",
    "nothing": "nothing was recorded",
}


def attach_text(report: AttachReport, width: int, color: bool, *, ascii_only: bool = False) -> str:
    """The answer in lines of at most ``width`` cells, without a newline at its end."""
    page = Page(width, color, ascii_only)
    _head(page, report)
    for text in report.first:
        page.say(("! ", "bad bold"), (text, "bold"), hang=2)
    for text in report.losses:
        page.say(("! ", "warn"), text, hang=2)
    _processes(page, report)
    _differences(page, report)
    _offers(page, report)
    _windows(page, report)
    for text in report.notes:
        page.say(f"- {text}", hang=2)
    if report.folder:
        page.blank()
        page.say((report.folder, "bold"), f"  {_size(report.bytes)}; read it again with `m3probe analyze`", hang=2)
    return page.text()


def progress_line(now: Now) -> str:
    """The recording as it stands, on one line."""
    parts = [f"{now.seconds:.0f} s"]
    if now.steps >= 0:
        parts.append(f"{now.steps:,} steps")
    if now.running is not None:
        parts.append(f"{now.running:.0f} running")
    if now.waiting is not None:
        parts.append(f"{now.waiting:.0f} waiting")
    return ", ".join(parts)


def progress_rows(now: Now) -> list[tuple[str, ...]]:
    """One row for each process: name, steps/s, rows, records, bytes, dropped."""
    return [_now_row(row) for row in now.rows if row.state in {"recorded", "lost"}]


def verify_text(report: VerifyReport, width: int, color: bool, *, ascii_only: bool = False) -> str:
    """One line for each rank."""
    page = Page(width, color, ascii_only)
    page.heading(report.module, "against float32 from the same parameters")
    columns = [number("rank"), number("pid"), Column("verdict"), number("cosine"), number("max error"), number("rows")]
    table(page, columns, [_verified(rank) for rank in report.ranks])
    for rank in report.ranks:
        if rank.text:
            page.say(f"- rank {rank.rank}: {rank.text}", hang=2)
    return page.text()


def _head(page: Page, report: AttachReport) -> None:
    version = f"  vLLM {report.version}" if report.version else ""
    page.say(
        (f"{_HEADS.get(report.outcome, report.outcome)}: ", "bold"), f"{report.url or report.target}{version}", hang=2
    )
    if report.outcome == "looked":
        return
    steps = f"{report.steps:,} steps" if report.steps >= 0 else "steps not counted"
    scrapes = f", {report.scrapes:,} scrapes of /metrics" if report.scrapes else ""
    page.say(f"{report.seconds:.1f} s, {steps}{scrapes}; ended: {report.ended}", hang=2)


def _processes(page: Page, report: AttachReport) -> None:
    if not report.processes:
        return
    page.heading("processes", "each as its own guest says")
    columns = [
        Column("process"),
        number("pid"),
        Column("state"),
        number("rank", drop=3),
        Column("capture", drop=2),
        number("steps"),
        number("records"),
        number("bytes", drop=1),
        Column("hooks: before, during, after", drop=4),
        number("fds", drop=5),
    ]
    table(page, columns, [_process(row) for row in report.processes])
    checked = [row for row in report.processes if row.hooks_after >= 0]
    if checked:
        clean = [row for row in checked if row.hooks_after == row.hooks_before and not row.left_behind]
        put = sum(row.hooks_armed - row.hooks_before for row in checked)
        off = sum(row.hooks_armed - row.hooks_after for row in checked)
        page.say(
            f"{put} hooks were put on and {off} taken off; {len(clean)} of {len(checked)} processes have every attribute "
            "back as the same object",
            indent=2,
        )


def _process(row: ProcessReport) -> list[str | Piece]:
    capture = "" if row.late is None else "not seen" if row.late else f"{row.captured:,} descriptors"
    hooks = (
        f"{row.hooks_before}, {_or_dash(row.hooks_armed)}, {_or_dash(row.hooks_after)}" if row.hooks_before >= 0 else ""
    )
    state = f"{row.state}, injected" if row.injected else row.state
    is_worker = row.role == "worker"
    return [
        row.name if row.role == "unknown" or row.name.endswith("server") else f"{row.role} ({row.name})",
        str(row.pid),
        (state, _LOOKS.get(row.state, "")),
        _or_dash(row.rank) if row.rank >= 0 else "",
        capture if is_worker else "",
        f"{row.steps:,}" if row.steps >= 0 else "",
        f"{row.records:,}" if row.records >= 0 else "",
        _size(row.bytes) if row.bytes >= 0 else "",
        hooks,
        f"{row.fds:,} of {_limit(row.fd_soft)}" if row.fds >= 0 else "",
    ]


def _differences(page: Page, report: AttachReport) -> None:
    if not report.differences:
        return
    page.heading("variables that differ between its processes")
    for text in report.differences:
        page.say(text, indent=2, hang=2)


def _offers(page: Page, report: AttachReport) -> None:
    if not report.offers:
        return
    page.heading("what the server offers by its address")
    for offer in report.offers:
        page.say(
            (f"{offer.path:<16}", ""), (f"{offer.state:<8}", _LOOKS.get(offer.state, "")), offer.text, indent=2, hang=26
        )
        if offer.more:
            page.say(("would give more: ", "dim"), offer.more, indent=26, hang=2)


def _windows(page: Page, report: AttachReport) -> None:
    if not report.windows:
        return
    page.heading("windows")
    for window in report.windows:
        rates = ""
        if not window.text and window.before_steps_per_s is not None and window.after_steps_per_s is not None:
            rates = f"; {window.before_steps_per_s:.1f} steps/s before, {window.after_steps_per_s:.1f} after"
        who = f"pid {window.pid}: " if window.pid >= 0 else ""
        steps = f", {window.steps:,} steps" if window.steps >= 0 else ""
        tail = f"{steps}{rates}{'; ' + window.path if window.path else ''}{'; ' + window.text if window.text else ''}"
        page.say(f"{window.kind}: {who}", (window.state, _LOOKS.get(window.state, "")), tail, indent=2, hang=2)


def _now_row(row: NowRow) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.steps_per_s:.1f}" if row.steps_per_s is not None else "",
        f"{row.rows:,}" if row.rows >= 0 else "",
        _or_dash(row.records),
        _size(row.bytes) if row.bytes >= 0 else "",
        _or_dash(row.dropped),
    )


def _verified(rank: VerifiedRank) -> list[str | Piece]:
    return [
        str(rank.rank),
        str(rank.pid),
        (rank.state, _LOOKS.get(rank.state, "")),
        f"{rank.cosine:.6f}" if rank.cosine is not None else "",
        f"{rank.max_error:.3g}" if rank.max_error is not None else "",
        f"{rank.rows:,}" if rank.rows >= 0 else "",
    ]


def _limit(value: int) -> str:
    return "?" if value < 0 else "unlimited" if value >= 2**62 else f"{value:,}"


def _or_dash(value: int) -> str:
    return f"{value:,}" if value >= 0 else "?"


def _size(count: int) -> str:
    for unit, at in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= at:
            return f"{count / at:.1f} {unit}"
    return f"{count} B"
