"""The report as tables: one for each kind of row, columns named like its fields, and the same columns when it is empty."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from m3probe.exporting._grid import BOOL, FLOAT, INT, INTS, TEXT, TEXTS, OutTable, of_values
from m3probe.model.bench_report import BenchRow, BenchSection
from m3probe.model.clock import ClockSection, FileClock
from m3probe.model.counter_report import CounterRow, CountersSection
from m3probe.model.device_report import DeviceRow, DevicesSection, UnansweredRow
from m3probe.model.findings import Evidence, Finding
from m3probe.model.idle_report import IdlePart, IdleSection
from m3probe.model.path_report import GateRow, PathCell, PathRow, PathsSection
from m3probe.model.repeat_report import CoverageRow, RepeatRow, RepeatsSection
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    BytesSection,
    FamilyRow,
    PhaseRow,
    PlaneRow,
    QueueRow,
    QueuesSection,
    RankedRow,
    Report,
    ShapeRow,
    ShapesSection,
    StepRow,
    SummarySection,
)
from m3probe.model.roofline_report import RooflineRow, RooflineSection
from m3probe.present.escape import safe

_UNITS = {"ns": "ns", "bytes": "bytes", "share": "share, 0 to 1", "per_s": "1/s", "pct": "%"}
_KINDS = {int: INT, float: FLOAT, bool: BOOL, str: TEXT}
Extra = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one kind, with what they do not say themselves in front."""

    name: str
    kind: type[Any]
    rows: Sequence[Any]
    extra: Extra
    left_out: frozenset[str] = frozenset()


def judged(report: Report) -> Iterator[OutTable]:
    """Every table of the report; one without rows is left out."""
    for part in _parts(report.answer):
        if part.rows:
            yield _table(part)


def _parts(answer: Answer) -> Iterator[_Part]:
    summary, shapes = answer.section(SummarySection), answer.section(ShapesSection)
    if summary:
        yield _Part("report_steps", StepRow, summary.steps, {})
        yield _Part("report_families", FamilyRow, summary.summary.families, {})
        yield _Part("report_phases", PhaseRow, summary.summary.phases, {})
    if shapes:
        yield _Part("report_shapes", ShapeRow, shapes.shapes, {})
    repeats, moved = answer.section(RepeatsSection), answer.section(BytesSection)
    if repeats:
        yield _Part("report_repeats", RepeatRow, repeats.repeats, {})
        yield _Part("report_graph_coverage", CoverageRow, repeats.graph_coverage, {})
    if moved:
        planes = [(plane, row) for plane in ("compute", "state", "comm") for row in getattr(moved.bytes, plane)]
        yield _Part("report_bytes", PlaneRow, [row for _, row in planes], {"plane": [plane for plane, _ in planes]})
    yield from _paths(answer.section(PathsSection))
    yield from _devices(answer)
    yield from _beside(answer)
    yield from _findings(answer)


def _paths(section: PathsSection | None) -> Iterator[_Part]:
    if section is None:
        return
    yield _Part("report_paths", PathRow, section.paths, {}, frozenset({"cells"}))
    cells = [(row.id, cell) for row in section.paths for cell in row.cells]
    yield _Part("report_path_cells", PathCell, [cell for _, cell in cells], {"path": [path for path, _ in cells]})
    yield _Part("report_gates", GateRow, section.gates, {})


def _devices(answer: Answer) -> Iterator[_Part]:
    devices, counters = answer.section(DevicesSection), answer.section(CountersSection)
    if devices:
        yield _Part("report_devices", DeviceRow, devices.device_time, {})
        yield _Part("report_unanswered", UnansweredRow, devices.unanswered, {})
    if idle := answer.section(IdleSection):
        yield _Part("report_idle", IdlePart, idle.parts, {})
    if counters:
        yield _Part("report_counters", CounterRow, counters.counters.rows, {})


def _beside(answer: Answer) -> Iterator[_Part]:
    queues, bench = answer.section(QueuesSection), answer.section(BenchSection)
    roofline, joined = answer.section(RooflineSection), answer.section(ClockSection)
    if queues:
        yield _Part("report_queues", QueueRow, queues.queue_rows, {})
    if bench:
        yield _Part("report_bench", BenchRow, bench.runs, {})
    if roofline:
        yield _Part("report_roofline", RooflineRow, roofline.roofline.rows, {})
    if joined:
        yield _Part("report_clocks", FileClock, joined.clocks, {})


def _findings(answer: Answer) -> Iterator[_Part]:
    yield _Part("report_findings", Finding, answer.findings, _bounds(answer.findings), frozenset({"evidence", "bound"}))
    shown = [(finding.id, each) for finding in answer.findings for each in finding.evidence]
    yield _Part("report_evidence", Evidence, [each for _, each in shown], {"finding": [name for name, _ in shown]})
    last = answer.section(BottleneckSection)
    if last:
        yield _Part("report_ranking", RankedRow, last.ranking, _bounds(last.ranking), frozenset({"bound"}))


def _bounds(rows: Iterable[Finding | RankedRow]) -> Extra:
    bounds = [row.bound for row in rows]
    return {
        "bound_low": [None if b is None else float(b.low) for b in bounds],
        "bound_high": [None if b is None else float(b.high) for b in bounds],
        "bound_formula": ["" if b is None else b.formula for b in bounds],
        "bound_arithmetic": ["" if b is None else "; ".join(b.arithmetic) for b in bounds],
    }


def _table(part: _Part) -> OutTable:
    hints = typing.get_type_hints(part.kind)
    columns = []
    for name, values in part.extra.items():
        kind = FLOAT if name in {"bound_low", "bound_high"} else TEXT
        columns.append(of_values(name, kind, "share, 0 to 1" if kind == FLOAT else "", "", values))
    for field in fields(part.kind):
        if field.name not in part.left_out:
            kind = _kind(hints[field.name])
            values = [_value(kind, getattr(row, field.name)) for row in part.rows]
            columns.append(of_values(field.name, kind, _unit(field.name), "", values))
    meaning = (part.kind.__doc__ or "").strip().partition("\n")[0]
    return OutTable(part.name, meaning, len(part.rows), tuple(columns))


def _kind(hint: Any) -> str:
    """``int | None`` -> int; tuples are lists; all else is text."""
    if isinstance(hint, types.UnionType):
        hint = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return {int: INTS, str: TEXTS}.get(typing.get_args(hint)[0], TEXT)
    return _KINDS.get(hint, TEXT)


def _value(kind: str, value: Any) -> Any:
    if value is None or kind == BOOL:
        return value
    if kind == INT:
        return int(value)
    if kind == FLOAT:
        return float(value)
    if kind == INTS:
        return tuple(int(each) for each in value)
    if kind == TEXTS:
        return tuple(safe(str(each)) for each in value)
    return value if isinstance(value, str) else json.dumps(_jsonable(value), default=str)


def _jsonable(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name == end or name.endswith(f"_{end}")), "")
