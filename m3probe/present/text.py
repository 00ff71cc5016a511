"""A report for a terminal: losses first, then what to do next, then one block per question."""

from __future__ import annotations

from m3probe.model.bench_report import BenchSection
from m3probe.model.clock import ClockSection
from m3probe.model.counter_report import CountersSection
from m3probe.model.device_report import DevicesSection
from m3probe.model.live_report import LiveSection
from m3probe.model.path_report import PathsSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import (
    Answer,
    BytesSection,
    QueuesSection,
    Report,
    ShapesSection,
    SummarySection,
    TrustSection,
)
from m3probe.model.roofline_report import RooflineSection
from m3probe.present._bench import bench
from m3probe.present._clocks import joined
from m3probe.present._counters import counters
from m3probe.present._devices import devices, lacks
from m3probe.present._explain import explained
from m3probe.present._findings import findings
from m3probe.present._live import lived
from m3probe.present._page import Page
from m3probe.present._paths import paths
from m3probe.present._planes import planes, queues
from m3probe.present._ran import ran
from m3probe.present._repeats import repeats
from m3probe.present._roofline import roofline
from m3probe.present._shapes import shapes
from m3probe.present._top import top


def report_text(
    report: Report, width: int, color: bool, *, ascii_only: bool = False, explain: str | None = None
) -> str:
    """The report in lines of at most ``width`` cells, without a newline at its end.

    Args:
        width: of the terminal; less than 20 is taken as 20.
        color: False leaves out every ESC byte (the caller honours NO_COLOR and pipes).
        ascii_only: for a terminal that cannot show bars and glyphs (``wants_ascii``).
        explain: in its place the arithmetic of one finding, or of the whole ranking where it is empty.
    """
    page, answer = Page(width, color, ascii_only), report.answer
    if explain is not None:
        explained(page, report, explain)
        return page.text()
    top(page, report)
    joined(page, answer.section(ClockSection), answer.findings)
    lived(page, answer.section(LiveSection))
    kinds, beside = _beside(answer), answer.section(DevicesSection)
    if kinds:
        page.heading("1 to 4", "not answered")
        page.say(
            f"{', '.join(kinds)}: a trace or a live recording would answer shapes, repeats and bytes.", indent=2, hang=2
        )
    else:
        if not _unwindowed(answer):
            _ran(page, answer)
        shapes(page, answer.section(ShapesSection), answer.findings)
        lacks(page, beside, "shapes")
        repeats(page, answer.section(RepeatsSection), timed=not _unwindowed(answer))
        lacks(page, beside, "repeats")
        planes(page, answer.section(BytesSection))
        lacks(page, beside, "bytes")
        roofline(page, answer.section(RooflineSection))
    counters(page, answer.section(CountersSection))
    if not kinds or _LOG in kinds:
        paths(page, answer.section(PathsSection))
        lacks(page, beside, "paths")
    bench(page, answer.section(BenchSection))
    queues(page, answer.section(QueuesSection))
    lacks(page, beside, "queues")
    findings(page, answer.findings)
    return page.text()


def _ran(page: Page, answer: Answer) -> None:
    """Totals and families; by device where there are no steps, else by phase."""
    summed = answer.section(SummarySection)
    trust = answer.section(TrustSection)
    ran(page, summed, linked=trust is None or trust.coverage.get("kernels_linked") != 0)
    if summed is not None and not summed.summary.phases:
        devices(page, answer.section(DevicesSection))


_LOG = "a log says what was chosen, not what ran"
_BESIDE = {
    "log_only": (_LOG,),
    "no_trace": ("the inputs hold nothing that ran on a device",),
    "counters_only": ("counters are of single dispatches, without a step",),
}


def _beside(answer: Answer) -> tuple[str, ...]:
    """What there is instead of a trace or a live recording, whose blocks would be rows of dashes; empty where one is there."""
    section = answer.section(TrustSection)
    words = [reason.word for reason in section.trust.reasons] if section else []
    return next((_BESIDE[word] for word in words if word in _BESIDE), ())


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
