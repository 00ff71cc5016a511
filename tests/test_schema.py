"""docs/report.schema.json: what is written fits it, and it cannot drift from the dataclasses and the fixed words."""

from __future__ import annotations

import copy
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import report_builder as build
from tree import ROOT, shared_or_skip

from m3probe.model import bench_report, counter_report, live_report, path_report, roofline_report
from m3probe.model import findings as findings_module
from m3probe.model import report as report_module
from m3probe.present.json import report_json
from m3probe.schema import verdicts
from m3probe.schema.gates import GateState

TRACES = (
    "h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz",
    "h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz",
    "tracelens/inference/vllm_prefilldecode_piecewise",
    "tracelens/b200/eager_trace.json.gz",
    "cpu/tp2_moe",
)
WORDS: dict[str, type[StrEnum]] = {
    "trust_verdict": verdicts.Trust,
    "family": verdicts.Family,
    "phase": verdicts.Phase,
    "graph_mode": verdicts.GraphMode,
    "path_verdict": verdicts.PathVerdict,
    "evidence": verdicts.Evidence,
    "outcome": verdicts.Outcome,
    "gate_state": GateState,
}
# Their fields are keys of the document itself, not of a row in it.
SPREAD = (
    report_module.TrustSection,
    report_module.SummarySection,
    report_module.DevicesSection,
    report_module.ShapesSection,
    report_module.RepeatsSection,
    report_module.BytesSection,
    counter_report.CountersSection,
    roofline_report.RooflineSection,
    path_report.PathsSection,
    report_module.QueuesSection,
    report_module.BottleneckSection,
    report_module.ClockSection,
    report_module.Answer,
    report_module.Report,
)
NOT_WRITTEN = {"answer", "sections"}
JSON_TYPE = {int: "integer", float: "number", str: "string", bool: "boolean"}


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    return found


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report_json(build.full_report()))
    return found


def declared() -> list[type]:
    """Every dataclass of the report and of findings."""
    modules = (report_module, path_report, live_report, bench_report, counter_report, roofline_report, findings_module)
    both = [value for module in modules for value in vars(module).values()]
    return list(dict.fromkeys(kind for kind in both if isinstance(kind, type) and is_dataclass(kind)))


