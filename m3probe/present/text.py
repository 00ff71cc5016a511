"""A report for a terminal: losses first, then what to do next, then one block per question."""

from __future__ import annotations

from m3probe.model.live_report import LiveSection
from m3probe.model.path_report import PathsSection
from m3probe.model.report import (
    Answer,
    BytesSection,
    QueuesSection,
    RepeatsSection,
    Report,
    ShapesSection,
    SummarySection,
)
from m3probe.present._findings import findings
from m3probe.present._live import lived
from m3probe.present._page import Page
from m3probe.present._paths import paths
from m3probe.present._planes import planes, queues
from m3probe.present._ran import ran
from m3probe.present._repeats import repeats
from m3probe.present._shapes import shapes
from m3probe.present._top import top


def report_text(report: Report, width: int, color: bool, *, ascii_only: bool = False) -> str:
    """The report in lines of at most ``width`` cells, without a newline at its end.

    Args:
        width: of the terminal; less than 20 is taken as 20.
        color: False leaves out every ESC byte (the caller honours NO_COLOR and pipes).
        ascii_only: for a terminal that cannot show bars and glyphs (``wants_ascii``).
    """
    page, answer = Page(width, color, ascii_only), report.answer
    top(page, report)
    lived(page, answer.section(LiveSection))
    if not _unwindowed(answer):
        ran(page, answer.section(SummarySection))
    shapes(page, answer.section(ShapesSection), answer.findings)
    repeats(page, answer.section(RepeatsSection), timed=not _unwindowed(answer))
    planes(page, answer.section(BytesSection))
    paths(page, answer.section(PathsSection))
    queues(page, answer.section(QueuesSection))
    findings(page, answer.findings)
    return page.text()


def _unwindowed(answer: Answer) -> bool:
    """A live recording without a kernel window: totals over kernels would be rows of dashes."""
    summed = answer.section(SummarySection)
    return answer.section(LiveSection) is not None and summed is not None and not summed.summary.kernel_count


def wants_ascii(encoding: str | None) -> bool:
    """Whether an output of this encoding cannot show the report's glyphs; None is taken as able to."""
    try:
        "●○✗–·⊘…—█▏▲─µ→".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
