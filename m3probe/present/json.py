"""``--json``: a report or the facts of one input as JSON (docs/report.schema.json, docs/report.md).

Plain ASCII; one row of a list a line, so that two reports can be compared with ``diff``. NaN and infinity
become null: they are no JSON, and a figure that is not a number is one that is not known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from m3probe.model.attach_report import AttachReport, VerifyReport
from m3probe.model.bench_report import BenchSection
from m3probe.model.clock import ClockSection
from m3probe.model.compare_report import CompareReport
from m3probe.model.counter_report import CountersSection
from m3probe.model.doctor_report import DoctorReport
from m3probe.model.export_report import ExportReport
from m3probe.model.idle_report import IdleSection
from m3probe.model.live_report import LiveSection
from m3probe.model.path_report import PathsSection
from m3probe.model.recipe_report import RecipeReport
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import (
    BottleneckSection,
    BytesSection,
    QueuesSection,
    Report,
    ShapesSection,
    SummarySection,
    TrustSection,
)
from m3probe.model.roofline_report import RooflineSection
from m3probe.present.escape import safe

_ORDER: tuple[tuple[type[object], tuple[str, ...]], ...] = (
    (TrustSection, ("trust",)),
    (SummarySection, ("meta",)),
    (TrustSection, ("coverage",)),
    (SummarySection, ("summary", "steps")),
    (ShapesSection, ("shapes", "model_match")),
    (RepeatsSection, ("repeats", "graph_coverage", "costs", "layers")),
    (BytesSection, ("bytes",)),
    (CountersSection, ("counters",)),
    (RooflineSection, ("roofline",)),
    (PathsSection, ("paths", "gates", "recipe")),
    (QueuesSection, ("queues", "queue_rows")),
)
_LIVE = ("processes", "step_times", "seconds", "verified", "unseen")


def report_json(report: Report) -> str:
    """The whole report; a section whose analyzer did not run is null, never empty."""
    answer = report.answer
    document: dict[str, Any] = {
        "schema_version": report.schema_version,
        "outcome": report.outcome,
        "notes": report.notes,
    }
    for kind, keys in _ORDER:
        section = answer.section(kind)
        document |= {key: None if section is None else getattr(section, key) for key in keys}
    live = answer.section(LiveSection)
    document["live"] = None if live is None else {key: getattr(live, key) for key in _LIVE}
    document["bench"] = answer.section(BenchSection)
    joined = answer.section(ClockSection)
    document["clocks"] = None if joined is None else joined.clocks
    document["idle"] = answer.section(IdleSection)
    document["findings"] = answer.findings
    last = answer.section(BottleneckSection)
    document["next_bottleneck"] = None if last is None else last.next_bottleneck
    document["ranking"] = None if last is None else last.ranking
    return _written(document)


def inspect_json(kind: str, outcome: str, facts: Mapping[str, Any], warnings: Sequence[Any]) -> str:
    """What is in one input: ``facts`` by name, ``warnings`` as sentences or notes."""
    return _written({"kind": kind, "outcome": outcome, "facts": facts, "warnings": warnings})


def plain_json(report: AttachReport | VerifyReport | ExportReport) -> str:
    """What ``attach``, ``verify`` or ``export`` did (docs/attach.schema.json, docs/export.md)."""
    names = sorted((field.name for field in fields(report)), key=lambda name: name != "schema_version")
    return _written({name: getattr(report, name) for name in names})


def recipe_json(report: RecipeReport) -> str:
    """What a configuration allows (docs/recipe.schema.json); ``required`` as rows of what, held and why."""
    names = sorted((field.name for field in fields(report)), key=lambda name: name != "schema_version")
    document: dict[str, Any] = {name: getattr(report, name) for name in names}
    document["required"] = [{"path": what, "holds": held, "why": why} for what, held, why in report.required]
    return _written(document)


def compare_json(report: CompareReport) -> str:
    """Runs held against the first one (docs/compare.schema.json)."""
    names = sorted((field.name for field in fields(report)), key=lambda name: name != "schema_version")
    return _written({name: getattr(report, name) for name in names})


def doctor_json(report: DoctorReport) -> str:
    """What ``doctor`` found on a host (docs/doctor.schema.json)."""
    return _written(
        {
            "schema_version": report.schema_version,
            "concurrency": report.concurrency,
            "checked": report.checked,
            "counts": report.counts,
            "checks": [{"group": check.group} | asdict(check) for check in report.checks],
        }
    )


def _written(document: Mapping[str, Any]) -> str:
    """Keys in order, one a line; the rows of lists and maps one a line too.

    Rows go through ``json.dumps`` without indent because only that runs in C.
    """
    lines = [f"  {json.dumps(key)}: {_block(_plain(value))}" for key, value in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def _block(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(row, list | dict) for row in value):
        return "[\n" + ",\n".join(f"    {_dump(row)}" for row in value) + "\n  ]"
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"    {json.dumps(key)}: {_inner(row)}" for key, row in value.items()) + "\n  }"
    return _dump(value)


def _inner(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(row, dict) for row in value):
        return "[\n" + ",\n".join(f"      {_dump(row)}" for row in value) + "\n    ]"
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _plain(value: Any) -> Any:
    """``value`` as dicts, lists, text, numbers, booleans and None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return safe(str(value), keep="\t\n")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return _plain_compound(value)


def _plain_compound(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {safe(str(key), keep="\t\n"): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # numpy's scalars and arrays, told without importing numpy
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return safe(str(value), keep="\t\n")