def objects(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every object of a document with its place."""
    if isinstance(value, dict):
        yield at, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*at, key))


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    ref = part.get("$ref")
    return part if ref is None else schema()["$defs"][ref.rpartition("/")[2]]


def fits(part: Mapping[str, Any], kind: Any) -> bool:
    """Whether a schema says what a field's annotation says."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in {types.UnionType, typing.Union}:
        inner = next(arg for arg in args if arg is not type(None))
        if "anyOf" in part:
            return {"type": "null"} in part["anyOf"] and fits(part["anyOf"][0], inner)
        return "null" in part["type"] and fits({**part, "type": part["type"][0]}, inner)
    if is_dataclass(kind):
        return bool(part.get("$ref") == f"#/$defs/{kind.__name__}")  # type: ignore[union-attr]
    if origin is tuple:
        return part["type"] == "array" and fits(part["items"], args[0])
    part = resolved(part)
    if origin is not None:
        return bool(part["type"] == "object")
    return ("enum" in part or "const" in part) if "type" not in part else bool(part["type"] == JSON_TYPE[kind])


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("report", [build.full_report(), build.hollow_report(), build.empty_report()])
def test_reports_written_by_hand_fit(report: report_module.Report) -> None:
    validator().validate(json.loads(report_json(report)))


@pytest.mark.parametrize("name", TRACES)
def test_reports_of_real_traces_fit(name: str) -> None:
    trace = shared_or_skip(f"traces/{name}")
    from m3probe import pipeline

    validator().validate(json.loads(report_json(pipeline.analyze([trace]))))


@pytest.mark.parametrize("sample", sorted((ROOT / "samples").glob("*.json.gz")), ids=lambda path: path.name)
def test_reports_of_the_bundled_samples_fit(sample: Path) -> None:
    from m3probe import pipeline

    validator().validate(json.loads(report_json(pipeline.analyze([sample]))))


def test_every_key_of_every_row_is_required() -> None:
    whole = document()
    open_maps = {("queues",), ("meta", "versions"), ("meta", "flags")}
    for place, value in objects(whole):
        if place in open_maps or (place and place[-1] in {"counts", "by_phase", "peak_tflops", "parts_ns", "left_out"}):
            continue
        for key in value:
            less = copy.deepcopy(whole)
            del at(less, place)[key]
            assert not validator().is_valid(less), (*place, key)


def test_no_key_may_be_added_to_a_row() -> None:
    whole = document()
    for place, _ in objects(whole):
        more = copy.deepcopy(whole)
        at(more, place)["something_else"] = []
        assert not validator().is_valid(more), place


@pytest.mark.parametrize(
    "place",
    [
        ("trust", "verdict"),
        ("paths", 0, "verdict"),
        ("paths", 0, "by_phase", "decode"),
        ("summary", "families", 0, "family"),
        ("summary", "phases", 0, "phase"),
        ("steps", 0, "graph_mode"),
        ("shapes", 0, "evidence"),
        ("repeats", 0, "family"),
        ("findings", 0, "confidence"),
        ("outcome",),
    ],
)
def test_a_word_that_is_not_fixed_is_refused(place: tuple[Any, ...]) -> None:
    wrong = document()
    at(wrong, place[:-1])[place[-1]] = "passed"
    assert not validator().is_valid(wrong)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("summary", "kernel_count"), None),
        (("summary", "kernel_time_ns"), 1.5),
        (("summary", "kernel_time_ns"), -1),
        (("summary", "families", 0, "share"), 60.0),
        (("findings", 1, "bound", "high"), 90),
        (("shapes", 0, "N"), "2560"),
        (("steps",), {}),
        (("findings",), None),
        (("schema_version",), "2"),
    ],
)
def test_a_figure_of_the_wrong_kind_is_refused(place: tuple[Any, ...], value: Any) -> None:
    wrong = document()
    at(wrong, place[:-1])[place[-1]] = value
    assert not validator().is_valid(wrong)


@pytest.mark.parametrize("name", WORDS)
def test_enums_are_the_fixed_words(name: str) -> None:
    assert schema()["$defs"][name]["enum"] == [str(word) for word in WORDS[name]]


@pytest.mark.parametrize("kind", [kind for kind in declared() if kind not in SPREAD], ids=lambda kind: kind.__name__)
def test_every_field_of_a_row_is_in_the_schema_with_its_type(kind: type) -> None:
    part = schema()["$defs"][kind.__name__]
    hints = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    assert (list(part["properties"]), part["required"]) == (names, names)
    assert part["additionalProperties"] is False
    assert [name for name in names if not fits(part["properties"][name], hints[name])] == []


@pytest.mark.parametrize("kind", SPREAD, ids=lambda kind: kind.__name__)
def test_every_field_of_a_section_is_a_key_of_the_document(kind: type) -> None:
    hints = typing.get_type_hints(kind)
    for name in {field.name for field in fields(kind)} - NOT_WRITTEN:
        part = schema()["properties"][name]
        # a section that was not answered is null, whatever its field may be
        inner = part["anyOf"][0] if "anyOf" in part else part
        bare = next((arg for arg in typing.get_args(hints[name]) if is_dataclass(arg)), hints[name])
        assert fits(inner, bare if "anyOf" in part and typing.get_origin(hints[name]) is not tuple else hints[name]), (
            name
        )


def test_the_document_has_no_key_that_no_section_has() -> None:
    known = {field.name for kind in SPREAD for field in fields(kind)} - NOT_WRITTEN
    assert set(schema()["properties"]) == set(schema()["required"]) == known | {"live", "bench", "idle"}


def test_every_key_is_described() -> None:
    text = (ROOT / "docs" / "report.md").read_text()
    keys = {*schema()["properties"]} | {
        key for part in schema()["$defs"].values() for key in part.get("properties", ())
    }
    assert sorted(key for key in keys if f"`{key}`" not in text) == []
