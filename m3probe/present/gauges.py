"""m3probe's findings as Prometheus gauges (text format 0.0.4); names and labels are stable (docs/attach-serve.md).

What is not known is left out, never 0. A finding's sentence is no label: its numbers would make a new series each time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from m3probe.model.exported import Exported, ToldReport
from m3probe.model.findings import Bound
from m3probe.present.escape import safe

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LONGEST = 200
"""Characters of a label: ids may hold a kernel's name."""
MOST_FINDINGS = 200
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric with its samples."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def exposition(it: Exported) -> str:
    """The whole page; a metric without a sample is not on it."""
    return "".join(_family(gauge) for gauge in gauges(it) if gauge.samples)


def gauges(it: Exported) -> Iterator[Gauge]:
    """Every metric in the order of the page."""
    yield Gauge("m3probe_info", "Version of m3probe that records.", (({"version": it.version}, 1.0),))
    yield from _recording(it)
    yield _one("m3probe_report_age_seconds", "Age of the report that the gauges below are of.", it.age_s)
    yield _one("m3probe_report_duration_seconds", "Time that it took to make it.", it.took_s)
    yield _one("m3probe_reports_made", "Reports made so far.", it.made)
    yield _one("m3probe_reports_failed", "Reports that could not be made.", it.failed)
    if it.report is not None:
        yield from _report(it.report)


def _recording(it: Exported) -> Iterator[Gauge]:
    now = it.now
    if now is None:
        return
    yield _one("m3probe_recording_seconds", "Time since the recording began.", now.seconds)
    yield _one("m3probe_recording_steps", "Engine steps recorded.", now.steps if now.steps >= 0 else None)
    states = Counter(row.state for row in now.rows)
    yield _many("m3probe_processes", "Processes of the server by the state of their guest.", "state", states)
    rates = {row.name: row.steps_per_s for row in now.rows}
    yield _many("m3probe_process_steps_per_second", "Steps a second over the last seconds.", "process", rates)
    for word, what in (("records", "Records written"), ("bytes", "Bytes written"), ("dropped", "Records dropped")):
        counts = {row.name: getattr(row, word) for row in now.rows if getattr(row, word) >= 0}
        yield _many(f"m3probe_process_{word}", f"{what} by the guest of a process.", "process", counts)


def _report(report: ToldReport) -> Iterator[Gauge]:
    trust = (({"verdict": report.trust.verdict}, 1.0),) if report.trust else ()
    yield Gauge("m3probe_trust_info", "Whether absence in the evidence may be read as absence on the device.", trust)
    yield from _findings(report)
    yield from _next(report)
    yield from _paths(report)


def _findings(report: ToldReport) -> Iterator[Gauge]:
    counts = Counter((finding.question, finding.verdict) for finding in report.findings)
    by_question = tuple(({"question": q, "verdict": v}, float(n)) for (q, v), n in counts.items())
    yield Gauge("m3probe_findings", "Findings by question and verdict.", by_question)
    shown = report.findings[:MOST_FINDINGS]
    told = tuple(
        (
            {
                "id": finding.id,
                "question": finding.question,
                "verdict": finding.verdict,
                "confidence": finding.confidence,
                "trusted": str(finding.trusted).lower(),
            },
            1.0,
        )
        for finding in shown
    )
    yield Gauge("m3probe_finding_info", f"One a finding, {MOST_FINDINGS} at most.", told)
    bounds = [({"id": f.id}, f.bound) for f in shown if f.bound is not None]
    yield _bounds(
        "m3probe_finding_bound_ratio", "What acting on a finding could win at least (low) and at most (high).", bounds
    )


def _next(report: ToldReport) -> Iterator[Gauge]:
    found = report.next_bottleneck
    if found is None:
        return
    yield Gauge("m3probe_next_bottleneck_info", "The finding to act on next.", (({"id": found.finding}, 1.0),))
    bounds = [({"id": found.finding}, found.bound)] if found.bound else []
    yield _bounds("m3probe_next_bottleneck_bound_ratio", "What acting on it could win.", bounds)


def _paths(report: ToldReport) -> Iterator[Gauge]:
    paths = report.paths or ()
    verdicts = tuple(({"path": path.id, "verdict": path.verdict}, 1.0) for path in paths)
    yield Gauge("m3probe_path_verdict_info", "Verdict of each fast path, its worst cell's.", verdicts)
    for word, what in (("steps", "Steps that a path was judged on"), ("executed", "Of those, steps in which it ran")):
        cells = tuple(
            (
                {
                    "path": path.id,
                    "phase": c.phase,
                    "rank": "" if c.rank is None else str(c.rank),
                    "verdict": c.verdict,
                },
                float(getattr(c, word)),
            )
            for path in paths
            for c in path.cells
        )
        yield Gauge(f"m3probe_path_{word}", f"{what}, by rank, phase and verdict.", cells)


def _bounds(name: str, help_: str, found: Iterable[tuple[Labels, Bound]]) -> Gauge:
    ends = ((labels, bound, end) for labels, bound in found for end in ("low", "high"))
    samples = (({**labels, "end": end, "of": bound.basis}, float(getattr(bound, end))) for labels, bound, end in ends)
    return Gauge(name, help_, tuple(samples))


def _one(name: str, help_: str, value: float | None) -> Gauge:
    return Gauge(name, help_, () if value is None else (({}, float(value)),))


def _many(name: str, help_: str, label: str, values: Mapping[str, float | None]) -> Gauge:
    return Gauge(name, help_, tuple(({label: key}, float(value)) for key, value in values.items() if value is not None))


def _family(gauge: Gauge) -> str:
    # two series with the same labels (ids that were cut) would make the whole page invalid: the first one stands
    lines = dict.fromkeys(f"{gauge.name}{_labels(labels)}" for labels, _ in gauge.samples)
    values: dict[str, float] = {}
    for labels, value in gauge.samples:
        values.setdefault(f"{gauge.name}{_labels(labels)}", value)
    body = "".join(f"{series} {_number(values[series])}\n" for series in lines if math.isfinite(values[series]))
    return f"# HELP {gauge.name} {_help(gauge.help)}\n# TYPE {gauge.name} gauge\n{body}" if body else ""


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    """A label's value: the format knows three escapes; every other control character is spelt first."""
    text = safe(value[:LONGEST], keep="\n")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
